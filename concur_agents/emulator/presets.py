"""Named engines: a cost model and a pool size each, derived from a model's shape and a card's data sheet.

Card data (vendor sheets): H100 SXM: 989 TFLOP/s dense bf16, 1,979 dense fp8, 3.35 TB/s, 85.5e9 bytes seen by CUDA.
What a model needs per token and what a card has give the bound; the share of it that is reached is an assumption,
named beside each number. Absolute seconds are therefore within tens of per cent of a real server at best; ratios
between presets and the shape over batch and context are what they are good for. Fit a cost model to your own server
(:meth:`CostModel.load`) where seconds matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from concur_agents.emulator.config import EngineConfig
from concur_agents.emulator.cost import CostModel

__all__ = ["PRESETS", "Preset", "get_preset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One named engine."""

    model: str
    """What ``/v1/models`` calls it."""
    cost: CostModel
    config: EngineConfig


H100_BF16, H100_FP8, H100_BYTES_S, H100_BYTES = 989e12, 1979e12, 3.35e12, 85.5e9
# Host memory: a PCIe 5.0 x16 link of its own per card and direction, 63 GB/s by the specification and 54 measured with
# large copies (on an H20). HiCache moves rows of one token and layer, which are small: 28 GB/s were measured at 656
# bytes (SGLang pull request 37231, H20). The paper's Figure 1 has eight loads of 6.67 GB in 1.1 s, 48 GB/s on one link.
HOST_BYTES_S = 45e9
LAPTOP_HOST_BYTES_S = 12e9  # PCIe 4.0 x8, 16 GB/s by the specification
STATIC = 0.87  # share of the card SGLang gives to weights and KV on an 80 GB card (--mem-fraction-static)

# Qwen3-32B: 64 layers, 64 query heads, 8 KV heads, head_dim 128, bf16; 32.8e9 parameters, 31.2e9 of them not in
# the embedding.
QWEN_WEIGHTS = 32.8e9 * 2  # bytes
QWEN_KV = 2 * 64 * 8 * 128 * 2  # bytes per token: K and V, layers, heads, dim, bf16 = 262,144
QWEN_TOKEN_FLOP = 2 * 31.2e9  # a multiply and an add per parameter
QWEN_PAIR_FLOP = 4 * 64 * 128 * 64  # QK and AV: 2 x 2 flop, query heads, dim, layers = 2.1e6 per (query, key)


def _qwen3_32b(tp: int, gemm_share: float, allreduce_s: float) -> Preset:
    """Qwen3-32B on ``tp`` H100s. Assumed: the share of peak in prefill GEMMs (falls with TP), and one all-reduce."""
    pool = int((STATIC * H100_BYTES * tp - QWEN_WEIGHTS) / QWEN_KV)  # KV heads are split over the cards
    return Preset(
        model="Qwen/Qwen3-32B",
        cost=CostModel(
            prefill_base_s=0.005,  # launch and scheduling of one pass without CUDA graph
            prefill_token_s=QWEN_TOKEN_FLOP / (tp * H100_BF16 * gemm_share),
            prefill_pair_s=QWEN_PAIR_FLOP / (tp * H100_BF16 * 0.35),  # flash attention reaches about a third here
            prefill_floor_s=QWEN_WEIGHTS / (tp * H100_BYTES_S * 0.7),  # even one token reads all weights
            decode_base_s=QWEN_WEIGHTS / (tp * H100_BYTES_S * 0.7) + 2 * 64 * allreduce_s,  # 2 all-reduces a layer
            decode_seq_s=QWEN_TOKEN_FLOP / (tp * H100_BF16 * 0.6),  # GEMMs and sampling of one more row
            decode_token_s=QWEN_KV / (tp * H100_BYTES_S * 0.6),  # paged reads reach about 60% of the bandwidth
            load_token_s=QWEN_KV / (tp * HOST_BYTES_S),  # each card has its heads in its own part of host memory
            backup_token_s=QWEN_KV / (tp * HOST_BYTES_S),
            token_link_bytes=QWEN_KV / tp,
            layers=64,
        ),
        config=EngineConfig(max_total_tokens=pool, context_length=131_072, chunked_prefill_size=8192),
    )


def _deepseek_v3() -> Preset:
    """DeepSeek-V3 on 16 H100s of two hosts, tensor parallel throughout."""
    tp = 16
    weights = 671e9  # bytes: 671e9 parameters, nearly all in fp8
    # MLA keeps one 512 + 64 wide latent per token and layer, 61 layers, bf16; it has no heads to split, so every
    # card holds the whole of it.
    kv = 576 * 61 * 2  # 70,272 bytes
    pool = int((STATIC * H100_BYTES - weights / tp) / kv)
    token_flop = 2 * 37e9  # active parameters
    pair_flop = 2 * 128 * (192 + 128) * 61  # heads, QK and V widths, layers = 5.0e6
    return Preset(
        model="deepseek-ai/DeepSeek-V3",
        cost=CostModel(
            prefill_base_s=0.02,
            # Across hosts TP spends most of the time in all-reduces: 8% of the fp8 peak, 29k tokens/s.
            prefill_token_s=token_flop / (tp * H100_FP8 * 0.08),
            prefill_pair_s=pair_flop / (tp * H100_BF16 * 0.3),
            prefill_floor_s=weights / (tp * H100_BYTES_S * 0.6),
            # A batch of 32 touches nearly every expert, so a step reads nearly all weights; 2 all-reduces a layer
            # over the network at 40 us.
            decode_base_s=weights / (tp * H100_BYTES_S * 0.6) + 2 * 61 * 40e-6,
            decode_seq_s=token_flop / (tp * H100_FP8 * 0.3),
            decode_token_s=kv / (H100_BYTES_S * 0.6),
            load_token_s=kv / HOST_BYTES_S,  # the whole latent to every card
            backup_token_s=kv / HOST_BYTES_S,
            token_link_bytes=kv,
            layers=61,
        ),
        config=EngineConfig(max_total_tokens=pool, context_length=131_072, chunked_prefill_size=8192),
    )


