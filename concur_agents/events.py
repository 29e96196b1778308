"""What happens, as it happens: frozen events, and streams of them that never slow the controller down."""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from concur_agents.samples import Outcome, WindowChange

__all__ = ["AgentEvent", "AgentEventKind", "Event", "EventStream", "ProblemEvent"]


class AgentEventKind(enum.StrEnum):
    """What happened to an agent."""

    ADMITTED = "admitted"
    """Got its first seat, or shares its parent's."""
    RESUMED = "resumed"
    """Takes its next step."""
    PAUSED = "paused"
    """At a boundary, seat kept."""
    PARKED = "parked"
    """At a boundary, seat given back."""
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """Something happened to one agent."""

    at: float
    """Seconds on the controller's clock."""
    agent_id: str
    kind: AgentEventKind
    outcome: Outcome | None = None
    """Of a FINISHED agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemEvent:
    """Concur has to do without something, or no longer has to."""

    at: float
    problem: str | None
    """None: all is well again."""


Event = AgentEvent | ProblemEvent | WindowChange


class _Sleeper(concurrent.futures.Future[None]):
    """A reader that waits for the next event."""


class EventStream:
    """One subscriber's events: iterate with ``async for`` or ``for``; ends when the controller closes.

    A reader that is too slow loses the oldest events, never the controller's time: see :attr:`dropped`.
    """

    def __init__(self, size: int, on_close: Callable[[EventStream], None]) -> None:
        self._events: deque[Event] = deque()
        self._size = size
        self._on_close = on_close
        self._lock = threading.RLock()  # a finalizer that runs inside may publish too
        self._sleepers: list[_Sleeper] = []
        self._closed = False
        self.dropped = 0
        """Events lost because more than ``size`` were waiting."""

    def publish(self, event: Event) -> None:
        """Add an event (the controller's side)."""
        with self._lock:
            if self._closed:
                return
            if len(self._events) >= self._size:
                self._events.popleft()
                self.dropped += 1
            self._events.append(event)
            sleepers, self._sleepers = self._sleepers, []
        _wake(sleepers)

    def close(self) -> None:
        """End the stream: what is already in it can still be read."""
        with self._lock:
            self._closed = True
            sleepers, self._sleepers = self._sleepers, []
        self._on_close(self)
        _wake(sleepers)

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        while isinstance(taken := self._take(), _Sleeper):
            await asyncio.wrap_future(taken)
        if taken is None:
            raise StopAsyncIteration
        return taken

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        while isinstance(taken := self._take(), _Sleeper):
            taken.result()
        if taken is None:
            raise StopIteration
        return taken

    def _take(self) -> Event | _Sleeper | None:
        """The next event, or what to wait for first, or None at the end."""
        with self._lock:
            if self._events:
                return self._events.popleft()
            if self._closed:
                return None
            # Readers that gave up while nothing happened must not pile up.
            self._sleepers = [each for each in self._sleepers if not each.cancelled()]
            sleeper = _Sleeper()
            self._sleepers.append(sleeper)
            return sleeper


def _wake(sleepers: list[_Sleeper]) -> None:
    for sleeper in sleepers:
        if sleeper.set_running_or_notify_cancel():
            sleeper.set_result(None)
