"""One timing for both: a cost model that Dynamo's table can say, and that table.

Dynamo 1.4.2 takes a pass to last ``prefill(new tokens) + decode(tokens held, mean context)`` (its ``perf_model.rs``):
the first a line through given points, the second bilinear between given points. A request that has just been prefilled
takes part in the decode step of the same pass, which is where Dynamo has its first token come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from concur_agents.emulator import CostModel

__all__ = ["Timing", "sglang_timing", "vllm_timing", "write_table"]

LONGEST = float(1 << 21)  # tokens: more than any pass prefills
MOST_HELD = 1e7  # tokens: more than any pool; the table is a line in them, so that two points are exact
CONTEXTS = 400
"""Points of the mean context. ``decode_seq_s`` goes with its inverse: between two points it is off by 0.03% at most."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The same seconds for both sides."""

    cost: CostModel
    """What the emulator is to have."""
    prefill: Sequence[tuple[float, float]]
    """New tokens of a pass and its seconds, beside those of the decode step: what Dynamo is to have."""


def sglang_timing(cost: CostModel) -> Timing:
    """The nearest that can be said of an engine that prefills and decodes in passes of their own.

    The attention of a prefill to the tokens before it (``prefill_pair_s``, ``prefill_cached_s``) is left out: the table
    knows the number of new tokens only. Where the trace spares Dynamo one output token a turn, a prefill and a decode
    pass here last together as long as Dynamo's one pass, and everybody has got as far.
    """
    plain = replace(cost, prefill_pair_s=0.0, prefill_cached_s=0.0)
    bend = (plain.prefill_floor_s - plain.prefill_base_s) / plain.prefill_token_s  # where the floor ends
    points = sorted({0.0, max(1.0, bend), LONGEST})
    return Timing(plain, [(tokens, _line(plain, tokens)) for tokens in points])


def vllm_timing(cost: CostModel) -> Timing:
    """The nearest that can be said of an engine that prefills and decodes in one pass.

    Dynamo charges whoever has just been prefilled a decode step: a fixed part and its context read once. Here that is a
    part of the prefill's own price, so that both sides charge it.
    """
    plain = replace(
        cost,
        prefill_base_s=cost.prefill_base_s + cost.decode_base_s,
        prefill_token_s=cost.prefill_token_s + cost.decode_token_s,
        prefill_cached_s=cost.decode_token_s,
        prefill_pair_s=0.0,
        prefill_floor_s=0.0,
    )
    return Timing(
        plain,
        [(tokens, cost.prefill_base_s + tokens * cost.prefill_token_s) for tokens in (0.0, LONGEST)],
    )


def write_table(path: Path, timing: Timing) -> None:
    """Write Dynamo's ``planner_profile_data``, an ``.npz`` of milliseconds."""
    held, contexts = np.array([0.0, MOST_HELD]), np.geomspace(1.0, LONGEST, CONTEXTS)
    np.savez(
        path,
        prefill_isl=np.array([tokens for tokens, _ in timing.prefill]),
        prefill_ttft_ms=np.array([1000 * seconds for _, seconds in timing.prefill]),
        decode_active_kv_tokens=held,
        decode_context_length=contexts,
        decode_itl=np.array([[_decode_ms(timing.cost, tokens, mean) for mean in contexts] for tokens in held]),
    )


def _line(cost: CostModel, tokens: float) -> float:
    return max(cost.prefill_floor_s, cost.prefill_base_s + tokens * cost.prefill_token_s)


def _decode_ms(cost: CostModel, tokens: float, mean: float) -> float:
    return 1000 * (cost.decode_base_s + tokens / mean * cost.decode_seq_s + tokens * cost.decode_token_s)
