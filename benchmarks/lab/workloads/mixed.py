"""Short and long agents at once: SWE-bench sessions and short ReAct agents, each kind with a prefix of its own.

A law that counts agents, or takes their mean for each, is wrong about both kinds.
"""

from __future__ import annotations

import random

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Workload, each
from benchmarks.lab.workloads.react import react_plan
from benchmarks.lab.workloads.swe import swe_plan

__all__ = ["MIXED"]


def _make(rng: random.Random, agents: int) -> Batch:
    shuffle = rng.getrandbits(64)

    def plan(own: random.Random, index: int) -> Plan:
        # Of each two neighbours one is short: shuffled, yet half and half in any number of them.
        swapped = random.Random(f"{shuffle}/{index // 2}").random() < 0.5
        if (index % 2 == 0) == swapped:
            return react_plan(own, f"mixed-{index}-react", prefix=1)
        return swe_plan(own, f"mixed-{index}-swe")

    return Batch.of(each(rng, agents, plan))


MIXED = Workload(
    name="mixed",
    about="swe and react-10 agents, half and half, shuffled, a prefix each",
    agents=128,
    make=_make,
    source="as swe and react-10",
)
