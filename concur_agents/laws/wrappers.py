"""Laws around laws: each changes what the inner law sees, or what it wants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from concur_agents.laws._checks import check_at_least, check_range
from concur_agents.laws.base import Decision, Law
from concur_agents.samples import EngineSample, Population, Reason

__all__ = ["Clamped", "Smoothed"]


@dataclass(frozen=True, slots=True)
class Clamped:
    """Keeps the inner law's window within ``low``..``high``; says :attr:`Reason.CLAMPED` when that changed it.

    A law that looked at nothing stays :attr:`Reason.FIXED`, and one that knew nothing :attr:`Reason.UNKNOWN`: the
    controller treats missing readings by it.

    Raises:
        ValueError: ``low`` is below 1, or ``high`` below ``low``.
    """

    law: Law
    low: float = 1.0
    """Agents. >= 1."""
    high: float = math.inf
    """Agents. >= ``low``."""

    def __post_init__(self) -> None:
        check_at_least(self, "low", 1)
        check_at_least(self, "high", self.low)

    @property
    def initial(self) -> float:
        """The inner law's, clamped."""
        return self._clamp(self.law.initial)

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        """The inner law's decision, clamped."""
        inner = self.law.decide(sample, population)
        window = self._clamp(inner.window)
        kept = window == inner.window or inner.reason in (Reason.FIXED, Reason.UNKNOWN)
        return replace(
            inner,
            window=window,
            reason=inner.reason if kept else Reason.CLAMPED,
            law=replace(self, law=inner.law) if inner.law is not None else None,
        )

    def _clamp(self, window: float) -> float:
        return min(max(window, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Smoothed:
    """Shows the inner law exponentially weighted pinned usage, hit rate and reuse instead of single readings.

    Pinned usage swings over its whole range within seconds (README beside the package, "what the field taught", 2). An
    unknown reading leaves the average as it was, and stays unknown to the inner law.

    Raises:
        ValueError: ``weight`` is not in (0, 1].
    """

    law: Law
    weight: float = 0.3
    """Of the newest reading. (0, 1]; 1 is no smoothing."""
    usage: float | None = None
    """Average pinned usage so far; None in a law that has seen nothing."""
    hit_rate: float | None = None
    """Average hit rate so far; None in a law that has seen nothing."""
    reuse: float | None = None
    """Average reuse so far; None in a law that has seen nothing."""

    def __post_init__(self) -> None:
        check_range(self, "weight", 0, 1, open_low=True)

    @property
    def initial(self) -> float:
        """The inner law's."""
        return self.law.initial

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        """The inner law's decision on the averages."""
        past = replace(self, usage=None, hit_rate=None, reuse=None) if sample.restarted else self
        usage = past._average(sample.pinned_usage, past.usage)
        hit_rate = past._average(sample.hit_rate, past.hit_rate)
        reuse = past._average(population.reuse, past.reuse)
        inner = self.law.decide(
            replace(sample, pinned_usage=usage, hit_rate=hit_rate), replace(population, reuse=reuse)
        )
        successor = replace(
            past,
            law=inner.law or self.law,
            usage=past.usage if usage is None else usage,
            hit_rate=past.hit_rate if hit_rate is None else hit_rate,
            reuse=past.reuse if reuse is None else reuse,
        )
        return replace(inner, law=successor)

    def _average(self, now: float | None, before: float | None) -> float | None:
        # In this form a weight of 1 is exactly the newest reading, so that thresholds are met as without smoothing.
        return now if now is None or before is None else (1 - self.weight) * before + self.weight * now
