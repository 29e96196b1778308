"""What every peer's gate is made of: agents that come, ask, wait, get a reply and go. How, each peer says itself.

Uses nothing but a scene's clock, reader, capacity and the length of the request that comes, so that the same arm runs
on an ordinary event loop before a real server.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from benchmarks.lab.arms.base import Scene
from benchmarks.lab.gate import GateRun, GateStep
from concur_agents import ControllerClosedError, EngineReadError, EngineSample, TokenUsage

__all__ = ["Guest", "PeerGate"]


@dataclass(slots=True, eq=False)
class Guest:
    """One agent, as a proxy in front of the engine sees it."""

    agent_id: str
    number: int
    """How many came before it."""
    steps: int = 0
    """Requests that it has made so far."""
    tokens: int = 0
    """What its peer takes its context for."""
    generating: bool = False
    """A request of it is in the engine."""
    idle_since: float = 0.0
    """Seconds on the clock when its last reply came."""
    waiter: asyncio.Future[None] | None = None
    """A request of it is held back; nobody ever sets it but :class:`PeerGate`."""
    waiting_since: float = 0.0
    """Seconds on the clock when that came."""

    @property
    def in_tool(self) -> bool:
        """Neither generating nor held back."""
        return not self.generating and self.waiter is None


class PeerGate(ABC):
    """A gate in which a peer decides who goes when. Implements :class:`benchmarks.lab.gate.Gate`.

    Args:
        scene: the cell. Of its batch only the length of a request is looked up, when the request comes.
    """

    def __init__(self, scene: Scene) -> None:
        self.clock = scene.clock
        self.capacity = scene.capacity_tokens
        self.tick_s = scene.tick_s
        self.waiting: dict[Guest, None] = {}
        """Agents with a request that is held back, those that wait longest first."""
        self._reader = scene.reader
        self._steps = {plan.agent_id: plan.steps for plan in scene.batch.plans}
        self._came = 0
        self._closed = False

    # --- what a peer says ---

    @abstractmethod
    def asked(self, guest: Guest, prompt: int) -> None:
        """A request of so many tokens came: :meth:`grant` it now, or later."""

    @abstractmethod
    def replied(self, guest: Guest, usage: TokenUsage | None, seconds: float | None) -> None:
        """The request has ended after so many seconds in the engine.

        ``usage`` is None when the engine turned it away; ``seconds`` are, when its client left before the reply.
        """

    @abstractmethod
    def withdrew(self, guest: Guest) -> None:
        """The client gave up a request that was held back."""

    @abstractmethod
    def left(self, guest: Guest) -> None:
        """The agent has ended."""

    @abstractmethod
    def tick(self) -> None:
        """See :class:`benchmarks.lab.gate.Gate`."""

    # --- what a peer may do ---

    def grant(self, guest: Guest) -> None:
        """Let the request of this agent go that is held back."""
        waiter, guest.waiter = guest.waiter, None
        if waiter is not None:
            del self.waiting[guest]
            guest.generating = True
            if not waiter.done():  # else its client is leaving already, and says so when it runs
                waiter.set_result(None)

    def read(self) -> EngineSample | None:
        """One reading of the engine's metrics; None when there is none."""
        try:
            return self._reader.read(0.8 * self.tick_s)
        except EngineReadError:
            return None

    def ticks(self, seconds: float) -> int:
        """How many ticks make so many seconds; at least 1."""
        return max(1, round(seconds / self.tick_s))

    # --- the gate ---

    def agent(self, agent_id: str) -> AbstractAsyncContextManager[GateRun]:
        """See :class:`benchmarks.lab.gate.Gate`."""
        return self._life(agent_id)

    def close(self) -> None:
        """See :class:`benchmarks.lab.gate.Gate`."""
        self._closed = True
        for guest in list(self.waiting):
            if guest.waiter is not None and not guest.waiter.done():
                guest.waiter.set_exception(_closed())

    @contextlib.asynccontextmanager
    async def _life(self, agent_id: str) -> AsyncIterator[GateRun]:
        guest = Guest(agent_id, self._came, idle_since=self.clock())
        self._came += 1
        try:
            yield _Run(self, guest)
        finally:
            self.left(guest)

    @contextlib.asynccontextmanager
    async def _step(self, guest: Guest) -> AsyncIterator[GateStep]:
        await self._wait(guest)
        step, began = _Step(), self.clock()
        try:
            yield step
        except BaseException:  # an error or a cancel alike: the step is over, and its time says nothing of the engine
            self._end(guest, step.usage, None)
            raise
        self._end(guest, step.usage, self.clock() - began)

    async def _wait(self, guest: Guest) -> None:
        if self._closed:
            raise _closed()
        prompt = self._prompt(guest)
        guest.steps += 1
        guest.waiting_since = self.clock()
        waiter = guest.waiter = asyncio.get_running_loop().create_future()
        self.waiting[guest] = None
        try:
            self.asked(guest, prompt)
            if guest in self.waiting:
                await waiter
        except BaseException:  # above all a cancel: whoever left must neither stay queued nor keep what it was granted
            if guest in self.waiting:
                guest.waiter = None
                guest.steps -= 1
                del self.waiting[guest]
                self.withdrew(guest)
            else:
                self._end(guest, None, None)  # granted while its client was leaving
            raise

    def _prompt(self, guest: Guest) -> int:
        steps = self._steps.get(guest.agent_id, ())
        return steps[guest.steps].prompt if guest.steps < len(steps) else guest.tokens

    def _end(self, guest: Guest, usage: TokenUsage | None, seconds: float | None) -> None:
        guest.generating = False
        guest.idle_since = self.clock()
        self.replied(guest, usage, seconds)


def _closed() -> ControllerClosedError:
    return ControllerClosedError("the gate is closed: nobody is let through any more")


class _Step:
    def __init__(self) -> None:
        self.usage: TokenUsage | None = None

    def observe(self, usage: TokenUsage) -> None:
        self.usage = usage


class _Run:
    def __init__(self, gate: PeerGate, guest: Guest) -> None:
        self._gate, self._guest = gate, guest

    def step(self) -> AbstractAsyncContextManager[GateStep]:
        return self._gate._step(self._guest)
