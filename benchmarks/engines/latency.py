"""Where an engine's requests have spent their time, from the sums of its histograms.

SGLang (0.5.23) and its emulator tell queue, first token and end, streamed or not; vLLM (0.32) tells the stages
themselves. Sums over all requests that have ended, so what lies between two readings is the difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.engines.engine import Engine
from benchmarks.engines.kinds import SGLANG, VLLM_KIND
from benchmarks.engines.wire import EngineError, call

__all__ = ["NOTHING_YET", "Latency", "read_latency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds of all requests together, by the engine's clock."""

    queue_s: float
    """Waiting in the engine."""
    prefill_s: float
    """From leaving its queue to the first token."""
    decode_s: float
    """From the first token to the last."""

    def since(self, before: Latency) -> Latency:
        """What came on top; nothing is below 0 (the engine may have been started anew)."""
        each = {field.name: getattr(self, field.name) - getattr(before, field.name) for field in fields(self)}
        return Latency(**{name: max(0.0, seconds) for name, seconds in each.items()})


NOTHING_YET = Latency(queue_s=0.0, prefill_s=0.0, decode_s=0.0)
"""Before an engine's first request it may tell nothing at all."""


async def read_latency(engine: Engine) -> Latency | None:
    """That of now; None when the engine does not tell."""
    try:
        status, text = await asyncio.to_thread(call, "GET", f"{engine.url}/metrics")
    except EngineError:
        return None
    split = _SPLITS.get(engine.kind.name)
    if status != 200 or split is None:
        return None
    try:
        return split(_sums(text))
    except (KeyError, ValueError):  # a version that has other names; a body cut short
        return None


def _sums(text: str) -> Mapping[str, float]:
    """Of each histogram, over all its series."""
    wanted = "\n".join(line for line in text.splitlines() if "_seconds_sum{" in line or "_seconds_sum " in line)
    found: dict[str, float] = {}
    for name, value in _samples(wanted + "\n"):
        found[name] = found.get(name, 0.0) + value
    return found


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.value


def _sglang(sums: Mapping[str, float]) -> Latency:
    queue = sums["sglang:queue_time_seconds_sum"]
    first = sums["sglang:time_to_first_token_seconds_sum"]
    end = sums["sglang:e2e_request_latency_seconds_sum"]
    return Latency(queue_s=queue, prefill_s=max(0.0, first - queue), decode_s=max(0.0, end - first))


def _vllm(sums: Mapping[str, float]) -> Latency:
    return Latency(
        queue_s=sums["vllm:request_queue_time_seconds_sum"],
        prefill_s=sums["vllm:request_prefill_time_seconds_sum"],
        decode_s=sums["vllm:request_decode_time_seconds_sum"],
    )


_SPLITS: Mapping[str, Callable[[Mapping[str, float]], Latency]] = {SGLANG.name: _sglang, VLLM_KIND.name: _vllm}
