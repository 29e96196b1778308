"""SGLang's metric names (0.3.6 to 0.5.23) -> EngineSample."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from concur_agents.engines.exposition import Names, Point, Series
from concur_agents.engines.hits import HitCounter, first_counting
from concur_agents.engines.ranks import by_rank, pool_tokens, summed, summed_all, to_count, usages
from concur_agents.samples import EngineSample

__all__ = ["SGLANG", "sglang_sample"]

# All alternatives: first that can be used counts.
# token_usage is the fullest of the pools (full attention, sliding window, state), rounded to two digits;
# full_token_usage is the first pool alone, and only stands in.
_USAGE = ("token_usage", "full_token_usage")
# 0.4 on; before the first release; with GET /v1/loads?format=prometheus.
_RUNNING = ("num_running_reqs", "num_requests_running")
_QUEUED = ("num_queue_reqs", "num_waiting_reqs", "num_requests_waiting", "queue_req")
_USED = ("kv_used_tokens", "num_used_tokens")

# A disaggregated engine's requests wait here as well; old and new name of each queue.
_MORE_QUEUES = (
    ("num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs"),
    ("num_prefill_inflight_queue_reqs", "num_prefill_infight_queue_reqs"),
    ("num_decode_prealloc_queue_reqs",),
    ("num_decode_transfer_queue_reqs",),
)

_EFFECTIVE = "prefill_effective_tokens_total"
_EFFECTIVE_HITS = ("device_hit", "host_hit", "storage_hit")
_REALTIME = "realtime_tokens_total"
_CACHED, _PROMPT = "cached_tokens_total", "prompt_tokens_total"
# A counter with labels does not exist before it first counts. num_retracted_requests_total came with
# realtime_tokens_total (0.5.9) and the later prefill_effective_tokens_total: beside either, absent means none yet.
# num_retracted_reqs is not used: a gauge, reset at each report, with series of dead processes.
_RETRACTED, _RETRACTED_SINCE = "num_retracted_requests_total", (_EFFECTIVE, _REALTIME)

_ROLES = frozenset({"prefill", "decode", "unified"})

SGLANG = Names(
    engine="sglang",
    prefixes=("sglang:", "sglang_"),
    names=frozenset(
        {*_USAGE, *_RUNNING, *_QUEUED, *_USED, *(name for queue in _MORE_QUEUES for name in queue)}
        | {"kv_evictable_tokens", "kv_available_tokens", "max_total_num_tokens", "cache_hit_rate"}
        | {_EFFECTIVE, _REALTIME, _CACHED, _PROMPT, _RETRACTED}
    ),
)


def sglang_sample(series: Series) -> EngineSample:
    """Read one SGLang body."""
    role = _role(series)
    ranks = usages(_first(series, _USAGE))
    running = to_count(summed(_first(series, _RUNNING)))
    capacity = by_rank(series.points("max_total_num_tokens"))
    counter = first_counting(_hit_counters(series))
    gauges = usages(series.points("cache_hit_rate"))
    return EngineSample(
        engine=SGLANG.engine,
        role=role,
        pinned_usage=max(ranks.values(), default=None),
        occupied_usage=_occupied(series, capacity),
        rank_usages=MappingProxyType(ranks),
        # A prefill engine has no decode batch: its 0 says nothing about the load.
        running=None if role == "prefill" and not running else running,
        queued=_queued(series),
        capacity_tokens=pool_tokens(capacity, ranks),
        retractions_total=_retractions(series),
        hit_tokens_total=counter.hits,
        query_tokens_total=counter.queries,
        hit_counter=counter.name,
        hit_rate_gauge=sum(gauges.values()) / len(gauges) if gauges else None,
    )


def _first(series: Series, names: tuple[str, ...]) -> list[Point]:
    """Samples under the first name that has any usable value."""
    for name in names:
        points = series.points(name)
        if any(point.value is not None for point in points):
            return points
    return []


def _role(series: Series) -> str | None:
    roles = {role for point in series.all_points() if (role := point.labels.get("engine_type"))}
    return roles.pop() if len(roles) == 1 and roles <= _ROLES else None


def _queued(series: Series) -> int | None:
    waiting = summed(_first(series, _QUEUED))
    for queue in _MORE_QUEUES:
        points = next((points for name in queue if (points := series.points(name))), [])
        if points:
            more = summed(points)
            waiting = None if waiting is None or more is None else waiting + more
    return to_count(waiting)


def _occupied(series: Series, capacity: dict[str, float | None]) -> float | None:
    used = by_rank(_first(series, _USED))
    evictable = by_rank(series.points("kv_evictable_tokens"))
    available = by_rank(series.points("kv_available_tokens"))
    shares = (
        _occupied_share(used.get(rank), evictable.get(rank), available.get(rank), capacity.get(rank))
        for rank in evictable.keys() | available.keys()
    )
    return max((share for share in shares if share is not None), default=None)


def _occupied_share(
    used: float | None, evictable: float | None, available: float | None, capacity: float | None
) -> float | None:
    if not used and not evictable and not available:
        return None  # a pool is never without all three: these gauges exist but have not been written yet
    if not capacity:
        if used is None or evictable is None or available is None:
            return None
        capacity = used + evictable + available
    if used is not None and evictable is not None:
        taken = used + evictable
    elif available is not None:
        taken = capacity - available
    else:
        return None
    return taken / capacity if 0 <= taken <= capacity else None


def _retractions(series: Series) -> float | None:
    points = series.points(_RETRACTED)
    if not points and series.whole and any(series.points(name) for name in _RETRACTED_SINCE):
        return 0.0
    return summed(points)


def _hit_counters(series: Series) -> Iterator[HitCounter]:
    """Best first. By mode: tokens served from each cache tier, and tokens computed."""
    yield _by_mode(series, _EFFECTIVE, hits=_EFFECTIVE_HITS, misses="input")
    yield _by_mode(series, _REALTIME, hits=("prefill_cache",), misses="prefill_compute")
    # Counted when a request ends. Their label sets differ (cache_source; is_streaming) and each label splits the
    # total, priorities included.
    yield HitCounter(_CACHED, summed_all(series.points(_CACHED)), summed_all(series.points(_PROMPT)))


def _by_mode(series: Series, name: str, *, hits: tuple[str, ...], misses: str) -> HitCounter:
    points = series.points(name)
    present = {point.labels.get("mode") for point in points}

    def total(mode: str) -> float | None:
        """A mode absent from a family that is there has not counted yet."""
        if mode not in present:
            return 0.0
        return summed(point for point in points if point.labels.get("mode") == mode)

    totals = [total(mode) for mode in (*hits, misses)]
    known = [value for value in totals if value is not None]
    if not present & {*hits, misses} or len(known) < len(totals):
        return HitCounter(name, None, None)
    return HitCounter(name, sum(known[:-1]), sum(known))
