"""An inference engine without a model: SGLang's scheduler, prefix cache and HTTP API, at any speed.

It imports nothing of Concur, so that it stays an independent check. See ``README.md`` beside this file.
"""

from __future__ import annotations

from concur_agents.emulator.config import EngineConfig
from concur_agents.emulator.cost import CostModel
from concur_agents.emulator.embed import Emulator
from concur_agents.emulator.hicache import HiCacheConfig
from concur_agents.emulator.presets import PRESETS, Preset
from concur_agents.emulator.request import FinishReason, Request
from concur_agents.emulator.results import QueueFullError, StepKind, StepResult, TooLongError
from concur_agents.emulator.scheduler import Scheduler
from concur_agents.emulator.service import ServiceConfig

__all__ = [
    "PRESETS",
    "CostModel",
    "Emulator",
    "EngineConfig",
    "FinishReason",
    "HiCacheConfig",
    "Preset",
    "QueueFullError",
    "Request",
    "Scheduler",
    "ServiceConfig",
    "StepKind",
    "StepResult",
    "TooLongError",
]
