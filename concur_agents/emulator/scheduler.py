"""The engine's loop, one forward pass a call: continuous batching as SGLang 0.5.23 does it, without a clock.

Prefill goes before decode; prompts are cut into chunks; when a decode step finds no memory even after evicting,
running requests are retracted (least output first, longest prompt first among equals) and queue again. The scheduler
knows engine seconds only as the sum of what its cost model says; whoever drives it decides how long that is on a wall
clock, or that it is no time at all.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import islice

from concur_agents.emulator.admission import PrefillPlan, plan_prefill
from concur_agents.emulator.batch import DecodeBatch
from concur_agents.emulator.config import EngineConfig
from concur_agents.emulator.cost import CostModel
from concur_agents.emulator.hicache import HostedCache
from concur_agents.emulator.kv import KvBook
from concur_agents.emulator.radix import TOKEN_BYTES, RadixCache
from concur_agents.emulator.request import FinishReason, Request
from concur_agents.emulator.results import QueueFullError, StepKind, StepResult, TooLongError
from concur_agents.emulator.stats import EngineStats

__all__ = ["Scheduler"]

INIT_RATIO = 0.7
MIN_RATIO_FACTOR = 0.14
RATIO_DECAY_STEPS = 600
RETRACT_STEPS = 20
# SGLang's new-token ratio: the share of a request's output that admission reserves. It starts at 0.7 and decays to
# 0.14 of that over 600 decode steps; retraction makes room for 20 more steps of everybody left.
TOUCH_EVERY = 32
TOUCH_MOST = 128
# SGLang renews the prefixes of the first 128 waiting requests in every 32nd attempt to prefill.


class Scheduler:
    """Queue, batch and cache of one engine. Not thread-safe; every call returns at once.

    Args:
        config: sizes and limits.
        cost: seconds of a forward pass.
    """

    def __init__(self, config: EngineConfig, cost: CostModel) -> None:
        self.config = config
        self.cost = cost
        self.cache: RadixCache = (
            RadixCache(config.max_total_tokens, config.page_size)
            if config.hicache is None
            else HostedCache(config.max_total_tokens, config.page_size, config.hicache, cost.backup_token_s)
        )
        self.stats = EngineStats(self.cache)
        self.clock_s = 0.0
        """Engine seconds since the start; a driver may move it on while the engine idles."""
        self.waiting: deque[Request] = deque()
        self._batch = DecodeBatch()
        self._kv = KvBook(self.cache)
        self._chunked: Request | None = None
        self._full = False
        """Nobody can join until a running request leaves (SGLang's ``batch_is_full``)."""
        self._init_ratio = min(INIT_RATIO * config.schedule_conservativeness, 1.0)
        self._min_ratio = self._init_ratio * MIN_RATIO_FACTOR
        self._decay = (self._init_ratio - self._min_ratio) / RATIO_DECAY_STEPS
        self._ratio = self._init_ratio
        self._prefill_attempts = 0
        self._report_phase = 0

    # Requests

    def check(self, prompt_tokens: int) -> None:
        """Whether a prompt of this length can ever run.

        Raises:
            TooLongError: when it cannot.
        """
        context, longest = self.config.context_length, self.config.max_prompt_tokens
        if prompt_tokens >= context:
            raise TooLongError(
                f"The input ({prompt_tokens} tokens) is longer than the model's context length ({context} tokens)."
            )
        if prompt_tokens >= longest:
            raise TooLongError(
                f"Input length ({prompt_tokens} tokens) exceeds the maximum allowed length ({longest} tokens). "
                "Use a shorter input or enable --allow-auto-truncate."
            )

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises:
            TooLongError: when its prompt can never fit.
            QueueFullError: when too many wait.
        """
        self.check(request.prompt_tokens)
        limit = self.config.max_queued_requests
        if limit is not None and len(self.waiting) + 1 > limit:
            raise QueueFullError("The request queue is full.")
        room = (
            self.config.max_request_tokens - request.prompt_tokens,
            self.config.max_total_tokens - self._kv.pages(request.prompt_tokens) - self.config.page_size,
        )
        request.max_new_tokens = max(0, min(request.max_new_tokens, min(room) - 1))
        request.submitted_at = self.clock_s
        self.waiting.append(request)

    def abort(self, rid: str = "", *, everything: bool = False) -> list[Request]:
        """End the requests whose name starts with ``rid``, or all.

        Those that wait end now and are returned; those that run end with their next forward pass.
        """
        chunked = [] if self._chunked is None else [self._chunked]
        live = (*self.waiting, *self._batch.requests, *chunked)
        hit = [request for request in live if everything or request.rid.startswith(rid)]
        return [request for request in hit if self.abort_request(request)]

    def abort_request(self, request: Request) -> bool:
        """End exactly this request; True if it waited and has ended now, False if its next pass will end it."""
        if request.finish_reason is not None:
            return False
        if request in self.waiting:
            self.waiting.remove(request)
            request.finish_reason = FinishReason.ABORT
            request.abort_message = "Abort in waiting queue"
            request.finished_at = self.clock_s
            return True
        request.abort_wanted = True
        self._batch.end_next_step(request)
        return False

    def output_len(self, request: Request) -> int:
        """Output tokens of a request up to now."""
        self._batch.update(request)
        return request.out

    @property
    def running(self) -> Sequence[Request]:
        """The decoding requests, in the order they joined."""
        return self._batch.requests

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run and nothing waiting."""
        return not self._batch and not self.waiting and self._chunked is None

    def flush(self) -> bool:
        """Empty the cache; refused (False) while anything runs or waits, as SGLang does."""
        if not self.idle:
            return False
        self.cache.reset()
        self._report_phase = 0
        return True

    def restart(self) -> None:
        """Forget every request and the cache, as after a crash; counters and clock go on."""
        self.cache.reset()
        self.waiting.clear()
        self._batch = DecodeBatch()
        self._chunked = None
        self._full = False

    # One pass

    def step(self, *, limit_s: float = 0.0) -> StepResult:
        """One forward pass, or several decode steps in one go.

        Decode steps are taken together only as long as nothing can change in between (nobody ends, no report is due,
        memory lasts) and, beyond the first, only up to ``limit_s`` engine seconds.
        """
        finished: list[Request] = []
        self.cache.settle(self.clock_s)
        self._continue_chunk(finished)
        plan = self._plan_prefill()
        if plan is not None:
            return self._prefill(plan, finished)
        if self._batch:
            self._make_room_to_decode(finished)
            if self._batch:
                return self._decode(limit_s, finished)
        if self.idle:
            self._ratio = self._init_ratio
            self.cache.settle(math.inf)  # copies under way end within milliseconds, and nobody waits for them
            self.stats.idle(self.clock_s)
        elif (settles := self.cache.settles_at) is not None and settles > self.clock_s:
            # The pool is too full for whoever waits until a copy to host memory lets go of its part.
            waited, self.clock_s = settles - self.clock_s, settles
            return StepResult(kind=StepKind.IDLE, duration_s=waited, finished=finished)
        return StepResult(kind=StepKind.IDLE, finished=finished)

    # Prefill

    def _continue_chunk(self, finished: list[Request]) -> None:
        request = self._chunked
        if request is None:
            return
        if request.abort_wanted:
            self._chunked = None
            self._kv.drop(request)
            self._close(request, FinishReason.ABORT)
            finished.append(request)
        else:
            self._kv.checkpoint(request, request.extend_end)

    def _plan_prefill(self) -> PrefillPlan | None:
        if not self._batch:
            self._full = False
        if self._chunked is None:
            if self._full or not self.waiting:
                return None
            if len(self._batch) >= self.config.max_running_requests:
                self._full = True
                return None
        self._touch_waiting()
        plan = plan_prefill(
            self.config,
            self.cache,
            waiting=self.waiting,
            running=self._batch.requests,
            chunked=self._chunked,
            full=self._full,
            ratio=self._ratio,
            output_len=self.output_len,
        )
        self._full = plan.full
        return plan if plan.requests else None

    def _touch_waiting(self) -> None:
        if not self.waiting:
            return
        if self._prefill_attempts % TOUCH_EVERY == 0:
            for request in reversed(list(islice(self.waiting, TOUCH_MOST))):
                self.cache.match(request.tokens())
        self._prefill_attempts += 1

    def _prefill(self, plan: PrefillPlan, finished: list[Request]) -> StepResult:
        batch, running = plan.requests, len(self._batch)
        for _ in range(len(batch) - (self._chunked is not None)):
            self.waiting.popleft()
        self._chunked = plan.chunked
        # On a paged pool SGLang makes room for one page more per request than it may need.
        page = self.config.page_size
        self.cache.make_room(plan.new if page == 1 else plan.new + len(batch) * page)
        duration = self.cost.prefill_s([(r.extend_end - r.prefix, r.prefix) for r in batch])
        if plan.loaded:
            duration = self.cost.loading_s(duration, plan.loaded)
        for request in batch:
            self._count_schedule(request)
            self._kv.extend(request)
        self.clock_s += duration
        advanced = self._after_prefill(batch, finished)
        self.stats.prefill(
            now=self.clock_s,
            new=plan.new,
            hits=plan.hits,
            new_again=plan.new_again,
            hits_again=plan.hits_again,
            host_hits=plan.host_hits,
            running=running,
            queued=len(self.waiting),
            ratio=self._ratio,
        )
        return StepResult(kind=StepKind.PREFILL, duration_s=duration, steps=1, advanced=advanced, finished=finished)

    def _count_schedule(self, request: Request) -> None:
        if request.scheduled_at is None:
            request.scheduled_at = self.clock_s
            self.stats.queue_time.observe(self.clock_s - request.submitted_at)
        if not request.retractions:
            request.cached_tokens += request.prefix - request.already_computed
            request.already_computed = request.extend_end

    def _after_prefill(self, batch: list[Request], finished: list[Request]) -> list[Request]:
        """First tokens; whoever has not ended joins the running batch."""
        was_empty = not self._batch
        ended = len(finished)
        advanced = [request for request in batch if request is not self._chunked]
        for request in advanced:
            request.out += request.target > 0
            if request.first_token_at is None:
                request.first_token_at = self.clock_s
            if request.abort_wanted or request.out >= request.target:
                self._finish(request, finished)
            else:
                self._kv.checkpoint(request, request.extend_end)
                self._batch.join(request)
        # SGLang tries to prefill again as soon as its last batch shrank, or became the running batch.
        if was_empty or len(finished) > ended or len(advanced) < len(batch):
            self._full = False
        return advanced

    # Decode

    def _decode(self, limit_s: float, finished: list[Request]) -> StepResult:
        batch = self._batch.requests
        steps, duration = self._take_together(limit_s)
        # Before each step SGLang makes room for a whole page per request, however few it needs.
        self.cache.make_room(self._slots_for(steps - 1) + len(batch) * self.config.page_size)
        self.cache.allocate(self._slots_for(steps))
        self._ratio = max(self._ratio - self._decay * (steps - 1), self._min_ratio)
        self._batch.advance(steps)
        sum_seq_lens = self._batch.kv_tokens
        self.clock_s += duration
        ended = self._batch.take_ended()
        for request in ended:
            self._finish(request, finished)
        if ended:
            self._full = False
        self.stats.decode(steps=steps, tokens=steps * len(batch))
        self._report_phase += steps
        if self._report_phase >= self.config.decode_log_interval:
            self._report_phase = 0
            self.stats.decode_report(
                now=self.clock_s, running=len(batch), queued=len(self.waiting), sum_seq_lens=sum_seq_lens
            )
        return StepResult(kind=StepKind.DECODE, duration_s=duration, steps=steps, advanced=batch, finished=finished)

    def _take_together(self, limit_s: float) -> tuple[int, float]:
        """How many decode steps can be taken as one, and how long they last."""
        size, tokens = len(self._batch), self._batch.kv_tokens
        most = min(self.config.decode_log_interval - self._report_phase, self._batch.steps_left())
        if self.waiting and not self._full:
            most = 1
        elif self._slots_for(most) > self.cache.reclaimable:
            most = self.cache.reclaimable // size if self.config.page_size == 1 else 1
        duration = 0.0
        for step in range(most):
            more = self.cost.decode_s(size, tokens + (step + 1) * size)
            if step and duration + more > limit_s:
                return step, duration
            duration += more
        return most, duration

    def _make_room_to_decode(self, finished: list[Request]) -> None:
        """Evict for the next step; where that is not enough, retract (SGLang's ``retract_decode``)."""
        if self.cache.make_room(self._slots_for(1)):
            self._ratio = max(self._ratio - self._decay, self._min_ratio)
            return
        for request in self._batch.requests:
            self._batch.update(request)
        order = sorted(self._batch.requests, key=lambda r: (r.out, -r.prompt_tokens), reverse=True)
        gone: list[Request] = []
        first = True
        while len(order) > 1 and (first or not self.cache.make_room(self._slots_for(1, order))):
            first = False
            gone.append(order.pop())
            self._retract(gone[-1], len(order))
        if not self.cache.make_room(self._slots_for(1, order)):
            last = order.pop()
            last.abort_message = (
                "Out of memory even after retracting all other requests in the decode batch. Aborting the last request."
            )
            last.failed = True
            self._retire(last)
            self._close(last, FinishReason.ABORT)
            finished.append(last)
        self._batch.requests = order  # SGLang goes on in this order
        self._full = False
        self.waiting.extend(gone)
        decoded = sum(r.out for r in order) + RETRACT_STEPS * len(order)
        self._ratio = min(1.0, decoded / (sum(r.max_new_tokens for r in order) + 1))

    def _retract(self, request: Request, left: int) -> None:
        self._retire(request)
        self.cache.make_room(left * RETRACT_STEPS)
        request.retractions += 1
        request.already_computed = 0
        self.stats.retracted(request)

    def _retire(self, request: Request) -> None:
        self._batch.take(lambda other: other is request)
        self._kv.drop(request)

    def _slots_for(self, steps: int, batch: Sequence[Request] | None = None) -> int:
        """Slots that so many decode steps of the batch take, in whole pages."""
        batch = self._batch.requests if batch is None else batch
        if self.config.page_size == 1:
            return steps * len(batch)
        total = 0
        for request in batch:
            self._batch.update(request)
            total += self._kv.pages(request.kv_tokens + steps) - self._kv.pages(request.kv_tokens)
        return total

    # Ends

    def _finish(self, request: Request, finished: list[Request]) -> None:
        """Keep its KV in the tree, let go of it, and say why it ended."""
        self._kv.checkpoint(request, request.kv_tokens)
        self._kv.drop(request)
        if request.abort_wanted:
            reason = FinishReason.ABORT
        elif request.stops and request.out * TOKEN_BYTES == len(request.output):
            reason = FinishReason.STOP
        else:
            reason = FinishReason.LENGTH
        self._close(request, reason)
        finished.append(request)

    def _close(self, request: Request, reason: FinishReason) -> None:
        request.finish_reason = reason
        request.finished_at = self.clock_s
        self.stats.finished(request)
