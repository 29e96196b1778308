"""Tools that take seconds, and now and then ten minutes: 1% of the steps hold a third of all tool time.

Sessions as in ``swe``, whose recorded tool times have that share (0.98% of steps, over 5 s, hold 36%), stretched so
that the longest takes 10 minutes, the most that Claude Code lets a command run. Half of the commands then take over
2.3 s, as where a sandbox is on another machine and tests are part of most steps.
"""

from __future__ import annotations

import random
from dataclasses import replace

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Workload, each
from benchmarks.lab.workloads.swe import SHARED, SWE_SESSIONS

__all__ = ["SLOW_TOOLS"]

LONGEST_S = 600.0
SLOW_SESSIONS = replace(SWE_SESSIONS, tool_s=SWE_SESSIONS.tool_s.times(LONGEST_S / SWE_SESSIONS.tool_s.at(1)))


def _make(rng: random.Random, agents: int) -> Batch:
    return Batch.of(
        each(rng, agents, lambda own, index: Plan(f"slow-{index}", SLOW_SESSIONS.draw(own), prefix_tokens=SHARED))
    )


SLOW_TOOLS = Workload(
    name="slow-tools",
    about="as swe with tools nine times slower, up to 10 minutes: 1% of steps hold a third of tool time",
    agents=80,
    make=_make,
    source="as swe; tool times stretched",
)
