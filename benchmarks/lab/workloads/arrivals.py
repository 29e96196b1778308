"""Agents that arrive over time, one by one, independent of each other (a Poisson process).

The sessions are those of ``swe``. They come faster than the smallest engine gets through them, so that a queue builds
up during the first half and empties afterwards, and slower than the largest does, where nothing is to be gained.
"""

from __future__ import annotations

import random
from dataclasses import replace

from benchmarks.lab.batch import Batch
from benchmarks.lab.workloads.base import Workload, each
from benchmarks.lab.workloads.swe import swe_plan

__all__ = ["ARRIVALS", "GAP_S"]

GAP_S = 40.0
"""Mean seconds between two arrivals. Chosen: with a token budget, Qwen3-32B at TP 2 ends one such agent every 65 s."""


def _make(rng: random.Random, agents: int) -> Batch:
    gaps, now, arrivals = random.Random(rng.getrandbits(64)), 0.0, []
    for _ in range(agents):
        now += gaps.expovariate(1 / GAP_S)
        arrivals.append(now)
    return Batch.of(
        each(rng, agents, lambda own, index: replace(swe_plan(own, f"arrival-{index}"), arrival_s=arrivals[index]))
    )


ARRIVALS = Workload(
    name="arrivals",
    about="swe agents that arrive one by one, every 40 s on average",
    agents=80,
    make=_make,
    source="as swe; rate chosen",
)
