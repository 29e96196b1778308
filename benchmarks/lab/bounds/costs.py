"""The least that parts of a step can cost on an engine, in seconds. Lemmas are those of docs/lab/lower-bound.md."""

from __future__ import annotations

import math

from benchmarks.lab.bounds.served import ServedStep
from benchmarks.lab.engines import Engine
from concur_agents.emulator import CostModel, EngineConfig
from concur_agents.emulator.vllm import VllmConfig

__all__ = [
    "alone_step_s",
    "chunk_tokens",
    "decode_least_s",
    "prefill_work_s",
    "private_area",
    "recall_s",
    "sum_least",
    "sum_range",
]


def sum_range(first: float, count: int) -> float:
    """``first + (first + 1) + ...``, ``count`` terms."""
    return count * first + count * (count - 1) / 2


def sum_least(one: tuple[float, float], other: tuple[float, float], first: int, count: int) -> float:
    """Sum over ``c = first, first + 1, ...`` (``count`` terms) of the lesser of two lines ``(at 0, slope)``."""
    if count <= 0:
        return 0.0
    flat, steep = sorted((one, other), key=lambda line: line[1])
    if steep[1] == flat[1]:
        low = min(one[0], other[0])
        return count * low + flat[1] * sum_range(first, count)
    # Below the crossing the steeper line is the lower one.
    crossing = (flat[0] - steep[0]) / (steep[1] - flat[1])
    before = max(0, min(count, int(min(crossing, first + count)) - first + 1)) if crossing >= first else 0
    total = before * steep[0] + steep[1] * sum_range(first, before)
    return total + (count - before) * flat[0] + flat[1] * sum_range(first + before, count - before)


def prefill_work_s(cost: CostModel, end: int, new: int) -> float:
    """Computing tokens ``end - new .. end - 1`` of a context in prefill passes, in whatever pieces, without bases."""
    return new * cost.prefill_token_s + new * (end - new / 2) * cost.prefill_pair_s


def recall_s(cost: CostModel, tokens: int) -> float:
    """Having the KV of ``tokens`` earlier tokens in a prefill: read from the cache, or computed again."""
    return tokens * min(cost.prefill_cached_s, cost.prefill_token_s)


def chunk_tokens(config: EngineConfig | VllmConfig) -> float:
    """Most new tokens in one prefill pass; ``inf`` for no such limit."""
    most = config.max_batched_tokens if isinstance(config, VllmConfig) else config.chunked_prefill_size
    return math.inf if most is None else most


def alone_step_s(engine: Engine, step: ServedStep, *, retracts: bool) -> float:
    """A step from its submission to its end when nobody else asks anything of the engine (lemma 1).

    Args:
        engine: the engine.
        step: the step.
        retracts: whether the engine may ever throw a running request out (lemma 2).
    """
    cost = engine.cost
    passes = math.ceil(max(1.0, step.new / chunk_tokens(engine.config)))
    work = prefill_work_s(cost, step.prompt, step.new) + recall_s(cost, step.prompt - step.new)
    prefill = max(passes * cost.prefill_base_s + work, passes * cost.prefill_floor_s)
    reads = (0.0, cost.decode_token_s)
    instead = (max(cost.prefill_base_s + cost.prefill_token_s, cost.prefill_floor_s), 0.0)
    read = sum_least(reads, instead if retracts else reads, step.prompt + 1, step.decoded)
    return prefill + step.decoded * (cost.decode_base_s + cost.decode_seq_s) + read


def decode_least_s(cost: CostModel, step: ServedStep, *, retracts: bool, charged: bool, weight: float = 0.0) -> float:
    """Sum over a step's decode tokens of the proof's w (lemma 4).

    Args:
        cost: the engine's cost model.
        step: the step.
        retracts: whether tokens may come from prefills of requests thrown out.
        charged: whether such a token also pays the prefill pass's base.
        weight: the proof's mu.
    """
    share = 1 - weight
    kept = (share * cost.decode_seq_s, share * cost.decode_token_s)
    base = cost.prefill_base_s if charged else 0.0
    again = (
        share * (base + cost.prefill_token_s - cost.prefill_pair_s / 2),
        share * cost.prefill_pair_s - weight * cost.decode_token_s,
    )
    return sum_least(kept, again if retracts else kept, step.prompt + 1, step.decoded)


def private_area(step: ServedStep, shared: int) -> float:
    """KV tokens beyond the shared prefix before each of a step's decode passes, summed."""
    skip = max(0, min(step.decoded, shared - step.prompt))
    return sum_range(step.prompt + skip - shared, step.decoded - skip)
