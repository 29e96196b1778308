"""The one workload of all rows: the agents of the paper's Figure 1, that go on for longer.

The paper names no workload. Its Figure 1 has about 10 steps that add about 1,000 tokens each: the lab's ``react-10``.
256 such agents do not thrash on Qwen3-32B at TP 8, where the paper has its largest gain, nor 16 to 40 of them on
DeepSeek-V3; so they must have gone on. All that is changed here is the number of steps, four times as many; everything
else is ``react-10``'s, with the source of each number there. Four times is the fewest of 1, 2, 3 and 4 at which each
row's final contexts overflow its pool by at least a third (a rule made after some results had been seen:
``docs/lab/paper.md``); what the others give is in the table of lengths. A longer shared prefix can be asked for too,
for the table that shows what it does.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from statistics import fmean

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Quantiles, Workload, each
from benchmarks.lab.workloads.react import REACT_SESSIONS, SHARED

__all__ = ["final_context", "paper_workload", "workload_name"]

_PREFIX, _SHARING = "paper-", "-shared-"


def workload_name(steps: int, shared: int = SHARED) -> str:
    """What the workload is called.

    Args:
        steps: of an agent, in the median.
        shared: tokens that all prompts begin with.
    """
    return f"{_PREFIX}{steps}" + (f"{_SHARING}{shared}" if shared != SHARED else "")


@cache
def paper_workload(name: str) -> Workload:
    """The workload of that name.

    Args:
        name: of :func:`workload_name`.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(f"{_PREFIX}([1-9][0-9]*)(?:{_SHARING}([1-9][0-9]*))?", name)
    if found is None:
        raise ValueError(f"workload must be {_PREFIX} and a number of steps, as in {workload_name(40)}, got {name!r}")
    steps, shared = int(found[1]), int(found[2] or SHARED)
    first = REACT_SESSIONS.first.points
    sessions = replace(
        REACT_SESSIONS,
        steps=REACT_SESSIONS.steps.times(steps / 10),
        first=Quantiles(*((share, tokens + shared - SHARED) for share, tokens in first)),
    )

    def plan(own: random.Random, index: int) -> Plan:
        return Plan(f"react-{index}", sessions.draw(own), prefix_tokens=shared)

    return Workload(
        name=name,
        about=f"ReAct agents: {steps} steps of 1,000 tokens",
        agents=256,
        make=lambda rng, agents: Batch.of(each(rng, agents, plan)),
        source="the paper's Figure 1, for more steps",
    )


@cache
def final_context(name: str, agents: int) -> float:
    """Mean tokens of the agents' final contexts, of seed 0."""
    return fmean(plan.longest for plan in paper_workload(name).batch(0, agents).plans)
