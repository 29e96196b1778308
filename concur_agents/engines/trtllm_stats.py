"""trtllm-serve's iteration statistics (JSON, at /metrics) -> EngineSample."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from concur_agents.samples import EngineSample

__all__ = ["iteration_sample"]

_ENGINE = "tensorrt_llm"
# What a row must have one of to be an iteration's.
_MARKS = frozenset({"kvCacheStats", "numActiveRequests", "iterLatencyMS", "inflightBatchingStats"})


def iteration_sample(text: str, rank: int | None = None) -> EngineSample | None:
    """Read the iterations since the last reading, oldest first; None where the text is no such list.

    An empty list says nothing: nothing ran since. With attention data parallelism each iteration has a row for each
    rank. Of every rank its last row counts, whose counters are since the start; with ``rank``, of that one alone.
    """
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and _MARKS & row.keys() for row in rows):
        return None
    last: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        of = f"{_number(row.get('attentionDpRank')) or 0:g}"
        if rank is None or of == str(rank):
            last[of] = row
    pools = {of: _part(row, "kvCacheStats") for of, row in sorted(last.items(), key=lambda each: float(each[0]))}
    usages = {of: usage for of, pool in pools.items() if (usage := _usage(pool)) is not None}
    hits, queries = _hits(pools)
    return EngineSample(
        engine=_ENGINE,
        pinned_usage=max(usages.values(), default=None),
        rank_usages=MappingProxyType(usages),
        running=_count([_number(row.get("numActiveRequests")) for row in last.values()]),
        queued=_count([_number(row.get("numQueuedRequests")) for row in last.values()]),
        capacity_tokens=_count([_product(pool, "maxNumBlocks", "tokensPerBlock") or None for pool in pools.values()]),
        hit_tokens_total=hits,
        query_tokens_total=queries,
        hit_counter=None if queries is None else "kvCacheStats",
        hit_rate_gauge=_gauge(pools),
    )


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = row.get(name)
    return part if isinstance(part, Mapping) else {}


def _number(value: object) -> float | None:
    """A count as it should be; anything else is unknown."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _product(pool: Mapping[str, Any], one: str, other: str) -> float | None:
    first, second = _number(pool.get(one)), _number(pool.get(other))
    return None if first is None or second is None else first * second


def _usage(pool: Mapping[str, Any]) -> float | None:
    """Of blocks held by requests: a block that is only cached counts as free."""
    used, most = _number(pool.get("usedNumBlocks")), _number(pool.get("maxNumBlocks"))
    return used / most if used is not None and most and used <= most else None


def _hits(pools: Mapping[str, Mapping[str, Any]]) -> tuple[float | None, float | None]:
    """Tokens found, and tokens looked up: whole blocks, as the engine counts them."""
    reused = [_product(pool, "reusedBlocks", "tokensPerBlock") for pool in pools.values()]
    missed = [_product(pool, "missedBlocks", "tokensPerBlock") for pool in pools.values()]
    hits, misses = _sum(reused), _sum(missed)
    return (None, None) if hits is None or misses is None else (hits, hits + misses)


def _gauge(pools: Mapping[str, Mapping[str, Any]]) -> float | None:
    rates = [rate for pool in pools.values() if (rate := _number(pool.get("cacheHitRate"))) is not None and rate <= 1]
    return max(rates, default=None)


def _sum(values: list[float | None]) -> float | None:
    """Unknown when one of them is, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _count(values: list[float | None]) -> int | None:
    total = _sum(values)
    return None if total is None else round(total)
