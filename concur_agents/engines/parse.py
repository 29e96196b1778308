"""One /metrics body -> EngineSample, whichever of the known engines wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from concur_agents.engines.exposition import Names, Series, read_series
from concur_agents.engines.ranks import is_rank
from concur_agents.engines.sglang_metrics import SGLANG, sglang_sample
from concur_agents.engines.trtllm_metrics import TRTLLM_NAMES, trtllm_sample
from concur_agents.engines.trtllm_stats import iteration_sample
from concur_agents.engines.vllm_metrics import VLLM_NAMES, vllm_sample
from concur_agents.errors import MetricsError
from concur_agents.samples import EngineSample

__all__ = ["read_sample"]

_ENGINES: Final[dict[Names, Callable[[Series], EngineSample]]] = {
    SGLANG: sglang_sample,
    VLLM_NAMES: vllm_sample,
    TRTLLM_NAMES: trtllm_sample,
}
_SAMPLE_LINE = re.compile(r"^[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^\n]*\})?[ \t]+[-+0-9.NIi]", re.MULTILINE)
_ASKS_FOR_KEY = re.compile(r"unauthori[sz]ed|forbidden|api[ _-]?key", re.IGNORECASE)


def read_sample(text: str, rank: int | None = None) -> EngineSample:
    """Read one /metrics body of SGLang (0.3.6 to 0.5.23), vLLM (V0 to 0.32) or TensorRT-LLM.

    Takes the Prometheus text format and OpenMetrics, names with ``:`` or ``_`` after the engine's prefix, and
    trtllm-serve's JSON. What the body does not say, or says unusably (NaN, Inf, negative, a broken line), is None and
    spoils nothing else.
    ``hit_rate`` and ``retractions`` need two samples: see :meth:`EngineSample.since`.

    Args:
        text: the body.
        rank: the only data-parallel rank to look at; None for all.

    Raises:
        MetricsError: the body holds no metrics of any of them; the message names the likely cause.
    """
    if text.lstrip()[:1] == "[" and (sample := iteration_sample(text, rank)) is not None:
        return sample
    series = read_series(text, tuple(_ENGINES))
    if series is None:
        raise MetricsError(_why_none(text))
    return _ENGINES[series.names](series if rank is None else series.filtered(lambda labels: is_rank(labels, rank)))


def _why_none(text: str) -> str:
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        return (
            "no metrics: the body is empty. The engine may still be starting, or run without metrics "
            "(SGLang needs --enable-metrics)"
        )
    if start.startswith(("<", "{", "[")):
        what = "an HTML page" if start.startswith("<") else "JSON"
        if _ASKS_FOR_KEY.search(start[:2000]):
            return f"not metrics but {what} that asks for a key: pass the engine's key as api_key"
        return f"not metrics but {what}: SGLang needs --enable-metrics, and the address must be the engine's own"
    if other := _SAMPLE_LINE.search(text):
        return (
            f"no metrics of SGLang, vLLM or TensorRT-LLM among these (the first is {other[1][:80]!r}): is this the "
            "engine's own address, and SGLang started with --enable-metrics?"
        )
    return f"not metrics but text that begins {start[:40]!r}: is this the engine's own address?"
