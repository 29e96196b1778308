"""What the scheduler answers: the outcome of a step, and why it will not take a request."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from concur_agents.emulator.request import Request

__all__ = ["QueueFullError", "StepKind", "StepResult", "TooLongError"]


class TooLongError(ValueError):
    """The prompt can never fit. The message is SGLang's."""


class QueueFullError(RuntimeError):
    """As many requests wait as may wait."""


class StepKind(enum.StrEnum):
    """What a forward pass did."""

    PREFILL = "prefill"
    DECODE = "decode"
    IDLE = "idle"
    """Nothing; unless requests were just retracted, there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What ``Scheduler.step`` did."""

    kind: StepKind
    duration_s: float = 0.0
    """Engine seconds."""
    steps: int = 0
    """Forward passes: more than one where decode steps were taken together."""
    advanced: Sequence[Request] = ()
    """Requests that have new output (ask ``Scheduler.output_len``); read it before the next step."""
    finished: Sequence[Request] = ()