def _laptop() -> Preset:
    """Qwen3-4B in bf16 on a 16 GB laptop card of 80 TFLOP/s and 576 GB/s: small enough to thrash with few agents."""
    weights, flop, bandwidth = 8.0e9, 80e12, 576e9
    kv = 2 * 36 * 8 * 128 * 2  # 36 layers, 8 KV heads, head_dim 128 = 147,456 bytes
    return Preset(
        model="Qwen/Qwen3-4B",
        cost=CostModel(
            prefill_base_s=0.005,
            prefill_token_s=2 * 3.6e9 / (flop * 0.5),  # 3.6e9 parameters outside the embedding
            prefill_pair_s=4 * 32 * 128 * 36 / (flop * 0.3),  # 32 query heads
            prefill_floor_s=weights / (bandwidth * 0.8),
            decode_base_s=weights / (bandwidth * 0.8),
            decode_seq_s=2 * 3.6e9 / (flop * 0.6),
            decode_token_s=kv / (bandwidth * 0.7),
            load_token_s=kv / LAPTOP_HOST_BYTES_S,
            backup_token_s=kv / LAPTOP_HOST_BYTES_S,
            token_link_bytes=kv,
            layers=36,
        ),
        # 16e9 bytes, less the weights and 2.5e9 for activations and the desktop, hold 37k tokens; a round 32k.
        config=EngineConfig(max_total_tokens=32_768, context_length=32_768, chunked_prefill_size=2048),
    )


def _laptop_8b() -> Preset:
    """Qwen3-8B at 4 bits on the same 16 GB card, what people run at home: dearer to prefill, cheaper to decode."""
    flop, bandwidth = 80e12, 576e9
    weights = 5.5e9  # bytes, as 4-bit weights with bf16 embeddings
    token_flop = 2 * 7.6e9  # 7.6e9 parameters outside the embedding
    kv = 2 * 36 * 8 * 128 * 2  # 36 layers, 8 KV heads, head_dim 128 = 147,456 bytes
    return Preset(
        model="Qwen/Qwen3-8B-AWQ",
        cost=CostModel(
            prefill_base_s=0.005,
            prefill_token_s=token_flop / (flop * 0.5),  # weights are unpacked to bf16 on the way
            prefill_pair_s=4 * 32 * 128 * 36 / (flop * 0.3),  # 32 query heads
            prefill_floor_s=weights / (bandwidth * 0.8),
            decode_base_s=weights / (bandwidth * 0.8),
            decode_seq_s=token_flop / (flop * 0.6),
            decode_token_s=kv / (bandwidth * 0.7),
            load_token_s=kv / LAPTOP_HOST_BYTES_S,
            backup_token_s=kv / LAPTOP_HOST_BYTES_S,
            token_link_bytes=kv,
            layers=36,
        ),
        # 16e9 bytes, less the weights and 2.5e9 for activations and the desktop, hold 54k tokens.
        config=EngineConfig(max_total_tokens=54_000, context_length=32_768, chunked_prefill_size=2048),
    )


def _cpu_sglang() -> Preset:
    """SGLang 0.5.23 on one CPU core with a tiny random model: the server the emulator is checked against.

    Seen there: 1,500 cold tokens 1.1 s, the same warm 0.07 to 0.15 s (its attention is recomputed over the whole
    length even on a hit, so the cache saves the rest only), decode 52 to 60 tokens/s alone. A fit replaces these.
    """
    return Preset(
        model="model",
        cost=CostModel(
            prefill_base_s=0.02,
            prefill_token_s=6.3e-4,
            prefill_pair_s=6e-8,
            decode_base_s=0.014,
            decode_seq_s=0.003,
            decode_token_s=1e-6,
        ),
        config=EngineConfig(max_total_tokens=16_000, context_length=8192, chunked_prefill_size=4096),
    )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "cpu-sglang": _cpu_sglang(),
        "deepseek-v3-h100-tp16": _deepseek_v3(),
        "laptop": _laptop(),
        "laptop-8b": _laptop_8b(),
        # Prefill GEMMs at half the peak on 2 cards, less where each card's share gets thin; an all-reduce of a small
        # message takes about 6, 9 and 12 microseconds over NVLink on 2, 4 and 8 cards.
        "qwen3-32b-h100-tp2": _qwen3_32b(2, 0.50, 6e-6),
        "qwen3-32b-h100-tp4": _qwen3_32b(4, 0.45, 9e-6),
        "qwen3-32b-h100-tp8": _qwen3_32b(8, 0.40, 12e-6),
    }
)
"""By name, for ``--preset``."""


def get_preset(name: str) -> Preset:
    """A preset by name.

    Raises:
        ValueError: naming it and those there are.
    """
    try:
        return PRESETS[name]
    except KeyError:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}") from None
