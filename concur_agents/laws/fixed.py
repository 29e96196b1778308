"""Laws that look at nothing: the baselines."""

from __future__ import annotations

import math
from dataclasses import dataclass

from concur_agents.laws._checks import check_at_least
from concur_agents.laws.base import Decision
from concur_agents.samples import EngineSample, Population, Reason

__all__ = ["FixedWindow", "Uncontrolled"]


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """Always ``n`` agents: what a user finds by sweeping.

    Raises:
        ValueError: ``n`` is below 1 or no number.
    """

    n: float
    """Agents. >= 1."""

    def __post_init__(self) -> None:
        check_at_least(self, "n", 1)

    @property
    def initial(self) -> float:
        """``n``."""
        return self.n

    def decide(self, sample: EngineSample, population: Population) -> Decision:  # noqa: ARG002 - a law's signature
        """``n``, whatever was seen."""
        return Decision(self.n, Reason.FIXED)


@dataclass(frozen=True, slots=True)
class Uncontrolled:
    """No limit: what happens without Concur, with Concur's eyes."""

    @property
    def initial(self) -> float:
        """``inf``."""
        return math.inf

    def decide(self, sample: EngineSample, population: Population) -> Decision:  # noqa: ARG002 - a law's signature
        """``inf``, whatever was seen."""
        return Decision(math.inf, Reason.FIXED)
