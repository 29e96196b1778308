"""Distributions known by some of their quantiles."""

from __future__ import annotations

import math
import random
from bisect import bisect_right

__all__ = ["Quantiles"]


class Quantiles:
    """A distribution known by some of its quantiles: between two of them the logarithm of the value grows evenly.

    Between two that are not both above 0 the value itself does.

    Args:
        points: (share, value) pairs in growing order of both, the first at 0 and the last at 1.

    Raises:
        ValueError: the points do not span 0 to 1, or fall.
    """

    def __init__(self, *points: tuple[float, float]) -> None:
        self.points = points
        self._shares = [share for share, _ in points]
        self._values = [value for _, value in points]
        if not points or self._shares[0] != 0 or self._shares[-1] != 1:
            raise ValueError(f"quantiles must begin at 0 and end at 1, got {points}")
        if sorted(self._shares) != self._shares or sorted(self._values) != self._values:
            raise ValueError(f"quantiles must not fall, got {points}")

    def at(self, share: float) -> float:
        """The value below which that share lies, for a share of 0 to 1."""
        upper = min(bisect_right(self._shares, share), len(self._shares) - 1)
        left, right = self._shares[upper - 1], self._shares[upper]
        low, high = self._values[upper - 1], self._values[upper]
        part = (share - left) / (right - left) if right > left else 1.0
        if low > 0:
            return math.exp((1 - part) * math.log(low) + part * math.log(high))
        return low + part * (high - low)

    def times(self, factor: float) -> Quantiles:
        """The same with every value so many times as large; ``factor`` above 0."""
        return Quantiles(*((share, value * factor) for share, value in self.points))

    def draw(self, rng: random.Random) -> float:
        """One value."""
        return self.at(rng.random())

    def draw_int(self, rng: random.Random) -> int:
        """One value, as a whole number of at least 1."""
        return max(1, round(self.draw(rng)))
