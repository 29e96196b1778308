"""Reader for vLLM."""

from __future__ import annotations

from concur_agents.engines.reader import MetricsReader

__all__ = ["VLLM"]


class VLLM(MetricsReader):
    """Reads a vLLM server (V0 to 0.32, also under Ray). The KV pool's size is in its metrics, or unknown."""

    no_metrics = "vLLM serves /metrics on its own address; is this a router's or another server's?"
