"""Programs that do a piece of work and print what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence

__all__ = ["run"]


async def run(command: Sequence[str], most_s: float) -> tuple[int, str]:
    """Exit code and all that it printed. It has ended when this returns or raises.

    Raises:
        TimeoutError: it did not end by itself in time.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(most_s):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()
    return process.returncode or 0, printed.decode(errors="replace")
