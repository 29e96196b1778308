"""Reader for whichever engine is behind the address."""

from __future__ import annotations

from concur_agents.engines.sglang import SGLang

__all__ = ["AnyEngine"]


class AnyEngine(SGLang):
    """Reads an SGLang or a vLLM server, whichever answers: their metrics say what they are.

    For addresses whose engine may be replaced by one of another kind while we run, as behind a gateway.
    """

    no_metrics = "start SGLang with --enable-metrics; vLLM serves /metrics on its own address"
