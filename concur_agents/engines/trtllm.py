"""Reader for TensorRT-LLM."""

from __future__ import annotations

from typing import ClassVar

from concur_agents.engines.client import ConnectionLostError
from concur_agents.engines.reader import MetricsReader
from concur_agents.errors import EngineUnreachableError, MetricsError
from concur_agents.samples import EngineSample

__all__ = ["TensorRTLLM", "repeated"]

_FLAGS = "start trtllm-serve with enable_iter_perf_stats: true in its --config, and best with return_perf_metrics: true"
_SLOW = "without return_perf_metrics trtllm-serve's /metrics may take 2 s to answer: set it, or a tick of 3 s"


class TensorRTLLM(MetricsReader):
    """Reads a server started by ``trtllm-serve`` with ``enable_iter_perf_stats: true`` in its configuration.

    Its ``/prometheus/metrics`` (``return_perf_metrics: true``) is preferred: ``/metrics`` hands each iteration's
    statistics to one reader only, and older versions take 2 s for that.
    """

    no_metrics = _FLAGS
    paths: ClassVar[tuple[str, ...]] = ("/prometheus/metrics", "/metrics")

    def _scrape(self, deadline: float) -> EngineSample:
        try:
            return super()._scrape(deadline)
        except ConnectionLostError:
            raise
        except EngineUnreachableError as error:
            raise EngineUnreachableError(f"{error} ({_SLOW})") from None

    def _accepted(self, sample: EngineSample) -> EngineSample | None:
        return repeated(sample, self._last)


def repeated(sample: EngineSample, last: EngineSample | None) -> EngineSample | None:
    """The sample; where it says nothing at all, the last one again, or None.

    Raises:
        MetricsError: it says nothing, and there is none before it.
    """
    if sample.pinned_usage is not None or sample.running is not None:
        return sample
    if sample.rank_usages or sample.query_tokens_total is not None:
        return None  # counts of requests, but none of iterations: perhaps there are some elsewhere
    if last is not None and last.engine == sample.engine:
        return last  # nothing ran since
    raise MetricsError(f"no statistics of iterations yet: they begin with the first request; {_FLAGS}")
