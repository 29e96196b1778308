"""A server in a process session of its own, which is gone when the block is left, however it is left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.engines import warden
from benchmarks.engines.wire import EngineError

__all__ = ["LOG_LINES", "Server", "free_port", "serve"]

POLL_S = 0.1
STOP_S = 15.0
"""Seconds a server may take to end by itself. SGLang drains its requests first: 3 to 9 s on a busy machine."""
GRACE_S = 5.0
"""Seconds on top for the warden to kill what is left."""
LOG_LINES = 15


class Server:
    """A started server, and all it started, in the process session ``sid``."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self.sid = process.pid

    def check(self) -> None:
        """Raise EngineError, with the end of its log, when it has ended."""
        code = self._process.poll()
        if code is not None:
            raise EngineError(f"the server ended with exit code {code}; the end of {self._log}:\n{_tail(self._log)}")


@contextlib.asynccontextmanager
async def serve(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    ready: Callable[[], bool],
    start_s: float,
    stop_s: float = STOP_S,
) -> AsyncIterator[Server]:
    """Run a server until the block is left; then end it and everything it started.

    Args:
        command: its program and arguments. It stays in the foreground.
        environment: of it, as a whole.
        log: file for what it prints; begun anew.
        ready: whether it serves by now. Called in a thread, again and again.
        start_s: seconds until it must.
        stop_s: seconds it may take to end by itself, before it is killed.

    Raises:
        EngineError: it cannot be started, ended at once, or is not ready in time; with the end of its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: ASYNC220 - quick, and unlike asyncio's not cancelled half-way
            [sys.executable, "-I", warden.__file__, str(stop_s), *command],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the benchmark, which then ends the server in its own time
        )
    server = Server(process, log)
    try:
        await _until_ready(server, ready, start_s, log)
        yield server
    finally:
        try:
            await _end_gently(process, stop_s + GRACE_S)
        finally:  # also when cancelled once more meanwhile
            warden.kill_all(process.pid)
            process.wait()


def free_port() -> int:
    """A port of this machine's that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _until_ready(server: Server, ready: Callable[[], bool], start_s: float, log: Path) -> None:
    try:
        async with asyncio.timeout(start_s):
            while not await asyncio.to_thread(ready):
                server.check()
                await asyncio.sleep(POLL_S)
            server.check()  # ready may have been told by a stranger on the same port
    except TimeoutError:
        raise EngineError(f"the server was not ready within {start_s:g} s; the end of {log}:\n{_tail(log)}") from None


async def _end_gently(process: subprocess.Popen[bytes], most_s: float) -> None:
    """Have the warden end the server, and wait for both."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            while process.poll() is None:  # noqa: ASYNC110 - processes set no Event
                await asyncio.sleep(POLL_S)


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    return "\n".join(f"  {line[:300]}" for line in lines) or "  it printed nothing"
