"""Coding sessions of Claude Code: a large shared prefix, prompts of all sizes, contexts that grow to the limit.

Numbers are of 710 recorded sessions (48,658 requests; the project's field notes, section 8, and further quantiles
computed from the same recording), with three changes that the lab's engines ask for:

- Their contexts reach 895,000 tokens; the engines take 131,072. Only the 575 sessions whose first request is within
  that count, and each ends where it would pass it: they then have 7/40/89 steps (10%, 50%, 90%), end at 54k/126k/131k
  tokens, write 102/206/810 a step and add -16/233/2,732.
- Contexts that were edited by more than an output's length (0.9% of steps, compaction mostly) grow on instead: the
  lab's contexts are beginnings of one another, so a compacted one would find its own future cached.
- What the recording has between a reply and the next request is a person's client: approvals, reading, meals. Only
  waits after tool calls count, a tenth as long, so that the half of them are below the second that most commands take,
  and at most 120 s, the limit Claude Code sets its commands by default. The tenth is a choice; the shape is recorded.
"""

from __future__ import annotations

import random

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Quantiles, Workload, each
from benchmarks.lab.workloads.sessions import Sessions

__all__ = ["CODING", "CODING_SESSIONS", "coding_plan"]

STEPS_RAISED, ADDED_RAISED = 1.15, 1.35
CODING_SESSIONS = Sessions(
    # Of the sessions that begin within the limit, before they are cut. Those that grow fast are cut soonest and so
    # weigh least in what comes out: STEPS_RAISED and ADDED_RAISED make up for it, fitted so that what comes out is as
    # recorded.
    steps=Quantiles(
        (0, 3), (0.1, 10), (0.25, 24), (0.5, 58), (0.75, 105), (0.9, 180), (0.95, 234), (0.99, 342), (1, 514)
    ).times(STEPS_RAISED),
    first=Quantiles(
        (0, 6343),
        (0.1, 14_487),
        (0.25, 18_169),
        (0.5, 20_654),
        (0.6, 22_945),
        (0.65, 27_798),
        (0.7, 43_827),
        (0.75, 64_712),
        (0.9, 96_249),
        (0.95, 111_219),
        (1, 130_867),
    ),
    output=Quantiles(
        (0, 12),
        (0.01, 57),
        (0.1, 102),
        (0.25, 134),
        (0.5, 206),
        (0.6, 256),
        (0.75, 392),
        (0.9, 810),
        (0.95, 1420),
        (0.99, 3770),
        (0.999, 8216),
        (1, 18_195),
    ),
    # Below 0: thoughts that the next prompt leaves out.
    added=Quantiles(
        (0, -1500),
        (0.01, -714),
        (0.05, -60),
        (0.1, 5),
        (0.25, 33),
        (0.4, 130),
        (0.5, 233),
        (0.6, 379),
        (0.75, 856),
        (0.85, 1690),
        (0.9, 2732),
        (0.95, 5219),
        (0.99, 16_345),
        (0.999, 55_394),
        (1, 101_967),
    ).times(ADDED_RAISED),
    tool_s=Quantiles(
        (0, 1), (0.01, 2), (0.1, 4), (0.25, 5), (0.5, 9), (0.75, 19), (0.9, 74), (0.95, 173), (0.99, 924), (1, 1200)
    ).times(0.1),
    output_session=0.14,
    added_session=0.085,
    between=0.2,
    follows=-0.22,
    longer_adds=-0.5,  # -0.34 between steps and session means, which the cut shortens and noise dilutes
    longer_begins=-0.35,  # -0.31 after the cut
)
PREFIX = Quantiles((0, 4210), (0.1, 11_899), (0.25, 12_891), (0.5, 14_949), (0.75, 15_458), (0.9, 15_930), (1, 23_081))
"""Tokens of system prompt and tools that a session shares with the others: it depends on the tools it was given."""


def coding_plan(rng: random.Random, agent_id: str) -> Plan:
    """One agent."""
    steps = CODING_SESSIONS.draw(rng)
    return Plan(agent_id, steps, prefix_tokens=min(PREFIX.draw_int(rng), steps[0].prompt))


def _make(rng: random.Random, agents: int) -> Batch:
    return Batch.of(each(rng, agents, lambda own, index: coding_plan(own, f"coding-{index}")))


CODING = Workload(
    name="coding-sessions",
    about="Claude Code sessions: 15k shared, prompts of 14k to 130k, contexts up to the engine's limit",
    agents=40,
    make=_make,
    source="recorded: Claude Code, cut at the engine's length, waits a tenth",
)
