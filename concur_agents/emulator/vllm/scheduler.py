"""vLLM's V1 scheduler, one forward pass a call, without a clock.

What it does in a pass, as in ``Scheduler.schedule`` of vLLM 0.32.0:

1. every running request gets its next token, in order; the one whose prompt was cut gets as much of it as the pass
   has room for;
2. when the pool has no block for one of them, the request that joined last is preempted: it gives up its blocks and
   goes to the front of the queue, to compute everything again that is not cached by then;
3. if nobody was preempted, waiting requests join in the order they came, while the pass and the number of running
   requests have room and all of a request's tokens so far would fit the free blocks. The first that does not fit stops
   the rest.

So prompts are prefilled in the passes that decode, and a request's cached blocks are held from its admission on.
Blocks that fill up in decode are cached, here, when their request ends or is preempted; nobody else can have their
tokens earlier, unless he generates the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from concur_agents.emulator.batch import DecodeBatch
from concur_agents.emulator.cost import CostModel
from concur_agents.emulator.radix import TOKEN_BYTES
from concur_agents.emulator.request import FinishReason, Request
from concur_agents.emulator.results import StepKind, StepResult, TooLongError
from concur_agents.emulator.vllm.blocks import BlockPool, Hold
from concur_agents.emulator.vllm.config import VllmConfig
from concur_agents.emulator.vllm.growth import Growth
from concur_agents.emulator.vllm.passes import mixed_s
from concur_agents.emulator.vllm.stats import VllmStats

__all__ = ["VllmScheduler"]


class VllmScheduler:
    """Queue, batch and cache of one engine. Not thread-safe; every call returns at once.

    Args:
        config: sizes and limits.
        cost: seconds of a forward pass.
    """

    def __init__(self, config: VllmConfig, cost: CostModel) -> None:
        self.config = config
        self.cost = cost
        self.cache = BlockPool(config.blocks, config.page_size)
        self.stats = VllmStats()
        self.clock_s = 0.0
        """Engine seconds since the start; a driver may move it on while the engine idles."""
        self.waiting: deque[Request] = deque()
        self._clear()

    def _clear(self) -> None:
        self._batch = DecodeBatch()
        self._growth = Growth(self.config.page_size)
        self._chunked: Request | None = None
        """The running request whose prompt is not prefilled to its end; it joined last."""
        self._holds: dict[Request, Hold] = {}
        self._blocked = False
        """The first of the queue did not fit, and nothing has happened since that could help it."""

    # Requests

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises:
            TooLongError: when its prompt and one token more are longer than the context length.
        """
        prompt, longest = request.prompt_tokens, self.config.context_length
        if prompt > longest:
            raise TooLongError(
                f"The decoder prompt (length {prompt}) is longer than the maximum model length of {longest}."
            )
        if prompt == longest:
            raise TooLongError(
                f"The decoder prompt (length {prompt}) plus the number of requested output tokens (at least 1) is "
                f"longer than the maximum model length of {longest}."
            )
        request.max_new_tokens = max(0, min(request.max_new_tokens, longest - prompt))
        request.submitted_at = self.clock_s
        if not self.waiting:
            self._blocked = False
        self.waiting.append(request)

    def abort(self, rid: str = "", *, everything: bool = False) -> list[Request]:
        """End the requests whose name starts with ``rid``, or all; in vLLM also those that run end at once."""
        live = (*self.waiting, *self.running)
        hit = [request for request in live if everything or request.rid.startswith(rid)]
        return [request for request in hit if self.abort_request(request)]

    def abort_request(self, request: Request) -> bool:
        """End exactly this request; True if it has ended now, False if it had ended before or is not known."""
        if request.finish_reason is not None:
            return False
        if request in self._holds:
            self._stop(request)
            self._release(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        else:
            return False
        self._blocked = False
        request.abort_wanted = True
        self._close(request, FinishReason.ABORT)
        return True

    def output_len(self, request: Request) -> int:
        """Output tokens of a request up to now."""
        self._batch.update(request)
        return request.out

    @property
    def running(self) -> Sequence[Request]:
        """The requests in the running batch, in the order they joined; the last may still prefill."""
        return self._batch.requests if self._chunked is None else [*self._batch.requests, self._chunked]

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run and nothing waiting."""
        return not self._batch and not self.waiting and self._chunked is None

    def flush(self) -> bool:
        """Empty the cache; refused (False) while a running request holds blocks."""
        return self.cache.reset()

    def restart(self) -> None:
        """Forget every request and the cache, as after a crash; counters and clock go on."""
        self.cache.restart()
        self.waiting.clear()
        self._clear()

    # One pass

    def step(self, *, limit_s: float = 0.0) -> StepResult:
        """One forward pass, or several decode steps in one go.

        Decode steps are taken together only as long as nothing can change in between (nobody ends or could join,
        blocks last) and, beyond the first, only up to ``limit_s`` engine seconds.
        """
        preempted = self._make_room()
        self.cache.take(self._growth.blocks(1))
        budget = self.config.max_batched_tokens - len(self._batch)
        prefills: list[Request] = []
        chunked = self._chunked
        if chunked is not None and budget:
            if self._extend(chunked, budget):
                prefills.append(chunked)
                budget -= chunked.extend_end - chunked.prefix
                self._blocked = False
            else:
                self._preempt(chunked)
                preempted = True
        if not preempted:
            self._admit(prefills, budget)
        if prefills:
            return self._mixed(prefills)
        if self._batch:
            open_ = preempted or self._chunked is not None or (self.waiting and not self._blocked)
            return self._decode(0.0 if open_ else limit_s)
        return StepResult(kind=StepKind.IDLE)

    def _make_room(self) -> bool:
        """Preempt until every decoding request gets the block it needs; whether that was necessary."""
        preempted = False
        while self._growth.blocks(1) > self.cache.free:
            self._preempt(self._batch.requests[-1] if self._chunked is None else self._chunked)
            preempted = True
        return preempted

    def _preempt(self, request: Request) -> None:
        self._stop(request)
        self._release(request)
        request.retractions += 1
        self.stats.preemptions += 1
        self.waiting.appendleft(request)
        self._blocked = False

    def _admit(self, prefills: list[Request], budget: int) -> None:
        """Let waiting requests join, first come first served."""
        config, cache = self.config, self.cache
        running = len(self._batch) + len(prefills)
        while budget and self.waiting and not self._blocked:
            request = self.waiting[0]
            tokens = request.tokens()
            length = len(tokens) // TOKEN_BYTES
            # The last token is computed even when it is cached: its logits are wanted.
            match = cache.match(tokens, (length - 1) // config.page_size)
            need = self._blocks(length) - match.blocks + match.idle_blocks
            need += config.watermark_blocks if running else 0
            if running >= config.max_running_requests or need > cache.free:
                self._blocked = True
                return
            self.waiting.popleft()
            self._holds[request] = cache.acquire(match)
            request.kv_tokens = hits = match.blocks * config.page_size
            self.stats.lookup(length, hits, preempted=request.retractions > 0)
            if not request.retractions:
                request.cached_tokens = hits
                request.scheduled_at = self.clock_s
            self._extend(request, budget)
            prefills.append(request)
            budget -= request.extend_end - request.prefix
            running += 1

    def _extend(self, request: Request, budget: int) -> bool:
        """Give a request its next tokens to prefill, and their blocks; False where there are not enough free."""
        tokens = request.tokens()
        length = len(tokens) // TOKEN_BYTES
        end = min(length, request.kv_tokens + budget)
        need = self._blocks(end) - self._blocks(request.kv_tokens)
        if need > self.cache.free:
            return False
        self.cache.take(need)
        self.cache.publish(self._holds[request], tokens, end // self.config.page_size)
        request.prefix, request.extend_end, request.kv_tokens = request.kv_tokens, end, end
        self._chunked = request if end < length else None
        return True

    def _mixed(self, prefills: list[Request]) -> StepResult:
        """A pass with prompt tokens in it, and one token for everybody who decodes."""
        decoding = list(self._batch.requests)
        self._batch.advance(1)
        self._growth.advance(1)
        new = [(request.extend_end - request.prefix, request.prefix) for request in prefills]
        duration = mixed_s(self.cost, new, len(decoding), self._batch.kv_tokens)
        self.clock_s += duration
        stats = self.stats
        stats.passes += 1
        stats.mixed_passes += bool(decoding)
        stats.prefill_tokens += sum(tokens for tokens, _ in new)
        stats.decode_tokens += len(decoding)
        finished = self._end_decodes()
        done = [request for request in prefills if request is not self._chunked]
        for request in done:
            request.out += request.target > 0
            if request.first_token_at is None:
                request.first_token_at = self.clock_s
            if request.out >= request.target:
                self._finish(request)
                finished.append(request)
            else:
                self._batch.join(request)
                self._growth.join(request)
        return StepResult(
            kind=StepKind.PREFILL,
            duration_s=duration,
            steps=1,
            advanced=[*decoding, *done],
            finished=finished,
        )

    def _decode(self, limit_s: float) -> StepResult:
        """Decode steps; the blocks of the first are taken already."""
        batch = self._batch.requests
        first = self._growth.blocks(1)
        most = 1 if limit_s <= 0 else self._growth.lasts(self.cache.free + first, self._batch.steps_left())
        size, tokens = len(batch), self._batch.kv_tokens
        steps, duration = 0, 0.0
        while steps < most:
            more = self.cost.decode_s(size, tokens + (steps + 1) * size)
            if steps and duration + more > limit_s:
                break
            duration += more
            steps += 1
        self.cache.take(self._growth.blocks(steps) - first)
        self._batch.advance(steps)
        self._growth.advance(steps)
        self.clock_s += duration
        self.stats.passes += steps
        self.stats.decode_tokens += steps * size
        finished = self._end_decodes()
        return StepResult(kind=StepKind.DECODE, duration_s=duration, steps=steps, advanced=batch, finished=finished)

    # Ends

    def _end_decodes(self) -> list[Request]:
        finished = list(self._batch.take_ended())
        for request in finished:
            self._growth.leave(request)
            self._finish(request)
        return finished

    def _finish(self, request: Request) -> None:
        self._release(request)
        self._blocked = False
        whole = request.stops and request.out * TOKEN_BYTES == len(request.output)
        self._close(request, FinishReason.STOP if whole else FinishReason.LENGTH)

    def _close(self, request: Request, reason: FinishReason) -> None:
        request.finish_reason = reason
        request.finished_at = self.clock_s
        stats = self.stats
        stats.finished_requests += 1
        stats.prompt_tokens += request.prompt_tokens
        stats.generation_tokens += request.out
        stats.cached_tokens += request.cached_tokens

    def _stop(self, request: Request) -> None:
        """Take a request out of the running batch."""
        if request is self._chunked:
            self._chunked = None
        else:
            self._batch.take(lambda other: other is request)
            self._growth.leave(request)

    def _release(self, request: Request) -> None:
        """Cache a request's full blocks, and free all it holds."""
        hold = self._holds.pop(request)
        self.cache.publish(hold, request.tokens(), request.kv_tokens // self.config.page_size)
        self.cache.release(hold, self._blocks(request.kv_tokens))
        request.kv_tokens = 0

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.config.page_size)
