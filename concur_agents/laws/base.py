"""What a control law is: one pure method from what was seen to how many agents may be seated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from concur_agents.samples import EngineSample, Population, Reason

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
    ahead: float = 0.0
    """How much growth of each agent to look ahead: a seat is granted only if what all are going to hold at most, until
    those who last have grown by so many tokens, fits into ``tokens`` too."""
    patience_s: float = math.inf
    """Seconds in a tool after which an agent loses its seat to one that waits."""


class Law(Protocol):
    """A control law. Pure: no clock, no I/O, no attribute is ever changed.

    A law that has to remember earlier samples returns its successor in :attr:`Decision.law`; so one law object may
    serve any number of controllers. It is called at most once a tick, and meets ``None`` for whatever the
    engine does not say: then it returns the window as it is, with :attr:`Reason.UNKNOWN` when it can say nothing at all
    without. If that lasts ``stale_after`` seconds the controller goes to its fallback window.

    In a tick without a fresh sample it is asked with an empty one: a law that can go on by what is known of the agents
    does, and one that cannot says :attr:`Reason.UNKNOWN`, and is shown the same agents again with the next sample.
    """

    @property
    def initial(self) -> float:
        """The window before the first sample, in agents."""
        ...

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        """Choose the next window from the one in force (``population.window``)."""
        ...
