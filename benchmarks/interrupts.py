"""Being told to end: Ctrl-C, SIGTERM and a closed terminal all run through every ``finally``."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["INTERRUPTED", "end_as_interrupted", "run"]

_Result = TypeVar("_Result")

INTERRUPTED = 130
"""Exit code."""
ENDED_BY = (signal.SIGTERM, signal.SIGHUP)


def end_as_interrupted() -> None:
    """Outside an event loop, have SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does."""
    for number in ENDED_BY:
        signal.signal(number, signal.default_int_handler)


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Have SIGTERM and SIGHUP end the work as Ctrl-C does: with servers ended and what was measured kept."""

    async def interruptible() -> _Result:
        task = asyncio.ensure_future(work)
        for number in ENDED_BY:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await task

    return asyncio.run(interruptible())
