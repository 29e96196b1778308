"""A reading of the lab's engine, as a scrape of its ``/metrics`` would say it."""

from __future__ import annotations

from concur_agents import EngineSample
from concur_agents.emulator import Scheduler
from concur_agents.emulator.vllm import VllmScheduler

__all__ = ["SchedulerReader", "VllmReader"]


class SchedulerReader:
    """Reads the scheduler's own gauges and counters, which move when the real ones do. Never fails."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def read(self, timeout: float) -> EngineSample:  # noqa: ARG002 - the protocol's
        """One reading."""
        stats, capacity = self._scheduler.stats, self._scheduler.config.max_total_tokens
        gauges = stats.gauges
        return EngineSample(
            engine="sglang",
            pinned_usage=gauges.used / capacity,
            occupied_usage=(gauges.used + gauges.evictable) / capacity,
            running=gauges.running,
            queued=gauges.queued,
            capacity_tokens=capacity,
            retractions_total=float(stats.retracted_requests),
            hit_tokens_total=float(stats.effective_hits),
            query_tokens_total=float(stats.effective_hits + stats.effective_input),
            hit_counter="prefill_effective_tokens_total",
        )

    def close(self) -> None:
        """Nothing to let go of."""


class VllmReader:
    """Reads an emulated vLLM: its gauges follow every forward pass, and none says how much cache is evictable."""

    def __init__(self, scheduler: VllmScheduler) -> None:
        self._scheduler = scheduler

    def read(self, timeout: float) -> EngineSample:  # noqa: ARG002 - the protocol's
        """One reading."""
        scheduler, stats = self._scheduler, self._scheduler.stats
        return EngineSample(
            engine="vllm",
            pinned_usage=scheduler.cache.usage,
            running=len(scheduler.running),
            queued=len(scheduler.waiting),
            capacity_tokens=scheduler.config.max_total_tokens,
            retractions_total=float(stats.preemptions),
            hit_tokens_total=float(stats.prefix_cache_hits),
            query_tokens_total=float(stats.prefix_cache_queries),
            hit_counter="prefix_cache_hits_total",
        )

    def close(self) -> None:
        """Nothing to let go of."""
