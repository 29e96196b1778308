"""Short ReAct agents: about 10 steps that add about 1,000 tokens each, as in the paper's Figure 1.

The paper names no workload beyond that figure, and its two models disagree in it: Qwen3-32B's 1.5 GB at step 10 are
5,700 tokens (262,144 bytes each), DeepSeek-V3's 17 GB are 10,000 at the 1.6 MB a token that the figure implies
elsewhere. Its counts of steps and tokens are taken; everything else here is a choice, marked so.
"""

from __future__ import annotations

import random

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Quantiles, Workload, each
from benchmarks.lab.workloads.sessions import Sessions

__all__ = ["FITS", "REACT", "react_plan"]

REACT_SESSIONS = Sessions(
    steps=Quantiles((0, 8), (0.1, 9), (0.5, 10), (0.9, 11), (1, 13)),  # Figure 1: about 10
    first=Quantiles((0, 700), (0.5, 1000), (1, 1600)),  # chosen: Figure 1's curves begin near one step's growth
    # Output and what a tool returns make about 1,000 together (Figure 1); how they share it is chosen.
    output=Quantiles((0, 60), (0.1, 120), (0.5, 220), (0.9, 450), (1, 1000)),
    added=Quantiles((0, 150), (0.1, 330), (0.5, 680), (0.9, 1250), (1, 2500)),
    tool_s=Quantiles((0, 0.1), (0.1, 0.3), (0.5, 1), (0.9, 3), (1, 20)),  # chosen: a search or a page fetched
)
SHARED = 600  # chosen: system prompt, tools and an example
FITTING = 22
"""Agents that fit into the smallest pool together: 22 x 11,000 tokens are three quarters of Qwen3-32B's at TP 2."""


def react_plan(rng: random.Random, agent_id: str, *, prefix: int = 0) -> Plan:
    """One agent."""
    return Plan(agent_id, REACT_SESSIONS.draw(rng), prefix=prefix, prefix_tokens=SHARED)


def _make(rng: random.Random, agents: int) -> Batch:
    return Batch.of(each(rng, agents, lambda own, index: react_plan(own, f"react-{index}")))


REACT = Workload(
    name="react-10",
    about="short ReAct agents: 10 steps of 1,000 tokens",
    agents=256,  # the paper's batch
    make=_make,
    source="the paper's Figure 1; shares, tools and prefix chosen",
)
FITS = Workload(
    name="fits",
    about="as react-10, so few that all fit at once: nothing to gain, and nothing may be lost",
    agents=FITTING,
    make=_make,
    source="as react-10",
)
