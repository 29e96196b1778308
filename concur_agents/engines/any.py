"""Reader for whichever engine is behind the address."""

from __future__ import annotations

from typing import ClassVar

from concur_agents.engines.sglang import SGLang
from concur_agents.engines.trtllm import TensorRTLLM, repeated
from concur_agents.samples import EngineSample

__all__ = ["AnyEngine"]


class AnyEngine(SGLang):
    """Reads an SGLang, vLLM or TensorRT-LLM server, whichever answers: their metrics say what they are.

    For addresses whose engine may be replaced by one of another kind while we run, as behind a gateway.
    """

    no_metrics = (
        "start SGLang with --enable-metrics, trtllm-serve with enable_iter_perf_stats: true; "
        "vLLM serves /metrics on its own address"
    )
    paths: ClassVar[tuple[str, ...]] = (*SGLang.paths, "/prometheus/metrics")

    def _accepted(self, sample: EngineSample) -> EngineSample | None:
        if sample.engine != "tensorrt_llm":
            return sample
        if self._last is None or self._last.engine != sample.engine:
            self._order = [*TensorRTLLM.paths, *SGLang.paths[1:]]  # from the next reading on
        return repeated(sample, self._last)
