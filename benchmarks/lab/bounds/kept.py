"""Lemma 7: while an agent is in its tool, its context fills the pool, or is computed again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.lab.bounds.costs import decode_least_s, prefill_work_s, private_area
from benchmarks.lab.bounds.served import Served
from benchmarks.lab.bounds.together import least_shared, lost_s, shared_work_s
from benchmarks.lab.engines import Engine
from concur_agents.emulator import CostModel

__all__ = ["kept_bound_s"]

_WEIGHTS = tuple(number / 20 for number in range(20))
"""Values of the proof's mu. Each gives a bound."""


def kept_bound_s(agents: Sequence[Served], engine: Engine, least: float, *, retracts: bool) -> float:
    """Seconds that a wave takes at least, with the pool's room over time shared by who runs and who is in a tool.

    Args:
        agents: the wave; each has a step.
        engine: an engine with SGLang's scheduler and without a host tier.
        least: as for :func:`~benchmarks.lab.bounds.together.lost_s`.
        retracts: whether it may retract (lemma 2).
    """
    return max(_weighted_s(agents, engine, weight, least, retracts=retracts) for weight in _WEIGHTS)


def _weighted_s(agents: Sequence[Served], engine: Engine, weight: float, least: float, *, retracts: bool) -> float:
    cost, pool = engine.cost, engine.config.max_total_tokens
    work = (1 - weight) * shared_work_s(agents, engine)
    area, decoded, most = 0.0, 0, 0
    for agent in agents:
        work += _gaps_s(agent, cost, pool, weight)
        for step in agent.steps:
            if step.fresh:
                work += (1 - weight) * prefill_work_s(cost, step.prompt, step.new)
            charged = step.prompt - agent.plan.prefix_tokens >= least
            work += decode_least_s(cost, step, weight=weight, retracts=retracts, charged=charged)
            area += private_area(step, agent.plan.prefix_tokens)
        own = sum(step.decoded for step in agent.steps)
        decoded, most = decoded + own, max(most, own)
    if retracts:
        work -= lost_s(agents, engine, least, weight=weight)
    passes = max(area / (pool - least_shared(agents)), decoded / engine.config.max_running_requests, most)
    return work + _passes_s(cost, area, pool, weight, passes)


def _passes_s(cost: CostModel, area: float, pool: int, weight: float, least: float) -> float:
    """Bases of decode passes, and what is read in them, weighted by the part of the pool that runs."""
    base, read = (1 - weight) * cost.decode_base_s, weight * cost.decode_token_s * area * area / pool
    if not base or not area:
        return base * least
    # More passes than necessary hold less each: the sum is least where its slope is 0, unless that is too few.
    passes = max(least, math.sqrt(read / base))
    return base * passes + read / passes + weight * cost.decode_base_s * area / pool


def _gaps_s(agent: Served, cost: CostModel, pool: int, weight: float) -> float:
    """For each tool, the cheaper way of having the context again after it."""
    total, computed, shared = 0.0, 0, agent.plan.prefix_tokens
    for index, step in enumerate(agent.steps):
        if index:
            # Only what this prompt needs of it: agents may drop the end of their history.
            own = max(0, min(computed, step.prompt - step.new) - shared)
            again = cost.prefill_token_s + (shared + own / 2) * cost.prefill_pair_s
            total += own * min(weight * step.wait_s / pool, (1 - weight) * again)
        computed = max(computed, step.prompt + step.decoded)
    return total
