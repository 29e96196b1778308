"""Token ids of prompts, from ranges that a real model's vocabulary has."""

from __future__ import annotations

from random import Random

from benchmarks.lab.batch import Plan
from benchmarks.real.calibrate import FIRST_ID, LAST_ID

__all__ = ["token_ids"]


def token_ids(plan: Plan, seed: int) -> list[int]:
    """The ids that an agent's contexts are beginnings of, before the engine's replies take their places.

    Two agents part within a token or two beyond a shared prefix: there are 1,800 ids to draw from.
    """
    ids = _draw(f"{seed}/{plan.agent_id}", plan.longest)
    shared = min(plan.prefix_tokens, plan.longest)
    ids[:shared] = _draw(f"{seed}/prefix {plan.prefix}", shared)
    return ids


def _draw(name: str, count: int) -> list[int]:
    return Random(name).choices(range(FIRST_ID, LAST_ID), k=count)
