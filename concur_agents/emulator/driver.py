"""Runs a scheduler on an asyncio loop: engine seconds become loop seconds, divided by a speed-up.

Deadlines are absolute, so late sleeps do not add up; when behind, decode steps are taken together until the engine
has caught up. There is a task only while there is work: an idle engine costs nothing, and on a loop with virtual time
the whole thing runs at the speed of its arithmetic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from concur_agents.emulator.core import EngineCore
from concur_agents.emulator.request import FinishReason, Request
from concur_agents.emulator.results import StepResult

__all__ = ["Driver", "Generation"]

logger = logging.getLogger(__name__)

QUANTUM_S = 0.002
"""Loop seconds that decode steps may be taken together: a wake-up costs about 0.1 ms, an arrival waits at most this."""
MOMENT_S = 1e-6
"""Loop seconds that the driver of a virtual loop stands back, so that all who were woken at one time act in it."""


class Generation:
    """One request on its way, for whoever waits for it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.done = asyncio.Event()
        """Set when the request has ended; its ``finish_reason`` says how."""
        self._visible = 0
        self._moved = asyncio.Event()

    async def progress(self) -> AsyncIterator[int]:
        """The number of output tokens, each time there are more, and once when it has ended."""
        seen = -1
        while True:
            ended = self.done.is_set()
            if self._visible > seen or ended:
                seen = self._visible
                yield seen
            if ended:
                return
            await self._moved.wait()
            self._moved.clear()

    def _show(self, count: int) -> None:
        self._visible = count
        self._moved.set()

    def _end(self) -> None:
        self._visible = self.request.out
        self.done.set()
        self._moved.set()


class Driver:
    """Feeds one scheduler and delivers its results.

    Args:
        scheduler: the engine; nobody else may step it.
        speedup: engine seconds per loop second, above 0.
        until_next: of a loop with virtual time, the loop seconds until something else may happen. Decode steps are
            then taken together up to there: nobody can arrive before.

    Raises:
        ValueError: when the speed-up cannot be.
    """

    def __init__(
        self, scheduler: EngineCore, *, speedup: float = 1.0, until_next: Callable[[], float] | None = None
    ) -> None:
        if not 0 < speedup < float("inf"):
            raise ValueError(f"speedup must be positive and finite, got {speedup}")
        self.scheduler = scheduler
        self.speedup = speedup
        self.paused = False
        self._until_next = until_next
        self.behind_s = 0.0
        """Most loop seconds the engine has been late so far: the host is too slow for the speed-up."""
        self._live: dict[Request, Generation] = {}
        self._streams = 0
        self._task: asyncio.Task[None] | None = None
        self._anchor: tuple[float, float] | None = None

    def submit(self, request: Request) -> Generation:
        """Queue a request at this moment.

        Raises:
            TooLongError, QueueFullError: as :meth:`EngineCore.submit`.
        """
        now = self.now()
        if self.scheduler.idle:
            self.scheduler.clock_s = max(self.scheduler.clock_s, now)
        self.scheduler.submit(request)
        request.submitted_at = min(now, self.scheduler.clock_s)
        generation = Generation(request)
        self._live[request] = generation
        self._streams += request.streaming
        self._kick()
        return generation

    def knows(self, rid: str) -> bool:
        """Whether a request of exactly this name is on its way."""
        return any(request.rid == rid for request in self._live)

    def abort(self, rid: str = "", *, everything: bool = False) -> None:
        """End requests by the start of their name, or all (see :meth:`EngineCore.abort`)."""
        for request in self.scheduler.abort(rid, everything=everything):
            self._deliver_end(request)

    def abort_request(self, request: Request) -> None:
        """End exactly this request."""
        if self.scheduler.abort_request(request):
            self._deliver_end(request)

    def pause(self) -> None:
        """Take no further step until :meth:`resume`."""
        self.paused = True

    def resume(self) -> None:
        """Go on after :meth:`pause`; the engine's time has stood still meanwhile."""
        if self.paused:
            self.paused = False
            self._anchor = (asyncio.get_running_loop().time(), self.scheduler.clock_s)
            self._kick()

    def now(self) -> float:
        """Engine seconds that should have passed by now."""
        loop_now = asyncio.get_running_loop().time()
        if self._anchor is None:
            self._anchor = (loop_now, self.scheduler.clock_s)
        start, engine = self._anchor
        return engine + (loop_now - start) * self.speedup

    async def close(self) -> None:
        """End every request as aborted, and stop."""
        self.abort(everything=True)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for request in list(self._live):
            request.finish_reason = request.finish_reason or FinishReason.ABORT
            self._deliver_end(request)

    def _kick(self) -> None:
        if not self.paused and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._work()
        except Exception as problem:
            logger.exception("the emulated engine broke; every request in it fails")
            for request in list(self._live):
                request.finish_reason, request.failed = FinishReason.ABORT, True
                request.abort_message = f"engine failure: {problem!r}"
                self._deliver_end(request)
            self.scheduler.restart()

    async def _work(self) -> None:
        scheduler = self.scheduler
        while not self.paused:
            together = QUANTUM_S
            if self._until_next is not None:
                await asyncio.sleep(MOMENT_S)
                together = max(QUANTUM_S, self._until_next())
            lag = self.now() - scheduler.clock_s
            result = scheduler.step(limit_s=max(together * self.speedup, lag))
            delay = (scheduler.clock_s - self.now()) / self.speedup
            self.behind_s = max(self.behind_s, -delay)
            await asyncio.sleep(max(delay, 0.0))
            self._deliver(result)
            if scheduler.idle:
                scheduler.step()  # lets the engine notice that it idles: SGLang reports then
                return

    def _deliver(self, result: StepResult) -> None:
        if self._streams:
            for request in result.advanced:
                if request.streaming and request in self._live:
                    self._live[request]._show(self.scheduler.output_len(request))
        for request in result.finished:
            self._deliver_end(request)

    def _deliver_end(self, request: Request) -> None:
        generation = self._live.pop(request, None)
        if generation is not None:
            self._streams -= request.streaming
            generation._end()
