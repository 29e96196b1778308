"""A server in a process session of its own, which is gone when the block is left, however it is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.real.wire import EngineError

__all__ = ["Server", "members", "serve"]

POLL_S = 0.1
STOP_S = 20.0
"""Seconds a server may take to end by itself. SGLang drains its requests first, which takes some seconds."""
LOG_LINES = 15


class Server:
    """A started server: its process is the leader of the session ``sid``."""

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
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - quick, and unlike asyncio's not cancelled half-way
                _die_with_us(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the benchmark, which then ends the server in its own time
            )
        except OSError as error:
            raise EngineError(f"cannot start {command[0]}: {error}") from None
    server = Server(process, log)
    try:
        await _until_ready(server, ready, start_s, log)
        yield server
    finally:
        try:
            await _end_gently(process, stop_s)
        finally:  # also when cancelled once more meanwhile
            _kill(process)


def members(sid: int) -> list[int]:
    """Ids of the processes of a session that run. Those that have ended and wait for their parent do not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it may end while we look
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == sid and state not in "ZX":
                found.append(int(entry.name))
    return found


def _die_with_us(command: Sequence[str]) -> list[str]:
    """Not even SIGKILL of the benchmark leaves the server behind, where util-linux is there (all of Linux, nearly)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--", *command] if setpriv else list(command)


async def _until_ready(server: Server, ready: Callable[[], bool], start_s: float, log: Path) -> None:
    try:
        async with asyncio.timeout(start_s):
            while not await asyncio.to_thread(ready):
                server.check()
                await asyncio.sleep(POLL_S)
            server.check()  # ready may have been told by a stranger on the same port
    except TimeoutError:
        raise EngineError(f"the server was not ready within {start_s:g} s; the end of {log}:\n{_tail(log)}") from None


async def _end_gently(process: subprocess.Popen[bytes], stop_s: float) -> None:
    """Ask the leader, which ends what it started; then wait for all of them."""
    if process.poll() is None:
        process.terminate()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(stop_s):
            while process.poll() is None or members(process.pid):  # noqa: ASYNC110 - processes set no Event
                await asyncio.sleep(POLL_S)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of the session. Returns when it is gone."""
    while left := members(process.pid):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()  # a zombie of ours is no member, but its place in the table is freed only so
        time.sleep(0.01)
    process.wait()


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    return "\n".join(f"  {line[:300]}" for line in lines) or "  it printed nothing"
