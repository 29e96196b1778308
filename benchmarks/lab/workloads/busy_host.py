"""Agents as in ``react-10`` whose tools are test runs on 16 cores, which set the pace instead of the engine.

Nothing is to be gained by more agents at a time there: their tools only wait in line for longer. A law must not take
that waiting for room that others need more.
"""

from __future__ import annotations

import random
from dataclasses import replace

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Workload, each
from benchmarks.lab.workloads.react import REACT_SESSIONS, SHARED

__all__ = ["BUSY_HOST"]

CORES = 16  # chosen: 256 sandboxes on a small machine
SLOWER = 10.0  # chosen: half of the test runs take over 10 s
BUSY_SESSIONS = replace(REACT_SESSIONS, tool_s=REACT_SESSIONS.tool_s.times(SLOWER))


def _make(rng: random.Random, agents: int) -> Batch:
    plans = each(rng, agents, lambda own, index: Plan(f"busy-{index}", BUSY_SESSIONS.draw(own), prefix_tokens=SHARED))
    return Batch.of(plans, cores=CORES)


BUSY_HOST = Workload(
    name="busy-host",
    about="as react-10 with tests for tools, on 16 cores that set the pace",
    agents=256,
    make=_make,
    source="as react-10; tool times stretched, cores chosen",
)
