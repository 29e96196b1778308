"""Times of single forward passes of an engine, by length, cached prefix and batch, through its ``/generate``.

Nothing here is of the workload: prompts are random token ids of lengths on a grid. A list of prompts in one request
mostly runs as one pass; where the engine says when a prompt's pass began, passes are told apart by that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks.real.engine import Engine
from benchmarks.real.wire import EngineError

__all__ = ["DecodePoint", "PrefillPoint", "calibrate"]

FIRST_ID, LAST_ID = 500, 2300
"""Token ids of words, away from special tokens."""

REPEATS = 5
"""Each point's time is the median of so many: one interruption does no harm."""

# New tokens of single prompts, and (cached, new) behind a prefix: the range that contexts of a few thousand tokens
# and tool results of a few hundred span, and a little beyond, so that nothing is extrapolated.
COLD = (32, 128, 400, 800, 1600, 2800)
CACHED = tuple((cached, new) for cached in (500, 1500, 3000) for new in (24, 80, 200, 400))
# Prompts, cached and new tokens of each: passes of several prompts at once.
TOGETHER = ((4, 1000, 100), (8, 500, 60), (3, 0, 600))
# Sequences and tokens of each, decoding for STEPS steps.
DECODING = ((1, 200), (1, 2400), (3, 200), (3, 2000), (6, 200), (6, 1600), (10, 200), (10, 1000), (16, 200), (16, 700))
STEPS = 32

NEEDED = max(sequences * (tokens + STEPS + 1) for sequences, tokens in DECODING)
"""Tokens of pool without which sequences would throw each other out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillPoint:
    """One prefill pass."""

    shapes: tuple[tuple[int, int], ...]
    """New and cached tokens of each prompt."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePoint:
    """Some decode steps of the same sequences."""

    sequences: int
    steps: int
    tokens: int
    """Tokens held by all sequences, summed over the steps."""
    seconds: float


async def calibrate(
    engine: Engine, said: Callable[[str], None], *, seed: int = 0
) -> tuple[list[PrefillPoint], list[DecodePoint]]:
    """Measure the grid: about a minute on one core of a CPU. The cache is empty before and after.

    Args:
        engine: idle.
        said: told what is being measured.
        seed: of the prompts.

    Raises:
        EngineError: the engine fails, its pool is too small, or its answers do not say how long they took.
    """
    pool = engine.scheduling["max_total_tokens"]
    if pool < NEEDED:
        raise EngineError(f"a pool of {pool:,} tokens is too small to calibrate: it takes {NEEDED:,}")
    probe = _Probe(engine, Random(f"calibration {seed}"))
    await probe.warm_up()
    prefill: list[PrefillPoint] = []
    for new in COLD:
        said(f"prefill of {new:,} tokens")
        prefill += await probe.prefill(1, 0, new)
    for cached, new in CACHED:
        said(f"prefill of {new:,} tokens behind {cached:,} cached")
        prefill += await probe.prefill(1, cached, new)
    for prompts, cached, new in TOGETHER:
        said(f"prefill of {prompts} x {new:,} tokens behind {cached:,} cached")
        prefill += await probe.prefill(prompts, cached, new)
    decode = []
    for sequences, tokens in DECODING:
        said(f"decode steps of {sequences} x {tokens:,} tokens")
        decode.append(await probe.decode(sequences, tokens))
    await engine.flush()
    return prefill, decode


class _Probe:
    def __init__(self, engine: Engine, rng: Random) -> None:
        self._engine = engine
        self._rng = rng

    async def warm_up(self) -> None:
        for tokens in (2000, 200):
            await self._ask([self._ids(tokens)], 4)

    async def prefill(self, prompts: int, cached: int, new: int) -> list[PrefillPoint]:
        """Passes of ``prompts`` prompts, each ``new`` tokens behind ``cached``; medians by the shapes that ran."""
        await self._engine.flush()
        prefix = self._ids(cached)
        if cached:
            await self._ask([prefix], 1)
        times: dict[tuple[tuple[int, int], ...], list[float]] = defaultdict(list)
        for _ in range(REPEATS):
            replies = await self._ask([prefix + self._ids(new) for _ in range(prompts)], 1)
            for shapes, seconds in _passes(replies):
                times[shapes].append(seconds)
        return [PrefillPoint(shapes=shapes, seconds=_median(found)) for shapes, found in times.items()]

    async def decode(self, sequences: int, tokens: int) -> DecodePoint:
        """Steps of ``sequences`` sequences that have ``tokens`` tokens each when they begin."""
        await self._engine.flush()
        prompts = [self._ids(tokens) for _ in range(sequences)]
        for prompt in prompts:
            await self._ask([prompt], 1)  # so that all begin to decode at nearly the same time
        times = []
        for _ in range(REPEATS):
            replies = await self._ask(prompts, STEPS + 1)
            # Who began last decoded beside all the others from its first step to its last.
            times.append(min(_number(reply, "e2e_latency") - _first_token_s(reply) for reply in replies))
        held = sum(sequences * (tokens + step) for step in range(1, STEPS + 1))
        return DecodePoint(sequences=sequences, steps=STEPS, tokens=held, seconds=_median(times))

    def _ids(self, count: int) -> list[int]:
        return self._rng.choices(range(FIRST_ID, LAST_ID), k=count)

    async def _ask(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[Mapping[str, Any]]:
        """What the engine tells of each prompt's generation."""
        body = {
            "input_ids": [list(prompt) for prompt in prompts],
            "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0},
        }
        answers = await self._engine.generate(body)
        try:
            replies = [answer["meta_info"] for answer in answers]
        except (TypeError, LookupError):
            raise EngineError(f"/generate does not answer as SGLang's does: {str(answers)[:300]}") from None
        if len(replies) != len(prompts):
            raise EngineError(f"/generate gave {len(replies)} answers to {len(prompts)} prompts")
        for reply in replies:
            if reply.get("completion_tokens") != tokens:
                raise EngineError(
                    f"{reply.get('completion_tokens')} tokens came instead of {tokens}: is the pool too small?"
                )
        return replies


def _passes(replies: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[tuple[int, int], ...], float]]:
    """Shapes and seconds of each prefill pass."""
    groups: dict[float | None, list[Mapping[str, Any]]] = defaultdict(list)
    for reply in replies:
        groups[reply.get("forward_entry_time")].append(reply)
    found = []
    for group in groups.values():
        shapes = sorted(
            (
                int(_number(reply, "prompt_tokens") - _number(reply, "cached_tokens")),
                int(_number(reply, "cached_tokens")),
            )
            for reply in group
        )
        found.append((tuple(shapes), max(_prefill_s(reply) for reply in group)))
    return found


def _prefill_s(reply: Mapping[str, Any]) -> float:
    """From the pass's begin to its end where the engine says so, else from leaving the queue to the first token."""
    if "forward_entry_time" in reply and "prefill_finished_time" in reply:
        return _number(reply, "prefill_finished_time") - _number(reply, "forward_entry_time")
    return _first_token_s(reply) - _number(reply, "queue_time")


def _first_token_s(reply: Mapping[str, Any]) -> float:
    return _number(reply, "first_token_latency") if "first_token_latency" in reply else _number(reply, "e2e_latency")


def _number(reply: Mapping[str, Any], name: str) -> float:
    value = reply.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise EngineError(
            f"/generate does not tell {name}: start SGLang with --enable-metrics and --enable-cache-report"
        )
    return float(value)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
