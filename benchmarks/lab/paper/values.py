"""What the paper publishes (Concur, arXiv 2601.22705): seconds end to end, and shares. Read off its tables.

Its set-up: H100 80 GB with NVLink, SGLang, the latency of a whole batch; alpha 2, beta 0.5, U_low 0.2, U_high 0.5 and
H_thresh 0.2 throughout. It names no workload, tick, start window, request cap, size of HiCache, nor repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["FIGURES", "TABLE_1", "TABLE_2", "TABLE_3", "Latencies"]


@dataclass(frozen=True, slots=True)
class Latencies:
    """A row of Table 1, in seconds."""

    sglang: float
    requests: float
    hicache: float
    concur: float


TABLE_1: Mapping[tuple[str, int], Latencies] = MappingProxyType(
    {
        ("qwen3-32b-tp8", 256): Latencies(1480, 2049, 976, 362),
        ("qwen3-32b-tp4", 256): Latencies(2213, 1089, 1678, 757),
        ("qwen3-32b-tp2", 256): Latencies(2527, 1383, 1112, 846),
        ("deepseek-v3-tp16", 16): Latencies(873, 861, 2559, 521),
        ("deepseek-v3-tp16", 32): Latencies(1226, 1367, 2277, 1018),
        ("deepseek-v3-tp16", 40): Latencies(3877, 2903, 2320, 2043),
    }
)
"""By engine and agents."""

TABLE_2: Mapping[int, Latencies] = MappingProxyType(
    {
        16: Latencies(0.8038, 0.6900, 0.9748, 0.9638),
        32: Latencies(0.7772, 0.6839, 0.9713, 0.9365),
        40: Latencies(0.3541, 0.3221, 0.9608, 0.7336),
    }
)
"""Hit rates of DeepSeek-V3, 0..1, by agents. The table says TP 8, Table 1 says TP 16."""

TABLE_3: Mapping[str, Mapping[float, tuple[float, float, float]]] = MappingProxyType(
    {
        "u_high": {0.4: (529, 1089, 1390), 0.5: (362, 757, 846), 0.6: (386, 775, 945), 0.8: (1898, 2300, 2498)},
        "u_low": {0.1: (2894, 2561, 972), 0.2: (362, 757, 846), 0.3: (779, 1566, 1008), 0.5: (2763, 2245, 1451)},
    }
)
"""Qwen3-32B at TP 8, 4 and 2, in seconds; by the threshold that is changed (U_low stays 0.2, U_high 0.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    warm_hit: float = 0.9
    """Figure 3, DeepSeek-V3: hit rate in warm-up."""
    middle_hit: float = 0.3
    """In the middle phase."""
    middle_share: float = 0.9
    """The middle phase is more than this of the run."""
    recomputing: float = 0.491
    """Of the latency, what is recomputation."""
    none_hit: tuple[float, float] = (0.3, 0.5)
    """Figure 5, Qwen3-32B, 256 agents, TP 2: hit rate of the baseline."""
    concur_hit: tuple[float, float] = (0.7, 0.9)
    concur_usage: float = 0.8
    """Around this, in a sawtooth; the baseline's is at capacity."""
    fixed: tuple[int, ...] = (30, 32, 64, 128)
    """Figure 6, the same row: fixed windows."""
    best_fixed: int = 64
    best_fixed_s: float = 1605.0
    """As read off the figure by one reader (1.9 times Concur's 846 s); another reads 1.5 times."""
    concur_s: float = 846.0


FIGURES = _Figures()
"""What its Figures 3, 5 and 6 show."""
