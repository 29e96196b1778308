"""One cell over time: hit rate, usage, and what the engine spends its seconds on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from benchmarks.lab.cells import Cell, Key
from benchmarks.lab.engines import get_engine
from benchmarks.lab.paper.cells import make_arm, make_batch
from benchmarks.lab.paper.watch import Point, Watch
from benchmarks.lab.simulate import simulate

__all__ = ["BINS", "Trace", "run_trace"]

BINS = 160
"""Points of a trace: as many as a picture shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One cell in bins of equal length. A share is None where there was nothing to take it of."""

    workload: str
    engine: str
    arm: str
    seed: int
    agents: int
    code: str
    makespan_s: float
    recomputing_s: float
    """Engine seconds that prefill would have been shorter by, had every context been found."""
    prefill_s: float
    """The other seconds of prefill."""
    decode_s: float
    hit_rate: Sequence[float | None]
    """Of the tokens looked up in a bin, the share found."""
    pinned: Sequence[float | None]
    """Mean share of the pool that running requests hold."""
    occupied: Sequence[float | None]
    """The same with the cache."""
    window: Sequence[float | None]
    """Mean window, in agents, at most the batch; None where there is no controller."""
    recomputing: Sequence[float]
    """Of a bin's seconds, the share spent on recomputing."""
    queries: Sequence[int]
    """Tokens looked up."""

    @property
    def key(self) -> Key:
        """As :attr:`Cell.key`."""
        return (self.workload, self.engine, self.arm, self.seed, self.agents)

    @property
    def idle_s(self) -> float:
        """Seconds in which every agent was in a tool, or none might go on."""
        return max(0.0, self.makespan_s - self.recomputing_s - self.prefill_s - self.decode_s)

    @property
    def recomputing_share(self) -> float:
        """Of the makespan."""
        return self.recomputing_s / self.makespan_s

    def middle(self) -> tuple[int, int] | None:
        """The middle phase: from the first to behind the last bin that finds less than half; None if none does.

        The first bins are left out while usage is still rising to nine tenths: a cold start finds nothing either.
        """
        full = next((i for i, usage in enumerate(self.occupied) if usage is not None and usage >= 0.9), None)
        if full is None:
            return None
        low = [i for i, rate in enumerate(self.hit_rate) if i >= full and rate is not None and rate < 0.5]
        return (low[0], low[-1] + 1) if low else None

    def hit_rate_in(self, first: int, last: int) -> float | None:
        """Hit rate of the bins ``first <= i < last`` together; None where nothing was looked up."""
        asked = sum(self.queries[first:last])
        found = sum((self.hit_rate[i] or 0.0) * self.queries[i] for i in range(first, last))
        return found / asked if asked else None

    def span(self, which: Sequence[float | None], first: int, last: int) -> tuple[float, float] | None:
        """The 10% and 90% of the bins ``first <= i < last``; None where none is known."""
        known = sorted(value for value in which[first:last] if value is not None)
        return (known[len(known) // 10], known[-1 - len(known) // 10]) if known else None


def run_trace(cell: Cell, code: str, *, bins: int = BINS) -> Trace:
    """Run a cell, and watch it.

    Args:
        cell: which; its engine must be SGLang's kind.
        code: of :func:`~benchmarks.lab.paper.cells.paper_code`.
        bins: how many. >= 1.
    """
    batch, engine, arm = make_batch(cell.workload, cell.seed, cell.agents), get_engine(cell.engine), make_arm(cell.arm)
    watch = Watch(batch)
    makespan = simulate(batch, replace(engine, build=watch.scheduler), watch.arm(arm)).makespan_s
    return Trace(
        workload=cell.workload,
        engine=cell.engine,
        arm=cell.arm,
        seed=cell.seed,
        agents=cell.agents,
        code=code,
        makespan_s=round(makespan, 2),
        recomputing_s=round(sum(again for _, again in watch.again), 2),
        prefill_s=round(watch.prefill_s - sum(again for _, again in watch.again), 2),
        decode_s=round(watch.decode_s, 2),
        **_binned(watch, makespan, bins, cell.agents),
    )


def _binned(watch: Watch, makespan: float, bins: int, agents: int) -> dict[str, Any]:
    width = makespan / bins
    inside: list[list[Point]] = [[] for _ in range(bins)]
    for point in watch.points:
        inside[min(bins - 1, int(point.at_s / width))].append(point)
    again = [0.0] * bins
    for at, seconds in watch.again:
        again[min(bins - 1, int(at / width))] += seconds
    ends = [Point(0.0, 0.0, 0.0, 0.0, 0.0, None)]
    for points in inside:
        ends.append(points[-1] if points else ends[-1])
    deltas = [(now.hits - before.hits, now.queries - before.queries) for before, now in pairwise(ends)]
    windows = [[point.window for point in points if point.window is not None] for points in inside]
    return {
        "hit_rate": [round(hits / queries, 3) if queries else None for hits, queries in deltas],
        "pinned": [_mean([point.pinned for point in points]) for points in inside],
        "occupied": [_mean([point.occupied for point in points]) for points in inside],
        "window": [_mean([min(window, agents) for window in some]) for some in windows],
        "recomputing": [round(seconds / width, 3) for seconds in again],
        "queries": [int(queries) for _, queries in deltas],
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), 3) if values else None
