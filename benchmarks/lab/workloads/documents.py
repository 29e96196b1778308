"""Agents that share nothing: each begins with a document of its own, and documents differ in length tenfold.

Nothing in one agent's first request foretells another's.
"""

from __future__ import annotations

import random

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.base import Quantiles, Workload, each
from benchmarks.lab.workloads.coding import CODING_SESSIONS
from benchmarks.lab.workloads.sessions import Sessions
from benchmarks.lab.workloads.swe import SWE_SESSIONS

__all__ = ["NO_SHARED_PREFIX"]

DOCUMENTS = Sessions(
    steps=Quantiles((0, 4), (0.1, 8), (0.5, 20), (0.9, 50), (1, 80)),  # chosen: between react-10's and swe's
    first=Quantiles(
        (0, 1000), (0.1, 2500), (0.5, 8000), (0.9, 25_000), (1, 60_000)
    ),  # chosen: a page to a book's chapter
    output=CODING_SESSIONS.output,
    added=SWE_SESSIONS.added,
    tool_s=SWE_SESSIONS.tool_s,
    output_session=CODING_SESSIONS.output_session,
    added_session=SWE_SESSIONS.added_session,
    follows=-0.3,  # -0.22 and -0.32 in the two recordings
)


def _make(rng: random.Random, agents: int) -> Batch:
    return Batch.of(each(rng, agents, lambda own, index: Plan(f"document-{index}", DOCUMENTS.draw(own))))


NO_SHARED_PREFIX = Workload(
    name="no-shared-prefix",
    about="each agent with a document of its own of 2k to 25k tokens, nothing shared",
    agents=96,
    make=_make,
    source="outputs of coding-sessions, tools of swe; steps and documents chosen",
)
