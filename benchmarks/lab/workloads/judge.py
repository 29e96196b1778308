"""Agents as judges: very many, very short, over a few shared rubrics.

Nothing published gives their lengths, so all numbers are chosen, to be the other end of what a law may meet: contexts
of 2k to 7k, 2 to 4 steps (look, perhaps look again, decide), tools that read a file in fractions of a second.
"""

from __future__ import annotations

import random

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Quantiles, Workload, each
from benchmarks.lab.workloads.sessions import Sessions

__all__ = ["JUDGE", "RUBRICS"]

RUBRICS = 8
RUBRIC = Quantiles((0, 700), (0.5, 1500), (1, 3500))
"""Tokens of instructions, criteria and examples."""
ANSWER = Quantiles((0, 150), (0.1, 300), (0.5, 900), (0.9, 3000), (1, 8000))
"""Tokens of what is judged."""
JUDGE_SESSIONS = Sessions(
    steps=Quantiles((0, 1.51), (0.5, 3), (1, 4.49)),
    first=ANSWER,
    output=Quantiles((0, 40), (0.1, 80), (0.5, 200), (0.9, 500), (1, 1000)),
    added=Quantiles((0, 50), (0.1, 150), (0.5, 500), (0.9, 1500), (1, 3000)),
    tool_s=Quantiles((0, 0.02), (0.1, 0.05), (0.5, 0.2), (0.9, 0.6), (1, 2)),
)


def _make(rng: random.Random, agents: int) -> Batch:
    rubrics = [RUBRIC.draw_int(rng) for _ in range(RUBRICS)]

    def plan(own: random.Random, index: int) -> Plan:
        rubric = own.randrange(RUBRICS)
        first = rubrics[rubric] + ANSWER.draw_int(own)
        return Plan(
            f"judge-{index}", JUDGE_SESSIONS.draw(own, first=first), prefix=rubric, prefix_tokens=rubrics[rubric]
        )

    return Batch.of(each(rng, agents, plan))


JUDGE = Workload(
    name="judge",
    about="1,024 judges of 2 to 4 steps over 8 shared rubrics",
    agents=1024,
    make=_make,
    source="chosen",
)
