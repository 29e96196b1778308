"""Times of single forward passes of an engine, by length, cached prefix and batch, through its ``/generate``.

Nothing here is of the workload: prompts are random token ids of lengths on a grid. A list of prompts in one request
mostly runs as one pass; where the engine says when a prompt's pass began, passes are told apart by that.

A machine that others share is not equally fast all the time, so one long calibration would measure its hour, not the
engine. A sweep is short, takes every point of the grid once and in random order, and is meant to be repeated between
the runs whose times are to be explained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Protocol

from benchmarks.engines.wire import EngineError

__all__ = ["Calibrated", "DecodePoint", "Points", "PrefillPoint", "sweep"]

FIRST_ID, LAST_ID = 500, 2300
"""Token ids of words, away from special tokens."""

# New tokens of single prompts, and (cached, new) behind a prefix: the range that contexts of a few thousand tokens
# and tool results of a few hundred span, and a little beyond, so that nothing is extrapolated. The same of batches,
# from one agent to as many as a small pool holds: kernels change with their size (SGLang on a CPU: at 16 sequences).
COLD = (32, 128, 400, 800, 1200, 1600, 2200, 2800)
CACHED = {250: (24, 80), 700: (40, 160)} | dict.fromkeys((500, 1500, 3000), (24, 80, 200, 400))
# Prompts, cached and new tokens of each: passes of several prompts at once.
TOGETHER = ((4, 1000, 100), (8, 500, 60), (3, 0, 600), (2, 100, 1500), (4, 500, 40), (16, 250, 40), (8, 0, 200))
# Tokens of each sequence, and how many of them decode together, for STEPS steps.
DECODING = {250: (1, 2, 4, 8, 12, 15, 16, 20, 24, 32, 40, 48), 600: (4, 8, 16, 24), 1400: (1, 4, 8), 2600: (1, 4)}
STEPS = 24

NEEDED = max((tokens + STEPS) * max(batches) for tokens, batches in DECODING.items()) + 1000
"""Tokens of pool without which sequences would throw each other out."""
FILL = 2000
"""Tokens of the prompts that fill the pool first. In a pool that has been used the free places are scattered, as they
are once agents run: passes take about 8% longer there than in a fresh one."""


class Calibrated(Protocol):
    """What is measured: an engine, or what makes another server's answers look like SGLang's."""

    @property
    def scheduling(self) -> Mapping[str, Any]:
        """``max_total_tokens`` of it, its pool, is looked at."""
        ...

    async def flush(self) -> None:
        """Empty the prefix cache. Raises EngineError."""
        ...

    async def generate(self, body: Mapping[str, Any]) -> Any:
        """What SGLang's ``/generate`` answers to a list of prompts. Raises EngineError."""
        ...


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


@dataclass(slots=True)
class Points:
    """What has been measured so far. The same point of the grid may be in it several times."""

    prefill: list[PrefillPoint] = field(default_factory=list)
    decode: list[DecodePoint] = field(default_factory=list)


async def sweep(engine: Calibrated, points: Points, said: Callable[[str], None], *, seed: int = 0) -> None:
    """Measure every point of the grid once: a minute on one core of a CPU. The cache is empty before and after.

    Args:
        engine: idle.
        points: where the times go.
        said: told what is being measured.
        seed: of the prompts and their order.

    Raises:
        EngineError: the engine fails, its pool is too small, or its answers do not say how long they took.
    """
    pool = engine.scheduling["max_total_tokens"]
    if pool < NEEDED:
        raise EngineError(f"a pool of {pool:,} tokens is too small to calibrate: it takes {NEEDED:,}")
    probe = _Probe(engine, Random(f"calibration {seed}"), points, said)
    await engine.flush()
    await probe.fill(pool)
    tasks: list[Callable[[], Awaitable[None]]] = [partial(probe.prefill, 1, 0, (new,)) for new in COLD]
    tasks += [partial(probe.prefill, 1, cached, news) for cached, news in CACHED.items()]
    tasks += [partial(probe.prefill, prompts, cached, (new,)) for prompts, cached, new in TOGETHER]
    tasks += [partial(probe.decode, tokens, batches) for tokens, batches in DECODING.items()]
    probe.rng.shuffle(tasks)
    for task in tasks:
        await task()
    await engine.flush()


class _Probe:
    def __init__(self, engine: Calibrated, rng: Random, points: Points, said: Callable[[str], None]) -> None:
        self._engine = engine
        self._points = points
        self._said = said
        self.rng = rng

    async def fill(self, pool: int) -> None:
        """Have every place of the pool used once."""
        self._said("filling the pool")
        for _ in range(pool // FILL + 1):
            await self._ask([self._ids(FILL)], 4)

    async def prefill(self, prompts: int, cached: int, news: Sequence[int]) -> None:
        """One pass for each of ``news``: ``prompts`` prompts of so many tokens, each behind ``cached``."""
        prefix = self._ids(cached)
        if cached:
            await self._ask([prefix], 1)
        for new in news:
            self._said(f"prefill of {prompts} x {new:,} tokens behind {cached:,} cached")
            replies = await self._ask([prefix + self._ids(new) for _ in range(prompts)], 1)
            self._points.prefill += _passes(replies)

    async def decode(self, tokens: int, batches: Sequence[int]) -> None:
        """Steps of each of ``batches`` sequences that have ``tokens`` tokens each when they begin."""
        prompts = [self._ids(tokens) for _ in range(max(batches))]
        for prompt in prompts:
            await self._ask([prompt], 1)  # so that all begin to decode at nearly the same time
        for sequences in batches:
            self._said(f"decode steps of {sequences} x {tokens:,} tokens")
            replies = await self._ask(prompts[:sequences], STEPS + 1)
            # Who began last decoded beside all the others from its first step to its last.
            seconds = min(_number(reply, "e2e_latency") - _first_token_s(reply) for reply in replies)
            held = sum(sequences * (tokens + step) for step in range(1, STEPS + 1))
            self._points.decode.append(DecodePoint(sequences=sequences, steps=STEPS, tokens=held, seconds=seconds))

    def _ids(self, count: int) -> list[int]:
        return self.rng.choices(range(FIRST_ID, LAST_ID), k=count)

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


def _passes(replies: Sequence[Mapping[str, Any]]) -> list[PrefillPoint]:
    """The prefill passes that answered these prompts."""
    groups: dict[float | None, list[Mapping[str, Any]]] = defaultdict(list)
    for reply in replies:
        groups[reply.get("forward_entry_time")].append(reply)
    return [
        PrefillPoint(
            shapes=tuple(sorted(_shape(reply) for reply in group)), seconds=max(_prefill_s(reply) for reply in group)
        )
        for group in groups.values()
    ]


def _shape(reply: Mapping[str, Any]) -> tuple[int, int]:
    cached = int(_number(reply, "cached_tokens"))
    return int(_number(reply, "prompt_tokens")) - cached, cached


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
