"""vLLM's V1 engine core: its block cache, its scheduler and its preemption, without a model.

Facts are from the source of vLLM 0.32.0 (``vllm/v1/core``). What is left out, and changes nothing that a law sees by
more than one forward pass: asynchronous scheduling (vLLM learns of an end one pass late, so that an ended request
keeps its blocks and computes one token in vain, and a new one waits for a pass more), speculative decoding, sliding
windows, connectors.
"""

from __future__ import annotations

from concur_agents.emulator.vllm.blocks import BlockPool
from concur_agents.emulator.vllm.config import VllmConfig
from concur_agents.emulator.vllm.scheduler import VllmScheduler
from concur_agents.emulator.vllm.stats import VllmStats

__all__ = ["BlockPool", "VllmConfig", "VllmScheduler", "VllmStats"]
