"""What the policy needs to know of one engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from concur_agents.samples import EngineSample, Stats

__all__ = ["EngineLoad", "Refill"]

_SAMPLES = 4
"""Readings to measure prefill speed over: engines count whole chunks, and one more or less must not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """One engine at one moment. What is unknown is None, and what has no limit is ``inf``."""

    waiting: int = 0
    """Agents that wait for a seat there."""
    seated: int = 0
    """Agents that hold one."""
    held: float = 0.0
    """Tokens that they hold."""
    window: float = math.inf
    """Agents that may be seated."""
    tokens: float = math.inf
    """Tokens that may be held."""
    capacity: float | None = None
    """Tokens in its KV pool."""
    refill_s: float | None = None
    """Seconds in which it prefills its whole pool: what is not used for so long is taken to be evicted."""

    @classmethod
    def of(cls, stats: Stats, refill_s: float | None = None) -> Self:
        """As a controller's statistics say it."""
        population = stats.population
        return cls(
            waiting=population.waiting,
            seated=population.seated,
            held=population.held,
            window=stats.window,
            tokens=population.tokens,
            capacity=None if stats.sample is None else stats.sample.capacity_tokens,
            refill_s=refill_s,
        )

    def has_room(self, footprint: float) -> bool:
        """Whether one more agent of so many tokens would get a seat at once."""
        most = self.tokens if math.isfinite(self.tokens) or self.capacity is None else self.capacity
        return self.waiting == 0 and self.seated + 1 <= self.window and self.held + footprint <= most


class Refill:
    """Measures how long an engine takes to prefill its whole pool, from the fastest prefill seen."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        """None while unknown."""
        self._last: EngineSample | None = None
        self._fastest = 0.0
        self._computed = self._elapsed = 0.0
        self._samples = 0

    def see(self, sample: EngineSample | None) -> None:
        """Take the latest sample with deltas; the same one again counts once."""
        if sample is None or sample is self._last:
            return
        self._last = sample
        if sample.computed is None or not sample.elapsed_s:
            return
        self._computed += sample.computed
        self._elapsed += sample.elapsed_s
        self._samples += 1
        if self._samples == _SAMPLES:
            self._fastest = max(self._fastest, self._computed / self._elapsed)
            self._computed = self._elapsed = 0.0
            self._samples = 0
        if self._fastest and sample.capacity_tokens:
            self.seconds = sample.capacity_tokens / self._fastest
