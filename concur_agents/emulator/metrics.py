"""``/metrics``: the engine's counters and gauges under SGLang 0.5.23's names and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from concur_agents.emulator.hicache import HostedCache, WritePolicy
from concur_agents.emulator.scheduler import Scheduler
from concur_agents.emulator.stats import Histogram

__all__ = ["MetricsPage"]

CACHE_LABELS = {"cache_type": "UnifiedRadixCache", "dp_rank": "0", "pp_rank": "0", "tp_rank": "0"}


class MetricsPage(Collector):
    """Renders one engine's metrics.

    Args:
        scheduler: the engine.
        model: the ``model_name`` label.
    """

    def __init__(self, scheduler: Scheduler, model: str) -> None:
        self._scheduler = scheduler
        self._engine = {"engine_type": "unified", "model_name": model}
        self._rank = {**self._engine, "moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Body and content type for an ``Accept`` header, by prometheus_client's rules (as SGLang's are)."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterable[Metric]:
        """Every family there is at the moment."""
        yield from self._constants()
        yield from self._gauges()
        yield from self._counters()
        yield from self._host()
        yield from self._ended()

    def _constants(self) -> Iterable[Metric]:
        config = self._scheduler.config
        yield self._gauge("max_total_num_tokens", "Size of the KV pool in tokens.", config.max_total_tokens)
        yield self._gauge("page_size", "Tokens per KV page.", config.page_size)
        yield self._gauge("num_pages", "KV pages.", config.max_total_tokens // config.page_size)
        yield self._gauge("context_len", "Longest context in tokens.", config.context_length)

    def _gauges(self) -> Iterable[Metric]:
        gauges, capacity = self._scheduler.stats.gauges, self._scheduler.config.max_total_tokens
        yield self._gauge("num_running_reqs", "Running requests.", gauges.running)
        yield self._gauge("num_queue_reqs", "Waiting requests.", gauges.queued)
        yield self._gauge("num_grammar_queue_reqs", "Requests waiting for a grammar.", 0)
        yield self._gauge("gen_throughput", "Decoded tokens per second.", gauges.gen_throughput)
        yield self._gauge("cache_hit_rate", "Prefix cache hit rate of the last prefill.", gauges.cache_hit_rate)
        yield self._gauge("decode_sum_seq_lens", "Tokens held by the decode batch.", gauges.decode_sum_seq_lens)
        yield self._gauge("token_usage", "Pinned share of the pool.", round(gauges.used / capacity, 2))
        yield self._gauge("full_token_usage", "Pinned share of the pool.", gauges.used / capacity)
        yield self._gauge("swa_token_usage", "Not in this engine.", 0)
        yield self._gauge("mamba_usage", "Not in this engine.", 0)
        yield self._gauge("num_used_tokens", "Pinned tokens.", gauges.used)
        yield self._gauge("kv_available_tokens", "Free slots.", gauges.available)
        yield self._gauge("kv_evictable_tokens", "Cached and unlocked tokens.", gauges.evictable)
        yield self._gauge("kv_used_tokens", "Pinned tokens.", gauges.used)
        yield self._gauge("new_token_ratio", "Share of outputs that admission reserves.", gauges.new_token_ratio)
        yield self._gauge("utilization", "Not in this engine.", 0)
        labels = {**self._rank, "pid": "1"}
        yield self._gauge("num_retracted_reqs", "Retracted since the report before.", gauges.retracted, labels)
        yield self._gauge("num_paused_reqs", "Not in this engine.", 0, labels)

    def _counters(self) -> Iterable[Metric]:
        stats = self._scheduler.stats
        yield self._counter(
            "prefill_effective_tokens_total",
            "Prompt tokens by where they came from; recomputation after a retraction left out.",
            "mode",
            {
                "input": stats.effective_input,
                "device_hit": stats.effective_hits - stats.effective_host_hits,
                "host_hit": stats.effective_host_hits,
                "storage_hit": 0,
            },
        )
        yield self._counter(
            "realtime_tokens_total",
            "Tokens processed.",
            "mode",
            {
                "prefill_compute": stats.prefill_compute,
                "decode": stats.decode_tokens,
                "prefill_cache": stats.prefill_cache,
            },
        )
        yield self._counter(
            "cuda_graph_passes_total",
            "Forward passes.",
            "mode",
            {"prefill_none": stats.prefill_passes, "decode_none": stats.decode_passes},
        )
        if stats.retracted_requests:
            for name, value in (
                ("num_retracted_requests_total", stats.retracted_requests),
                ("num_retracted_input_tokens_total", stats.retracted_input),
                ("num_retracted_output_tokens_total", stats.retracted_output),
            ):
                yield self._count(name, "Of requests thrown out for want of memory.", value, self._rank)
        if evicted := self._scheduler.cache.evicted_total:
            yield self._count("evicted_tokens_total", "Tokens evicted from the cache.", evicted, CACHE_LABELS)

    def _host(self) -> Iterable[Metric]:
        """What a server with HiCache shows besides."""
        cache, config = self._scheduler.cache, self._scheduler.config.hicache
        if not isinstance(cache, HostedCache) or config is None:
            return
        gauges, bytes_each = self._scheduler.stats.gauges, self._scheduler.cost.token_link_bytes
        yield self._gauge("hicache_host_used_tokens", "Tokens in host memory.", gauges.host_used)
        yield self._gauge("hicache_host_total_tokens", "Size of the host pool in tokens.", cache.host_capacity)
        dropped = {"host_pressure": 0}  # of write-back, which is not there
        if config.write_policy is WritePolicy.WRITE_THROUGH:
            dropped["write_through_unbacked_eviction"] = cache.dropped_total
        labels = {"pool": "kv", **CACHE_LABELS}
        yield self._counter(
            "hicache_dropped_tokens_total", "Tokens evicted without a copy in host memory.", "reason", dropped, labels
        )
        for name, tokens, text in (
            ("hicache_backup", cache.backed_up_total, "copied to host memory"),
            ("load_back", cache.loaded_total, "loaded back from host memory"),
        ):
            if tokens:
                yield self._count(f"{name}_tokens_total", f"Tokens {text}.", tokens, labels)
                yield self._count(f"{name}_bytes_total", f"Bytes {text}.", tokens * bytes_each, CACHE_LABELS)

    def _ended(self) -> Iterable[Metric]:
        stats = self._scheduler.stats
        modes = {str(streaming).lower(): mode for streaming, mode in stats.by_mode.items() if mode.requests}
        if modes:
            yield self._counter(
                "prompt_tokens_total",
                "Prompt tokens of ended requests.",
                "is_streaming",
                {name: mode.prompt_tokens for name, mode in modes.items()},
                self._engine,
            )
            yield self._counter(
                "generation_tokens_total",
                "Output tokens of ended requests.",
                "is_streaming",
                {name: mode.generation_tokens for name, mode in modes.items()},
                self._engine,
            )
            yield self._counter(
                "num_requests_total",
                "Ended requests.",
                "is_streaming",
                {name: mode.requests for name, mode in modes.items()},
                self._engine,
            )
        if stats.cached_tokens:
            sources = {"device": stats.cached_tokens - stats.cached_host_tokens, "host": stats.cached_host_tokens}
            yield self._counter(
                "cached_tokens_total",
                "Cached prompt tokens of ended requests.",
                "cache_source",
                {source: tokens for source, tokens in sources.items() if tokens},
                self._engine,
            )
        if stats.aborted_requests:
            yield self._count("num_aborted_requests_total", "Aborts asked for.", stats.aborted_requests, self._engine)
        by_mode = [({"is_streaming": name, **self._engine}, mode) for name, mode in modes.items()]
        yield self._histogram("time_to_first_token_seconds", [(which, mode.ttft) for which, mode in by_mode])
        yield self._histogram("e2e_request_latency_seconds", [(which, mode.e2e) for which, mode in by_mode])
        yield self._histogram("queue_time_seconds", [(self._rank, stats.queue_time)])

    def _gauge(self, name: str, text: str, value: float, labels: Mapping[str, str] | None = None) -> Metric:
        labels = self._rank if labels is None else labels
        family = GaugeMetricFamily(f"sglang:{name}", text, labels=list(labels))
        family.add_metric(list(labels.values()), value)
        return family

    def _count(self, name: str, text: str, value: float, labels: Mapping[str, str]) -> Metric:
        family = CounterMetricFamily(f"sglang:{name}", text, labels=list(labels))
        family.add_metric(list(labels.values()), value)
        return family

    def _counter(
        self, name: str, text: str, label: str, values: Mapping[str, float], labels: Mapping[str, str] | None = None
    ) -> Metric:
        labels = self._rank if labels is None else labels
        family = CounterMetricFamily(f"sglang:{name}", text, labels=[label, *labels])
        for mode, value in values.items():
            family.add_metric([mode, *labels.values()], value)
        return family

    def _histogram(self, name: str, series: Sequence[tuple[dict[str, str], Histogram]]) -> Metric:
        names = list(series[0][0]) if series else []
        family = HistogramMetricFamily(f"sglang:{name}", "In engine seconds.", labels=names)
        for labels, histogram in series:
            total = 0
            buckets: list[tuple[str, float]] = []
            for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
                total += count
                buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), total))
            family.add_metric(list(labels.values()), buckets, histogram.sum)
        return family
