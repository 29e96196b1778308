"""TensorRT-LLM's metric names (trtllm-serve's /prometheus/metrics, and Dynamo's workers) -> EngineSample."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from concur_agents.engines.exposition import Names, Series
from concur_agents.engines.hits import HitCounter, first_counting
from concur_agents.engines.ranks import by_rank, pool_tokens, summed, to_count, usages
from concur_agents.samples import EngineSample

__all__ = ["TRTLLM_NAMES", "trtllm_sample"]

# Blocks held by requests, of all: a block that is only cached counts as free. So it is pinned usage.
_USAGE = "kv_cache_utilization"
_MAX, _USED, _SIZE = "kv_cache_max_blocks", "kv_cache_used_blocks", "kv_cache_tokens_per_block"
_REUSED, _MISSED = "kv_cache_reused_blocks_total", "kv_cache_missed_blocks_total"
# Counted when a request ends.
_CACHED, _PROMPT = "prompt_cached_tokens_total", "prompt_tokens_total"

TRTLLM_NAMES = Names(
    engine="tensorrt_llm",
    prefixes=("trtllm_", "trtllm:"),
    names=frozenset(
        {_USAGE, _MAX, _USED, _SIZE, _REUSED, _MISSED, _CACHED, _PROMPT}
        | {"num_requests_running", "num_requests_waiting", "kv_cache_hit_rate"}
    ),
)


def trtllm_sample(series: Series) -> EngineSample:
    """Read one TensorRT-LLM body. It says nothing of evictable cache, and counts no retractions: both stay unknown."""
    most, size = by_rank(series.points(_MAX)), by_rank(series.points(_SIZE))
    ranks = usages(series.points(_USAGE)) or _used_of(by_rank(series.points(_USED)), most)
    pools = {rank: _product(blocks, size.get(rank)) for rank, blocks in most.items()}
    counter = first_counting(_hit_counters(series, next(iter(size.values()), None)))
    gauges = usages(series.points("kv_cache_hit_rate"))
    return EngineSample(
        engine=TRTLLM_NAMES.engine,
        pinned_usage=max(ranks.values(), default=None),
        rank_usages=MappingProxyType(ranks),
        running=to_count(summed(series.points("num_requests_running"))),
        queued=to_count(summed(series.points("num_requests_waiting"))),
        capacity_tokens=pool_tokens(pools, ranks),
        hit_tokens_total=counter.hits,
        query_tokens_total=counter.queries,
        hit_counter=counter.name,
        hit_rate_gauge=max(gauges.values(), default=None),
    )


def _product(blocks: float | None, size: float | None) -> float | None:
    return None if blocks is None or size is None else blocks * size


def _used_of(used: dict[str, float | None], most: dict[str, float | None]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for rank, blocks in used.items():
        pool = most.get(rank)
        if blocks is not None and pool and blocks <= pool:
            shares[rank] = blocks / pool
    return shares


def _hit_counters(series: Series, size: float | None) -> Iterator[HitCounter]:
    """Best first: blocks, as they are looked up; then tokens, of requests that have ended."""
    # A counter does not exist before it first counts.
    reused = 0.0 if series.lacks(_REUSED) and series.points(_MISSED) else summed(series.points(_REUSED))
    missed = 0.0 if series.lacks(_MISSED) and series.points(_REUSED) else summed(series.points(_MISSED))
    if size and reused is not None and missed is not None:
        yield HitCounter(_REUSED, reused * size, (reused + missed) * size)
    yield HitCounter(_CACHED, summed(series.points(_CACHED)), summed(series.points(_PROMPT)))
