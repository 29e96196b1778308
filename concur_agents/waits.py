"""How whoever asked for a seat waits for it, awaiting or blocking: however the wait ends, no seat is left behind."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from concur_agents.turns import Waiter

__all__ = ["Asked", "Waits"]


class Asked(Protocol):
    """A request for a seat."""

    @property
    def waiter(self) -> Waiter | None:
        """Done when the seat is there; None when there is nothing to wait for."""


_Asked = TypeVar("_Asked", bound=Asked)


class Waits(ABC, Generic[_Asked]):
    """The two ways to wait, for whoever gives out seats."""

    async def wait(self, request: _Asked) -> None:
        """Await the seat; whatever ends the wait otherwise takes the request back.

        Raises:
            UnknownAgentError: the agent was finished while it waited.
            ControllerClosedError: the controller was closed while it waited.
        """
        if request.waiter is None:
            return
        try:
            await _waited(request.waiter, lambda: self.withdraw(request))
            self._came_for(request)
        except BaseException:  # an error, a cancel, an interrupt: nobody comes for the seat
            self.withdraw(request)
            raise

    def wait_blocking(self, request: _Asked) -> None:
        """Block the calling thread for the seat; else as :meth:`wait`."""
        if request.waiter is None:
            return
        try:
            request.waiter.result()
            self._came_for(request)
        except BaseException:  # an error, a cancel, an interrupt: nobody comes for the seat
            self.withdraw(request)
            raise

    @abstractmethod
    def withdraw(self, request: _Asked) -> None:
        """Take a request back, even one granted while its taker was leaving."""

    def _came_for(self, request: _Asked) -> None:
        """The seat is there, and its taker has come. May raise what :meth:`wait` does."""


async def _waited(waiter: Waiter, nobody_comes: Callable[[], None]) -> None:
    """Await it in the running event loop; raises what it was given.

    Args:
        waiter: what to await.
        nobody_comes: called, from any thread, where that loop was closed before the waiter was done.
    """
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake(_: object) -> None:
        try:
            loop.call_soon_threadsafe(_set, woken)
        except RuntimeError:  # the loop was closed while we waited
            nobody_comes()

    waiter.add_done_callback(wake)
    await woken
    waiter.result()


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
