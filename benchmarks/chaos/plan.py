"""What the plans of both kinds of run are made of: steps, faults, and what the engine does wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = [
    "LONG_STALL",
    "METRICS",
    "SHARED_PROMPT",
    "STEP_FAULTS",
    "EnginePlan",
    "Fault",
    "RunPlan",
    "StepPlan",
    "draw_metrics_faults",
    "draw_step",
]

METRICS: Final = ("hang", "gone", "error", "empty", "html", "half", "nan", "drop")
"""What is wrong with the engine's metrics."""
STEP_FAULTS: Final = ("error", "busy", "drop", "cut", "stall", "stall")
"""What happens to the first execution of a step: HTTP 500 or 503, the connection dropped before the reply, the reply
cut in the middle, or a late start. In runs of a shared controller also ``LONG_STALL``."""
LONG_STALL: Final = "long stall"
"""A start so late that a server may be killed and be back meanwhile."""
SHARED_PROMPT: Final = "You are an agent. Use the shell, one command at a time, and say when you are done. "


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One model call, and the tool after it."""

    said: int
    """Characters that the agent adds to its conversation before the call."""
    output: int | None
    """Tokens of the reply; None for as many as the model likes, after which it looks as if it were done."""
    tool_s: float
    fault: str | None
    """One of ``STEP_FAULTS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong at a moment."""

    at_s: float
    """After all servers are there."""
    kind: str
    """What, of those that the kind of run knows; or ``metrics``."""
    lasts_s: float = 0.0
    """Until the process runs again, what was held up passes, or metrics are right again."""
    who: int | None = None
    """Which client or worker, where it is one's."""
    metrics: str = ""
    """One of ``METRICS``."""
    by_s: float = 0.0
    """By how much a clock jumps."""
    at_work: bool = False
    """Whether it waits until one of the agents concerned generates."""

    def __str__(self) -> str:
        words = [self.kind, *([] if self.who is None else [str(self.who)]), self.metrics]
        if self.by_s:
            words.append(f"by {self.by_s:g} s")
        elif self.lasts_s and self.kind.split()[0] in ("stop", "hold", "cut-off"):
            words.append(f"for {self.lasts_s:g} s")
        return " ".join(filter(None, words))


class EnginePlan(Protocol):
    """What the engine's process takes of a plan."""

    @property
    def pool(self) -> int:
        """Tokens of the KV pool."""

    @property
    def speedup(self) -> float:
        """Of the emulated model."""

    def step(self, agent: str, number: int) -> StepPlan | None:
        """A step of an agent; None where there is none."""


class RunPlan(EnginePlan, Protocol):
    """What the command takes of a plan."""

    @property
    def seed(self) -> int:
        """It was drawn from."""

    @property
    def law(self) -> str:
        """The controller's."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """In order of time."""

    def steps(self) -> tuple[tuple[StepPlan, ...], ...]:
        """Every agent's."""


def draw_step(random_: random.Random, said: int | None) -> StepPlan:
    """One step.

    Args:
        random_: drawn from.
        said: characters that the agent adds; None for any number.
    """
    return StepPlan(
        said=random_.randint(10, 800) if said is None else said,
        output=None if random_.random() < 0.1 else random_.randint(5, 60),
        tool_s=round(random_.choice((0.0, 0.05, 0.2, 0.5)) * random_.random(), 3),
        fault=random_.choice(STEP_FAULTS) if random_.random() < 0.12 else None,
    )


def draw_metrics_faults(random_: random.Random, within_s: float) -> list[Fault]:
    """Up to two times in which metrics are wrong."""
    faults = []
    for _ in range(random_.randrange(3)):
        at_s = round(random_.uniform(0.0, within_s), 3)
        lasts_s = round(random_.uniform(0.2, 2.0), 3)
        faults.append(Fault(at_s=at_s, kind="metrics", lasts_s=lasts_s, metrics=random_.choice(METRICS)))
    return faults
