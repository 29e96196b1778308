"""Choosing among the counters from which a hit rate can be taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["HitCounter", "first_counting"]


class HitCounter(NamedTuple):
    """Prompt tokens found in the cache, and looked up, since the engine started."""

    name: str | None
    hits: float | None
    queries: float | None


def first_counting(counters: Iterable[HitCounter]) -> HitCounter:
    """Return the first that has counted anything, else the first that is there at all, else an unknown one.

    Some versions create a family that nothing ever counts in: it must not hide the next best. A family with more hits
    than queries, or with either unknown, cannot be used.
    """
    usable = [
        counter
        for counter in counters
        if counter.hits is not None and counter.queries is not None and counter.hits <= counter.queries
    ]
    counting = (counter for counter in usable if counter.queries)
    return next(counting, usable[0] if usable else HitCounter(None, None, None))
