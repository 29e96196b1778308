"""Operations that run alone and tell others afterwards; never a deadlock, whoever calls from wherever.

Two rules:

* nobody's callback runs under the lock: events and wakes wait in queues until it is free, and are then delivered in
  order by whichever thread gets to it;
* the garbage collector may run anywhere, also under the lock, and there close a lost coroutine whose ``finally`` ends
  a step or an agent. Such a call finds its own thread inside, and is carried out as soon as that is done.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar, cast

from concur_agents.errors import ConcurError, LifecycleError
from concur_agents.events import Event, EventStream

__all__ = ["Turns", "Waiter", "turn"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T", bound="Turns")

Waiter = concurrent.futures.Future[None]


class Turns:
    """The lock, what waits to be delivered, and who hears the events."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.inside = False
        """An operation is under way; only its own thread can see that it is."""
        self.told = False
        """The operation under way has something to deliver."""
        self.streams: list[EventStream] = []
        """Who hears the events; while nobody does, none need be made."""
        self._events: deque[Event] = deque()
        self._wakes: deque[tuple[Waiter, Exception | None]] = deque()
        self._later: deque[Callable[[], object]] = deque()
        self._delivering = threading.Lock()

    def settle(self) -> None:
        """What to do at the end of every operation, still under the lock."""

    def tell(self, event: Event) -> None:
        """Within an operation: send an event after it."""
        self._events.append(event)
        self.told = True

    def wake(self, waiter: Waiter, error: Exception | None = None) -> None:
        """Within an operation: end a wait after it, well or with ``error``."""
        self._wakes.append((waiter, error))
        self.told = True

    def do_later(self, action: Callable[[], object]) -> None:
        """Within an operation: do something after it, once everything told so far is delivered."""
        self._later.append(action)
        self.told = True

    def deliver(self) -> None:
        """Send what was told. Events before wakes, so that an agent's next event comes after this one."""
        while self._events or self._wakes or self._later:
            if not self._delivering.acquire(blocking=False):
                return  # another thread is at it, or we are further up this very stack: it takes ours along
            try:
                while self._events or self._wakes or self._later:
                    self._deliver_one()
            finally:
                self._delivering.release()

    def _deliver_one(self) -> None:
        if self._events:
            event = self._events.popleft()
            for stream in tuple(self.streams):
                stream.publish(event)
        elif self._wakes:
            waiter, error = self._wakes.popleft()
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        else:
            with contextlib.suppress(ConcurError):
                self._later.popleft()()


def turn(*, later: bool = False) -> Callable[[Callable[Concatenate[_T, _P], _R]], Callable[Concatenate[_T, _P], _R]]:
    """Make a method of a :class:`Turns` an operation: it runs alone, then what it told is delivered.

    Args:
        later: a finalizer may call it inside another operation. It then runs after that one, and returns None to a
            caller that cannot be waiting for more. Otherwise such a call raises LifecycleError.
    """

    def decorate(operation: Callable[Concatenate[_T, _P], _R]) -> Callable[Concatenate[_T, _P], _R]:
        @functools.wraps(operation)
        def take_turn(self: _T, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
            told = False
            try:
                with self.lock:
                    if self.inside:
                        if not later:
                            raise LifecycleError(f"a finalizer called {operation.__name__} inside another operation")
                        self.do_later(functools.partial(take_turn, self, *args, **kwargs))
                        return cast("_R", None)
                    self.inside, self.told = True, False
                    try:
                        result = operation(self, *args, **kwargs)
                        self.settle()
                    finally:
                        told, self.inside = self.told, False
                    return result
            finally:
                if told:
                    self.deliver()

        return take_turn

    return decorate
