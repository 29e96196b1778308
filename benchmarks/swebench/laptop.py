"""The embedded engine of the default run: Qwen3-8B at 4 bits on a 16 GB laptop card, what people run at home.

Derived as the emulator's own presets are. Card (as in its ``laptop`` preset): 80 TFLOP/s dense bf16, 576 GB/s. Model:
36 layers, 32 query heads, 8 KV heads, head_dim 128, 7.6e9 parameters outside the embedding; 5.5e9 bytes as 4-bit
weights with bf16 embeddings. KV 147,456 bytes per token. 16e9 bytes less the weights and 2.5e9 for activations and the
desktop hold 54,000 tokens.
"""

from __future__ import annotations

from concur_agents.emulator.cost import CostModel

__all__ = ["COST", "MODEL"]

MODEL = "Qwen/Qwen3-8B-AWQ"

_FLOP_S, _BYTES_S = 80e12, 576e9
_WEIGHTS = 5.5e9  # bytes
_TOKEN_FLOP = 2 * 7.6e9  # a multiply and an add per parameter
_PAIR_FLOP = 4 * 32 * 128 * 36  # QK and AV: 2 x 2 flop, query heads, dim, layers
_KV = 2 * 36 * 8 * 128 * 2  # K and V, layers, KV heads, dim, bf16

COST = CostModel(
    prefill_base_s=0.005,
    prefill_token_s=_TOKEN_FLOP / (_FLOP_S * 0.5),  # weights are unpacked to bf16 on the way; half the peak is reached
    prefill_pair_s=_PAIR_FLOP / (_FLOP_S * 0.3),
    prefill_floor_s=_WEIGHTS / (_BYTES_S * 0.8),
    decode_base_s=_WEIGHTS / (_BYTES_S * 0.8),
    decode_seq_s=_TOKEN_FLOP / (_FLOP_S * 0.6),
    decode_token_s=_KV / (_BYTES_S * 0.7),
)
