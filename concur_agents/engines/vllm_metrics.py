"""vLLM's metric names (V0 to 0.32, also under Ray) -> EngineSample."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from concur_agents.engines.exposition import Names, Point, Series
from concur_agents.engines.hits import HitCounter, first_counting
from concur_agents.engines.ranks import by_rank, pool_tokens, summed, to_count, usages
from concur_agents.samples import EngineSample

__all__ = ["VLLM_NAMES", "vllm_sample"]

# New name first. Servers of the transition report both: only one counts.
_USAGE = ("kv_cache_usage_perc", "gpu_cache_usage_perc")
# Both count tokens. What is computed again after a preemption counts as hit in older versions, as neither in 0.32.0:
# see num_preemptions_total.
_HITS = (
    ("prefix_cache_hits_total", "prefix_cache_queries_total"),
    ("gpu_prefix_cache_hits_total", "gpu_prefix_cache_queries_total"),
)

VLLM_NAMES = Names(
    engine="vllm",
    prefixes=("vllm:", "vllm_", "ray_vllm:", "ray_vllm_"),
    names=frozenset(
        {*_USAGE, *(name for pair in _HITS for name in pair)}
        | {"num_requests_running", "num_requests_waiting", "num_preemptions_total", "cache_config_info"}
    ),
)


def vllm_sample(series: Series) -> EngineSample:
    """Read one vLLM body. vLLM says nothing of evictable cache: ``occupied_usage`` stays unknown."""
    ranks = next((shares for name in _USAGE if (shares := usages(series.points(name)))), {})
    counter = first_counting(
        HitCounter(hits, summed(series.points(hits)), summed(series.points(queries))) for hits, queries in _HITS
    )
    return EngineSample(
        engine=VLLM_NAMES.engine,
        pinned_usage=max(ranks.values(), default=None),
        rank_usages=MappingProxyType(ranks),
        running=to_count(summed(series.points("num_requests_running"))),
        queued=to_count(summed(series.points("num_requests_waiting"))),
        capacity_tokens=pool_tokens(_sizes(series.points("cache_config_info")), ranks),
        retractions_total=summed(series.points("num_preemptions_total")),
        hit_tokens_total=counter.hits,
        query_tokens_total=counter.queries,
        hit_counter=counter.name,
    )


def _sizes(infos: list[Point]) -> dict[str, float | None]:
    """Pool size of each rank from the labels of an info gauge, whose value is always 1."""
    return by_rank(Point(labels, _tokens(labels)) for labels, _ in infos)


def _tokens(labels: Mapping[str, str]) -> float | None:
    """``kv_cache_size_tokens`` (recent), else blocks times block size. A label may hold the word None."""
    if size := _whole(labels.get("kv_cache_size_tokens")):
        return size
    blocks, block_size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
    return blocks * block_size if blocks and block_size else None


def _whole(text: str | None) -> float | None:
    # 12 digits are far above any pool; more would lose digits or end as infinity.
    return float(text) if text and text.isascii() and text.isdigit() and len(text) <= 12 else None
