"""Who joins the next prefill pass, and with how many tokens: SGLang 0.5.23's first come, first served.

Each candidate must leave room for what it may still generate, and for a share (the new-token ratio) of what the
running requests may still generate. A prompt that does not fit the pass is cut: its rest goes on in the next one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from concur_agents.emulator.config import EngineConfig
from concur_agents.emulator.radix import TOKEN_BYTES, Found, RadixCache
from concur_agents.emulator.request import Request

__all__ = ["PrefillPlan", "plan_prefill"]

CLIP_NEW_TOKENS = 4096  # SGLang never reserves more than this for one request, however long it may generate


class _Verdict(enum.Enum):
    GO_ON = enum.auto()
    NO_MEMORY = enum.auto()
    PASS_FULL = enum.auto()


@dataclass(slots=True, kw_only=True)
class PrefillPlan:
    """One prefill pass. ``requests`` have ``prefix`` and ``extend_end`` set, and hold their locks."""

    requests: list[Request] = field(default_factory=list)
    chunked: Request | None = None
    """The request of this pass whose prompt goes on in the next one."""
    full: bool = False
    """Nobody else can join until a running request leaves."""
    new: int = 0
    hits: int = 0
    host_hits: int = 0
    """Of the hits, what came from host memory; tokens of retracted requests are left out here."""
    new_again: int = 0
    hits_again: int = 0
    loaded: int = 0
    """Tokens that this pass waits for, from host memory."""


def plan_prefill(
    config: EngineConfig,
    cache: RadixCache,
    *,
    waiting: Iterable[Request],
    running: Sequence[Request],
    chunked: Request | None,
    full: bool,
    ratio: float,
    output_len: Callable[[Request], int],
) -> PrefillPlan:
    """Choose the next pass: the rest of ``chunked`` first, then the queue in order until one does not fit."""
    plan = PrefillPlan(full=full)
    budget = _Budget(config, cache)
    budget.reserve_running(running, ratio, output_len)
    if chunked is not None:
        budget.take_chunk(plan, chunked)
    for request in waiting:
        if budget.verdict() is _Verdict.PASS_FULL:
            break
        if len(running) + len(plan.requests) >= config.max_running_requests:
            plan.full = True
        if plan.full:
            break
        tokens = request.tokens()
        found = cache.find(tokens, len(tokens) // TOKEN_BYTES - 1)
        request.prefix = request.protected = found.tokens
        verdict = budget.take(plan, request, found)
        if verdict is not _Verdict.GO_ON:
            if verdict is _Verdict.NO_MEMORY:
                plan.full = bool(plan.requests or running)
            break
    return plan


class _Budget:
    """Tokens of memory and of this pass that are still to be had."""

    def __init__(self, config: EngineConfig, cache: RadixCache) -> None:
        self._cache = cache
        self._page = config.page_size
        self._chunk_left = config.chunked_prefill_size
        self._input_left = config.max_prefill_tokens
        self._reserved = 0.0
        """For the whole life of everybody admitted."""
        self._immediate = 0
        """For this pass."""

    def reserve_running(self, running: Sequence[Request], ratio: float, output_len: Callable[[Request], int]) -> None:
        """Set aside what the running requests may still generate."""
        for request in running:
            left = min(request.max_new_tokens - output_len(request), CLIP_NEW_TOKENS)
            self._reserved += left if request.ignore_eos else left * ratio

    def verdict(self) -> _Verdict:
        """Whether anybody else may join."""
        room = self._cache.reclaimable
        if room - self._reserved <= 0 or room - self._immediate <= 0:
            return _Verdict.NO_MEMORY
        if self._input_left <= 0 or (self._chunk_left is not None and self._chunk_left <= 0):
            return _Verdict.PASS_FULL
        return _Verdict.GO_ON

    def take_chunk(self, plan: PrefillPlan, request: Request) -> None:
        """Go on with a prompt that was cut; it must go on, for only so can it give its memory back."""
        rest = request.prompt_tokens + request.out - request.prefix
        most = rest if self._chunk_left is None else self._chunk_left
        room = min(most, int(self._cache.reclaimable - self._reserved))
        limit = room if room > 0 else most
        cut = rest > limit
        request.extend_end = request.prefix + min(rest, limit)
        if cut:
            plan.chunked = request
        self._join(plan, request, hits=0, reserve=0 if cut else min(request.max_new_tokens, CLIP_NEW_TOKENS))

    def take(self, plan: PrefillPlan, request: Request, found: Found) -> _Verdict:
        """Let a request from the queue join, whole or cut, if it fits. Its ``prefix`` is what the pool has of it."""
        # The lock keeps the candidate's own prefix out of what could be evicted for it.
        node = found.node
        self._cache.lock(node)
        shape = self._shape(plan, request, found.tokens + found.host)
        if found.host and not isinstance(shape, _Verdict):
            if self._cache.load(found) and found.deepest is not None:
                self._cache.lock(found.deepest)
                self._cache.unlock(node)
                node = found.deepest
                request.prefix = request.protected = found.tokens + found.host
                plan.loaded += found.host
                if not request.retractions:
                    request.host_tokens = found.host
                    plan.host_hits += found.host
            else:
                shape = self._shape(plan, request, found.tokens)
        if isinstance(shape, _Verdict):
            self._cache.unlock(node)
            return shape
        request.node = node
        request.extend_end, cut = shape
        if cut:
            plan.chunked = request
        self._join(
            plan, request, hits=request.prefix, reserve=0 if cut else min(request.max_new_tokens, CLIP_NEW_TOKENS)
        )
        return self.verdict()

    def _shape(self, plan: PrefillPlan, request: Request, start: int) -> tuple[int, bool] | _Verdict:
        """Where this pass ends for a request of which ``start`` tokens are computed, and whether that cuts it."""
        length = request.prompt_tokens + request.out
        still = min(max(request.max_new_tokens - request.out, 0), CLIP_NEW_TOKENS)
        # What is to come from host memory takes slots too: only what the pool already has counts as there.
        if length - request.prefix + still + self._page >= self._cache.reclaimable - self._reserved:
            return _Verdict.NO_MEMORY
        paged = self._ceil(length - start)
        end = length
        if self._chunk_left is not None and paged > self._chunk_left:
            end = (start + self._chunk_left // self._page * self._page) // self._page * self._page
        over = self._chunk_left is None and plan.requests and paged >= self._input_left
        if end <= start or over:
            return _Verdict.PASS_FULL
        return end, end < length

    def _join(self, plan: PrefillPlan, request: Request, *, hits: int, reserve: int) -> None:
        extend = request.extend_end - request.prefix
        paged = self._ceil(extend)
        self._immediate += paged + self._page
        self._reserved += paged + self._page + reserve
        self._input_left -= paged
        if self._chunk_left is not None:
            self._chunk_left -= paged
        plan.requests.append(request)
        plan.new += extend
        plan.hits += hits
        if request.retractions:
            plan.new_again += extend
            plan.hits_again += hits

    def _ceil(self, tokens: int) -> int:
        return -(-tokens // self._page) * self._page
