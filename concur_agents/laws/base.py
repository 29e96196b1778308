"""What a control law is: one pure method from what was seen to how many agents may be seated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from concur_agents.samples import NO_GROWTH, EngineSample, Growth, Population, Reason

__all__ = ["Decision", "Law"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a law wants."""

    window: float
    """Agents that may be seated; ``inf`` for no limit. Admission rounds down and never goes below 1."""
    reason: Reason
    law: Law | None = None
    """The law that decides next time, for a law that remembers; None: the same again."""
    tokens: float = math.inf
    """Tokens that all seated agents may hold together; ``inf`` for no limit."""
    growth: Growth = NO_GROWTH
    """What they are going to grow by: a seat is granted only if its share of that fits too."""


class Law(Protocol):
    """A control law. Pure: no clock, no I/O, no attribute is ever changed.

    A law that has to remember earlier samples returns its successor in :attr:`Decision.law`; so one law object may
    serve any number of controllers. It is called at most once per fresh sample, and meets ``None`` for whatever the
    engine does not say: then it returns the window as it is, with :attr:`Reason.UNKNOWN` when it can say nothing at all
    without. If that lasts ``stale_after`` seconds the controller goes to its fallback window, so a law that needs no
    sample must say :attr:`Reason.FIXED` instead.
    """

    @property
    def initial(self) -> float:
        """The window before the first sample, in agents."""
        ...

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        """Choose the next window from the one in force (``population.window``)."""
        ...
