"""An event loop in a thread of its own, for a process whose agents run in any loop, or in none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from concur_agents.errors import LifecycleError

__all__ = ["Background"]

_Result = TypeVar("_Result")


class Background:
    """The loop, and its thread. Anything may be handed to it from anywhere, a finalizer included: nothing is locked."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="concur-remote", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it takes anything."""
        return not self._loop.is_closed()

    def post(self, action: Callable[..., object], *args: object) -> None:
        """Have the loop do something soon, in the order of the calls; nothing happens after its end."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action, *args)

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> concurrent.futures.Future[_Result]:
        """Have the loop run a coroutine; the result can be cancelled.

        Raises:
            RuntimeError: it has ended.
        """
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise

    def ask(self, coroutine: Coroutine[Any, Any, _Result], timeout_s: float) -> _Result:
        """Block until the loop has run a coroutine.

        Raises:
            LifecycleError: called in the loop's own thread, which could only wait for itself.
            TimeoutError: it takes longer.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise LifecycleError("a finalizer asked the controller something inside Concur's own thread")
        future = self.run(coroutine)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError from None

    def stop(self, timeout_s: float) -> None:
        """End the loop and its thread; what still runs in it is cancelled."""
        self.post(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
