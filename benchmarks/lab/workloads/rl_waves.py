"""Rollouts of reinforcement learning: groups of 8 on one prompt, stragglers, and new weights between waves.

Steps are as in ``swe``, half as many, so that three waves cost about what a batch of ``swe`` does.
"""

from __future__ import annotations

import math
import random

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Workload, each
from benchmarks.lab.workloads.swe import SWE_SESSIONS

__all__ = ["GROUP", "RL_WAVES", "WAVE"]

GROUP = 8
"""Rollouts of a prompt: chosen among the 4 to 16 usual with GRPO."""
WAVE = 8 * GROUP
"""Rollouts between two updates: chosen so that a wave wants four times the smallest pool."""
UPDATE_S = 20.0
"""Seconds for new weights: what Moonshot's checkpoint-engine states for a model of 1T parameters."""
MEDIAN_STEPS = 38.0  # half of swe's 76
# Variance of the logarithm of steps over 23 tasks that were run three or four times, in the recording behind ``swe``:
BETWEEN_SD = math.sqrt(0.066)  # between tasks
WITHIN_SD = math.sqrt(0.033)  # between runs of one task
STRAGGLERS, TURN_LIMIT = 1 / 32, 150
"""Chosen: two rollouts a wave never submit, and end at the turn limit (about four times the median)."""


def _make(rng: random.Random, agents: int) -> Batch:
    tasks = rng.getrandbits(64)

    def plan(own: random.Random, index: int) -> Plan:
        group = index // GROUP
        task = random.Random(f"{tasks}/{group}")
        prompt, typical = SWE_SESSIONS.first.draw_int(task), MEDIAN_STEPS * math.exp(task.gauss(0, BETWEEN_SD))
        steps = round(typical * math.exp(own.gauss(0, WITHIN_SD)))
        if own.random() < STRAGGLERS:
            steps = TURN_LIMIT
        drawn = SWE_SESSIONS.draw(own, steps=max(1, min(steps, TURN_LIMIT)), first=prompt)
        return Plan(f"rollout-{group}-{index % GROUP}", drawn, prefix=group, prefix_tokens=prompt)

    plans = each(rng, agents, plan)
    return Batch([plans[start : start + WAVE] for start in range(0, agents, WAVE)], update_s=UPDATE_S)


RL_WAVES = Workload(
    name="rl-waves",
    about="waves of 64 rollouts, 8 on each prompt, with stragglers; 20 s for new weights between waves",
    agents=3 * WAVE,
    make=_make,
    source="as swe, half as long; spread between runs of a task recorded; group, stragglers chosen",
)
