"""Work that a cancelled caller must see through before it goes on being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["finish"]

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T], on_cancel: Callable[[], object] = lambda: None) -> T:
    """Await ``work`` to its end even when the caller is cancelled, and only then let the cancellation go on.

    Args:
        work: what must not be left half done; it should end soon once ``on_cancel`` was called.
        on_cancel: called at each cancellation, to hurry it.

    Raises:
        asyncio.CancelledError: the caller was cancelled; what ``work`` gave or raised is then dropped.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # seen, so that asyncio does not report it as lost
    raise cancelled
