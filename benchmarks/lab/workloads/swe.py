"""SWE-bench with a small scaffold: a tiny shared prefix, and many short steps.

All numbers are of 173 sessions (13,964 steps) of mini-swe-agent with DeepSeek on SWE-bench Lite: those of them that
the project's field notes publish (section 8: 10%, 50%, 90% and most), and further quantiles, variance shares and
correlations (of normal scores) computed from the same recording.
"""

from __future__ import annotations

import random

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Quantiles, Workload, each
from benchmarks.lab.workloads.sessions import Sessions

__all__ = ["SHARED", "SWE", "SWE_SESSIONS", "swe_plan"]

SWE_SESSIONS = Sessions(
    steps=Quantiles(
        (0, 31), (0.1, 52), (0.25, 62), (0.5, 76), (0.75, 95), (0.9, 115), (0.95, 131), (0.99, 165), (1, 188)
    ),
    first=Quantiles(
        (0, 1390), (0.1, 1456), (0.25, 1525), (0.5, 1626), (0.75, 1893), (0.9, 2326), (0.95, 2778), (1, 3399)
    ),
    output=Quantiles(
        (0, 44),
        (0.1, 54),
        (0.25, 69),
        (0.4, 80),
        (0.5, 89),
        (0.6, 109),
        (0.7, 162),
        (0.75, 235),
        (0.8, 338),
        (0.9, 616),
        (0.95, 833),
        (0.99, 1367),
        (0.999, 2191),
        (1, 3504),
    ),
    # A tenth of all commands print nothing: 30 tokens are their return code.
    added=Quantiles(
        (0, 22),
        (0.01, 30),
        (0.1, 30),
        (0.25, 40),
        (0.4, 78),
        (0.5, 120),
        (0.6, 167),
        (0.75, 274),
        (0.85, 415),
        (0.9, 547),
        (0.95, 770),
        (0.99, 1658),
        (0.999, 2800),
        (1, 4190),
    ),
    # The slowest 1%, over 5 s, hold 36% of all tool time.
    tool_s=Quantiles(
        (0, 0.083),
        (0.01, 0.105),
        (0.1, 0.178),
        (0.25, 0.211),
        (0.5, 0.254),
        (0.75, 0.323),
        (0.9, 0.472),
        (0.95, 0.934),
        (0.99, 4.82),
        (0.995, 10.1),
        (0.998, 28.5),
        (0.999, 60.0),
        (1, 64.7),
    ),
    output_session=0.045,
    added_session=0.025,
    between=0.73,  # 0.53 between sessions' means, which are two thirds to three quarters signal
    follows=-0.32,
    longer_adds=-0.2,
)
SHARED = 320
"""Tokens of system prompt and tool that all sessions begin with: what their first requests found cached."""


def swe_plan(rng: random.Random, agent_id: str, *, prefix: int = 0) -> Plan:
    """One agent."""
    return Plan(agent_id, SWE_SESSIONS.draw(rng), prefix=prefix, prefix_tokens=SHARED)


def _make(rng: random.Random, agents: int) -> Batch:
    return Batch.of(each(rng, agents, lambda own, index: swe_plan(own, f"swe-{index}")))


SWE = Workload(
    name="swe",
    about="SWE-bench sessions: 320 tokens shared, 50 to 115 short steps",
    agents=80,
    make=_make,
    source="recorded: mini-swe-agent on SWE-bench Lite",
)
