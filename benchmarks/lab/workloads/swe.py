"""SWE-bench with a small scaffold: a tiny shared prefix, and many short steps.

Quantiles of 173 sessions (13,964 steps) of mini-swe-agent with DeepSeek on SWE-bench Lite, as in the project's field
notes, section 8.
"""

from __future__ import annotations

import random

from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.workloads.base import Quantiles, Workload

__all__ = ["SWE", "swe_plan"]

STEPS = Quantiles((0, 20), (0.1, 52), (0.5, 76), (0.9, 115), (1, 188))
FIRST_PROMPT = Quantiles((0, 1300), (0.1, 1456), (0.5, 1626), (0.9, 2326), (1, 3399))
ADDED = Quantiles((0, 8), (0.1, 30), (0.5, 120), (0.9, 547), (1, 4190))
OUTPUT = Quantiles((0, 30), (0.1, 54), (0.5, 89), (0.9, 616), (1, 3504))
TOOL_S = Quantiles((0, 0.1), (0.1, 0.18), (0.5, 0.25), (0.9, 0.47), (0.99, 5), (1, 64.7))
SHARED = 320


def swe_plan(rng: random.Random, agent_id: str) -> Plan:
    """One agent."""
    steps: list[Step] = []
    prompt = FIRST_PROMPT.draw_int(rng)
    for _ in range(STEPS.draw_int(rng)):
        output = OUTPUT.draw_int(rng)
        steps.append(Step(prompt, output, TOOL_S.draw(rng)))
        prompt += output + ADDED.draw_int(rng)
    return Plan(agent_id, steps, prefix_tokens=SHARED)


def _make(rng: random.Random, agents: int) -> Batch:
    return Batch.of([swe_plan(rng, f"swe-{number}") for number in range(agents)])


SWE = Workload(name="swe", about="SWE-bench sessions: 320 tokens shared, 52 to 115 short steps", agents=128, make=_make)
