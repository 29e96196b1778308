"""What a few repeats say of the mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

__all__ = ["Interval", "interval", "ratio_interval"]

# Student's t, two-sided 95%, by degrees of freedom; beyond the last, what is between it and the normal's 1.96.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean, and where it lies with 95% confidence; both ends are None of a single value, which says nothing of it."""

    mean: float
    low: float | None = None
    high: float | None = None


def interval(values: Sequence[float]) -> Interval | None:
    """Of values that scatter about their mean as a normal distribution does; None of none."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean=mean)
    half = _t(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean=mean, low=mean - half, high=mean + half)


def ratio_interval(ratios: Sequence[float]) -> Interval | None:
    """Of ratios: their geometric mean, since twice as fast and half as fast are as far from 1. Each above 0."""
    found = interval([math.log(ratio) for ratio in ratios])
    if found is None:
        return None
    ends = (None if end is None else math.exp(end) for end in (found.low, found.high))
    low, high = ends
    return Interval(mean=math.exp(found.mean), low=low, high=high)


def _t(freedom: int) -> float:
    if freedom <= len(_T):
        return _T[freedom - 1]
    return _NORMAL + (_T[-1] - _NORMAL) * len(_T) / freedom
