"""Putting the series of one family together: replicas, data-parallel ranks, priorities, units.

Inside one (worker, data-parallel rank) every tensor, pipeline and expert rank, and every process, reports the same
pool: the largest counts, once. Across data-parallel ranks and workers the pools differ: counts add up, usages do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from concur_agents.engines.exposition import Point

__all__ = ["by_rank", "is_rank", "pool_tokens", "summed", "summed_all", "to_count", "usages"]

# The worker in a body that a router put together: SGLang's writes worker_addr, Ray WorkerId, federation instance.
_WORKER_LABELS = ("worker_addr", "worker", "worker_id", "WorkerId", "instance")
# SGLang's data-parallel rank, and vLLM's.
_RANK_LABELS = ("dp_rank", "engine")
# Engines round usages to two digits, so a full pool may read a little above 1; from here on it must be percent.
_PERCENT_FROM = 1.01
# The same slack on the scale 0..100.
_PERCENT_TO = 101.0


def by_rank(points: Iterable[Point]) -> dict[str, float | None]:
    """One value per data-parallel rank, in the ranks' order; None where the rank reports nothing usable.

    Under SGLang's priority scheduling the series ``priority=""`` is the total and the others repeat its parts: it
    alone counts. Where only parts are there they are added up.
    """
    parts: dict[str, dict[str, float | None]] = {}
    for labels, value in points:
        known = parts.setdefault(_rank(labels), {})
        priority = labels.get("priority", "")
        known[priority] = _larger(known.get(priority), value)
    return {
        rank: known[""] if "" in known else _add(known.values())
        for rank, known in sorted(parts.items(), key=lambda item: (len(item[0]), item[0]))
    }


def is_rank(labels: Mapping[str, str], rank: int) -> bool:
    """Whether a series is of that data-parallel rank, or does not say of which."""
    said = next((labels[label] for label in _RANK_LABELS if labels.get(label)), None)
    return said is None or said == str(rank)


def summed(points: Iterable[Point]) -> float | None:
    """Sum over data-parallel ranks; unknown when any of them is, or when there is none."""
    return _add(by_rank(points).values())


def summed_all(points: Iterable[Point]) -> float | None:
    """Plain sum over every series, for families whose labels all split the total."""
    return _add(value for _, value in points)


def usages(points: Iterable[Point]) -> dict[str, float]:
    """Share per rank, 0..1. Ranks with nothing usable are left out. One family has one unit: 0..1 or 0..100."""
    known = {rank: value for rank, value in by_rank(points).items() if value is not None and value <= _PERCENT_TO}
    unit = 100 if known and max(known.values()) > _PERCENT_FROM else 1
    return {rank: min(1.0, value / unit) for rank, value in known.items()}


def pool_tokens(sizes: Mapping[str, float | None], usages: Mapping[str, float]) -> int | None:
    """Sum of the ranks' pools, in tokens.

    Unknown where a rank that reports usage does not report its pool; a size of 0 is one not written yet.
    """
    known = [size for size in sizes.values() if size]
    return round(sum(known)) if known and len(known) == len(sizes) and usages.keys() <= sizes.keys() else None


def to_count(value: float | None) -> int | None:
    """As a whole number."""
    return None if value is None else round(value)


def _rank(labels: Mapping[str, str]) -> str:
    worker = next((labels[label] for label in _WORKER_LABELS if labels.get(label)), "")
    rank = next((labels[label] for label in _RANK_LABELS if labels.get(label)), "0")
    return f"{worker}/{rank}" if worker else rank


def _larger(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _add(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None
