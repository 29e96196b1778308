"""What a workload is, and the random numbers it is made of."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.lab.batch import Batch

__all__ = ["Quantiles", "Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One named kind of batch."""

    name: str
    about: str
    """One line: what it stands for."""
    agents: int
    """How many by default."""
    make: Callable[[random.Random, int], Batch]
    """A batch of so many agents; the same for the same random numbers."""

    def batch(self, seed: int, agents: int | None = None) -> Batch:
        """The batch of a seed.

        Raises:
            ValueError: ``agents`` is below 1.
        """
        count = self.agents if agents is None else agents
        if count < 1:
            raise ValueError(f"agents must be at least 1, got {count}")
        return self.make(random.Random(f"{self.name}/{seed}"), count)


class Quantiles:
    """A distribution known by some of its quantiles: between them the logarithm of the value grows evenly.

    Args:
        points: (share, value) pairs in growing order of both, the first at 0 and the last at 1; values above 0.
    """

    def __init__(self, *points: tuple[float, float]) -> None:
        self._shares = [share for share, _ in points]
        self._logs = [math.log(value) for _, value in points]
        if self._shares[0] != 0 or self._shares[-1] != 1:
            raise ValueError(f"quantiles must begin at 0 and end at 1, got {points}")
        if sorted(self._shares) != self._shares or sorted(self._logs) != self._logs:
            raise ValueError(f"quantiles must not fall, got {points}")

    def at(self, share: float) -> float:
        """The value below which that share lies."""
        upper = min(bisect_right(self._shares, share), len(self._shares) - 1)
        low, high = self._shares[upper - 1], self._shares[upper]
        part = (share - low) / (high - low) if high > low else 1.0
        return math.exp(self._logs[upper - 1] + part * (self._logs[upper] - self._logs[upper - 1]))

    def draw(self, rng: random.Random) -> float:
        """One value."""
        return self.at(rng.random())

    def draw_int(self, rng: random.Random) -> int:
        """One value, as a whole number of at least 1."""
        return max(1, round(self.draw(rng)))
