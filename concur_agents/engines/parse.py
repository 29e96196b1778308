"""One /metrics body -> EngineSample, whichever of the known engines wrote it."""

from __future__ import annotations

import re

from concur_agents.engines.exposition import read_series
from concur_agents.engines.sglang_metrics import SGLANG, sglang_sample
from concur_agents.engines.vllm_metrics import VLLM_NAMES, vllm_sample
from concur_agents.errors import MetricsError
from concur_agents.samples import EngineSample

__all__ = ["read_sample"]

_SAMPLE_LINE = re.compile(r"^[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^\n]*\})?[ \t]+[-+0-9.NIi]", re.MULTILINE)
_ASKS_FOR_KEY = re.compile(r"unauthori[sz]ed|forbidden|api[ _-]?key", re.IGNORECASE)


def read_sample(text: str) -> EngineSample:
    """Read one /metrics body of SGLang (0.3.6 to 0.5.23) or vLLM (V0 to 0.32).

    Takes the Prometheus text format and OpenMetrics, names with ``:`` or ``_`` after the engine's prefix. What the
    body does not say, or says unusably (NaN, Inf, negative, a broken line), is None and spoils nothing else.
    ``hit_rate`` and ``retractions`` need two samples: see :meth:`EngineSample.since`.

    Raises:
        MetricsError: the body holds no metrics of either engine; the message names the likely cause.
    """
    series = read_series(text, (SGLANG, VLLM_NAMES))
    if series is None:
        raise MetricsError(_why_none(text))
    return sglang_sample(series) if series.names is SGLANG else vllm_sample(series)


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
            f"no metrics of SGLang or vLLM among these (the first is {other[1][:80]!r}): is this the engine's own "
            "address, and SGLang started with --enable-metrics?"
        )
    return f"not metrics but text that begins {start[:40]!r}: is this the engine's own address?"
