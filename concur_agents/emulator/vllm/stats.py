"""What vLLM counts, and how it counts the prefix cache.

A request is counted when it is admitted, with all its tokens as queries and those found cached as hits; one that was
preempted before is counted apart, in numbers that ``/metrics`` does not show (``PrefixCacheStats.record`` and
``vllm/v1/metrics/loggers.py`` of vLLM 0.32.0; in older versions the recomputation showed as a hit). Gauges follow
every forward pass, so they are read from the scheduler itself.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["VllmStats"]


@dataclass(slots=True)
class VllmStats:
    """Counters of one engine since its start. Tokens unless said."""

    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    """Looked up and found at the first admission of a request (``vllm:prefix_cache_queries`` and ``_hits``)."""
    preempted_queries: int = 0
    preempted_hits: int = 0
    """The same at later admissions of preempted requests; shown nowhere."""
    preemptions: int = 0
    """Times that a running request was thrown out for want of memory (``vllm:num_preemptions``)."""
    prefill_tokens: int = 0
    """Computed in prefill, also again after a preemption."""
    decode_tokens: int = 0
    """Generated in decode steps; the first token of a request comes from its prefill."""
    passes: int = 0
    """Forward passes."""
    mixed_passes: int = 0
    """Of these, the ones that prefilled and decoded."""
    finished_requests: int = 0
    """Ended requests, however they ended."""
    prompt_tokens: int = 0
    generation_tokens: int = 0
    cached_tokens: int = 0
    """Of ended requests."""

    @property
    def retracted_requests(self) -> int:
        """Preemptions, under the name that all engines have for it."""
        return self.preemptions

    def lookup(self, queries: int, hits: int, *, preempted: bool) -> None:
        """A request was admitted."""
        if preempted:
            self.preempted_queries += queries
            self.preempted_hits += hits
        else:
            self.prefix_cache_queries += queries
            self.prefix_cache_hits += hits
