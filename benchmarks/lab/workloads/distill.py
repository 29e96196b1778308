"""Distillation: reasoning written out at length, a few times through a tool. Decode is most of the work.

Of their lengths only the limit is published: OpenR1-Math-220k let DeepSeek-R1 write up to 16,000 tokens a trace. The
rest is chosen. Contexts here grow by their own outputs, while a request runs: an engine may run out of room in the
middle of one, and has to retract.
"""

from __future__ import annotations

import random

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Quantiles, Workload, each
from benchmarks.lab.workloads.sessions import Sessions

__all__ = ["DISTILL"]

DISTILL_SESSIONS = Sessions(
    steps=Quantiles((0, 0.51), (0.3, 1.5), (0.8, 3), (1, 4.49)),  # chosen: three in ten need no tool
    first=Quantiles((0, 250), (0.1, 300), (0.5, 450), (0.9, 900), (1, 2000)),  # chosen: a problem
    output=Quantiles((0, 500), (0.1, 1500), (0.5, 4000), (0.9, 10_000), (1, 16_000)),  # the most: OpenR1's limit
    output_session=0.5,  # chosen: hard problems take long at each step
    added=Quantiles((0, 20), (0.5, 100), (1, 1000)),  # chosen: what a few lines of Python print
    tool_s=Quantiles((0, 0.1), (0.5, 0.5), (0.9, 2), (1, 10)),  # chosen: as long as they run
)
SHARED = 200  # chosen: instructions


def _make(rng: random.Random, agents: int) -> Batch:
    return Batch.of(
        each(rng, agents, lambda own, index: Plan(f"distill-{index}", DISTILL_SESSIONS.draw(own), prefix_tokens=SHARED))
    )


DISTILL = Workload(
    name="distill",
    about="reasoning of 1,500 to 10,000 tokens a step, 1 to 4 steps, quick tools",
    agents=256,
    make=_make,
    source="limit of OpenR1-Math-220k; the rest chosen",
)
