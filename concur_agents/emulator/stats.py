"""What the engine counts, with SGLang 0.5.23's habits of when a gauge moves.

Counters move at once. Gauges move only when a report is due: after each prefill pass, every
``decode_log_interval`` decode steps, and when the engine falls idle (at once if the running gauge is wrong then,
else at most each 30 s). So a scrape sees old numbers in between, as on the real engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from concur_agents.emulator.hicache import HostedCache
from concur_agents.emulator.radix import RadixCache
from concur_agents.emulator.request import Request

__all__ = ["EngineStats", "Gauges", "Histogram"]

IDLE_REPORT_S = 30.0  # SGLang: idle metrics at most this often
THROUGHPUT_STALE_S = 30.0  # SGLang: a decode throughput older than this reads 0

LATENCY_BOUNDS = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
"""Bucket bounds of the latency histograms, in seconds: SGLang's for the time to first token."""


class Histogram:
    """Counts per bucket, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Add one value."""
        self.sum += value
        for index, bound in enumerate(self.bounds):
            if value <= bound:
                self.counts[index] += 1
                return
        self.counts[-1] += 1


@dataclass(slots=True, kw_only=True)
class Gauges:
    """The values of the last report."""

    running: int = 0
    queued: int = 0
    used: int = 0
    evictable: int = 0
    available: int = 0
    host_used: int = 0
    gen_throughput: float = 0.0
    cache_hit_rate: float = 0.0
    """Of the last prefill pass only."""
    decode_sum_seq_lens: int = 0
    new_token_ratio: float = 0.0
    retracted: int = 0
    """Requests retracted since the report before."""


@dataclass(slots=True, kw_only=True)
class PerMode:
    """What is counted apart for streaming and other requests, when they end."""

    requests: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    ttft: Histogram = field(default_factory=Histogram)
    e2e: Histogram = field(default_factory=Histogram)


class EngineStats:
    """Counters and gauges of one engine. Times are engine seconds."""

    def __init__(self, cache: RadixCache) -> None:
        self._cache = cache
        self.gauges = Gauges()
        self.by_mode = {False: PerMode(), True: PerMode()}
        """By ``is_streaming``."""
        self.queue_time = Histogram()
        self.cached_tokens = 0
        """Of requests that ended."""
        self.cached_host_tokens = 0
        """Of those, what came from host memory."""
        self.effective_input = 0
        self.effective_hits = 0
        """Prefilled and cached prompt tokens, recomputation after a retraction left out."""
        self.effective_host_hits = 0
        """Of the cached ones, what came from host memory."""
        self.prefill_compute = 0
        self.prefill_cache = 0
        self.decode_tokens = 0
        self.prefill_passes = 0
        self.decode_passes = 0
        self.retracted_requests = 0
        self.retracted_input = 0
        self.retracted_output = 0
        self.aborted_requests = 0
        self._retracted_since_report = 0
        self._generated_since_report = 0
        self._last_decode_report = 0.0
        self._last_report = 0.0

    def prefill(
        self,
        *,
        now: float,
        new: int,
        hits: int,
        new_again: int,
        hits_again: int,
        host_hits: int = 0,
        running: int,
        queued: int,
        ratio: float,
    ) -> None:
        """A prefill pass: tokens computed and found, of which again after a retraction; always reported."""
        self.prefill_passes += 1
        self.prefill_compute += new
        self.prefill_cache += hits
        computed, found = new - new_again, hits - hits_again
        self.effective_input += computed
        self.effective_hits += found
        self.effective_host_hits += host_hits
        gauges = self.gauges
        gauges.running = running
        gauges.cache_hit_rate = found / (computed + found) if computed + found else 0.0
        gauges.new_token_ratio = ratio
        if now - self._last_decode_report > THROUGHPUT_STALE_S:
            gauges.gen_throughput = 0.0
        self._report(now, queued)

    def decode(self, *, steps: int, tokens: int) -> None:
        """Decode steps; reported only by :meth:`decode_report`."""
        self.decode_passes += steps
        self.decode_tokens += tokens
        self._generated_since_report += tokens

    def decode_report(self, *, now: float, running: int, queued: int, sum_seq_lens: int) -> None:
        """The report due every so many decode steps."""
        elapsed = now - self._last_decode_report
        self._last_decode_report = now
        gauges = self.gauges
        gauges.gen_throughput = self._generated_since_report / elapsed if elapsed > 0 else 0.0
        self._generated_since_report = 0
        gauges.running = running
        gauges.decode_sum_seq_lens = sum_seq_lens
        self._report(now, queued)

    def idle(self, now: float) -> None:
        """The engine has nothing to do."""
        if self.gauges.running == 0 and now <= self._last_report + IDLE_REPORT_S:
            return
        self.gauges.running = 0
        self.gauges.gen_throughput = 0.0
        self._pool()
        self.gauges.queued = 0
        self._last_report = now

    def retracted(self, request: Request) -> None:
        """A running request was thrown out for want of memory."""
        self.retracted_requests += 1
        self.retracted_input += request.prompt_tokens
        self.retracted_output += request.out
        self._retracted_since_report += 1

    def finished(self, request: Request) -> None:
        """A request that was scheduled at least once has ended."""
        if request.probe:
            return
        mode = self.by_mode[request.streaming]
        mode.requests += 1
        mode.prompt_tokens += request.prompt_tokens
        mode.generation_tokens += request.out
        self.cached_tokens += request.cached_tokens
        self.cached_host_tokens += request.host_tokens
        if request.finished_at is not None:
            mode.e2e.observe(request.finished_at - request.submitted_at)
        if request.first_token_at is not None:
            mode.ttft.observe(request.first_token_at - request.submitted_at)

    def _report(self, now: float, queued: int) -> None:
        self.gauges.queued = queued
        self.gauges.retracted = self._retracted_since_report
        self._retracted_since_report = 0
        self._pool()
        self._last_report = now

    def _pool(self) -> None:
        cache = self._cache
        self.gauges.used = cache.pinned
        self.gauges.evictable = cache.evictable
        self.gauges.available = cache.free
        if isinstance(cache, HostedCache):
            self.gauges.host_used = cache.host_used
