"""How long a forward pass lasts that prefills some requests and decodes others."""

from __future__ import annotations

from collections.abc import Sequence

from concur_agents.emulator.cost import CostModel

__all__ = ["mixed_s"]


def mixed_s(cost: CostModel, prefills: Sequence[tuple[int, int]], sequences: int, tokens: int) -> float:
    """Seconds of one pass over new prompt tokens and decoding sequences together.

    The weights are read, and the kernels launched, once. So what a decode step costs beside its fixed part (a row in
    each matrix product for each sequence, and the keys and values of its context) is added to the prefill pass; and a
    pass with few prompt tokens is not shorter than the decode step it carries::

        max(prefill_s(prefills), decode_base_s) + sequences * decode_seq_s + tokens * decode_token_s

    That is never less than either alone, and never more than the two after each other.

    Args:
        cost: seconds of each kind of pass.
        prefills: ``(new tokens, tokens before them)`` of each request that prefills; may be empty.
        sequences: requests that decode one token.
        tokens: that these hold together, the new ones included.
    """
    if not prefills:
        return cost.decode_s(sequences, tokens)
    alone = cost.prefill_s(prefills)
    if not sequences:
        return alone
    return max(alone, cost.decode_base_s) + cost.decode_s(sequences, tokens) - cost.decode_base_s
