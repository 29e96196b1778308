"""What the agents of a wave have in common: the prefix they share, and what retractions can save them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lab.bounds.costs import prefill_work_s
from benchmarks.lab.bounds.served import Served
from benchmarks.lab.engines import Engine
from concur_agents.emulator.vllm import VllmConfig

__all__ = ["least_shared", "lost_s", "may_retract", "shared_work_s"]


def may_retract(wave: Sequence[Served], engine: Engine) -> bool:
    """Lemma 2: whether the engine could ever lack memory for a decode pass of this wave."""
    page = engine.config.page_size
    copied = isinstance(engine.config, VllmConfig)  # who computes a shared prefix at the same time has his own copy
    prefixes: dict[int, int] = {}
    private = 0
    for agent in wave:
        shared = 0 if copied else min(agent.plan.prefix_tokens, agent.longest)
        prefixes[agent.plan.prefix] = max(prefixes.get(agent.plan.prefix, 0), shared)
        private += agent.longest - shared + 2 * page
    return private + sum(prefixes.values()) + page > engine.config.max_total_tokens


def least_shared(agents: Sequence[Served]) -> int:
    """Tokens of shared prefix that any running request of these holds at least."""
    return min(min(agent.plan.prefix_tokens, step.prompt) for agent in agents for step in agent.steps)


def shared_work_s(agents: Sequence[Served], engine: Engine) -> float:
    """Lemma 3: each shared prefix, as far as all who share it begin with it, is prefilled once."""
    least: dict[int, int] = {}
    for agent in agents:
        if agent.plan.prefix_tokens:
            common = min(agent.plan.prefix_tokens, agent.steps[0].prompt)
            least[agent.plan.prefix] = min(least.get(agent.plan.prefix, common), common)
    return sum(prefill_work_s(engine.cost, common, common) for common in least.values())


def lost_s(
    agents: Sequence[Served], engine: Engine, least: float, *, weight: float = 0.0, whole: bool = False
) -> float:
    """Lemma 4: most that all decode tokens together can cost less than their w.

    Args:
        agents: the wave; each has a step.
        engine: the engine.
        least: private tokens of a step's prompt from which on it is charged; above 0.
        weight: the proof's mu.
        whole: count a retracted token as free (the proof's second form for mixed passes).
    """
    cost = engine.cost
    decoded = sum(step.decoded for agent in agents for step in agent.steps)
    if not decoded:
        return 0.0
    share, worst = 1 - weight, 0.0
    for agent in agents:
        shared = agent.plan.prefix_tokens
        private = min((step.prompt for step in agent.steps if step.prompt - shared >= least), default=0) - shared
        if private <= 0:
            continue
        if whole:
            gain = cost.decode_seq_s + (private + shared + 1) * cost.decode_token_s
        else:
            fixed = max(0.0, cost.decode_seq_s - cost.prefill_token_s + cost.prefill_pair_s / 2)
            slope = max(0.0, cost.decode_token_s - cost.prefill_pair_s)
            gain = share * (fixed + slope * (private + shared + 1)) + weight * cost.decode_token_s * private
            gain = min(share * cost.prefill_base_s, gain)
        worst = max(worst, gain / private)
    return 3 * engine.config.page_size * decoded * worst
