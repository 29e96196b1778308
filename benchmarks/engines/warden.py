"""Runs a server until standard input is closed, then ends it and everything that it started.

The benchmark holds the other end of standard input. So however the benchmark ends, SIGKILL and a crash included, the
warden hears of it: some servers leave processes behind when only they are told, above all while they start.

usage: python -I warden.py STOP_S COMMAND...    as the leader of a process session. Needs nothing but Python.

Exits with the server's exit code when that ended by itself, with 0 when it was told to end it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["kill_all", "members"]

POLL_S = 0.05
SIGNALLED = 128
"""Added to the signal's number in the exit code of a server that a signal ended, as shells do."""


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


def kill_all(sid: int, *, but: Sequence[int] = ()) -> None:
    """Kill the session's processes, and those they start meanwhile. Returns when none is left."""
    while left := set(members(sid)).difference(but):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def _watch(stop_s: float, command: Sequence[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the server would inherit
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    ended = os.pidfd_open(server.pid)
    ready, _, _ = select.select([sys.stdin, ended], [], [])
    me, give_up = os.getpid(), time.monotonic()
    if ended not in ready:
        server.terminate()
        give_up += stop_s  # a server that ended by itself has had its time
    while (server.poll() is None or members(me) != [me]) and time.monotonic() < give_up:
        time.sleep(POLL_S)
    kill_all(me, but=[me])
    code = server.wait()
    if ended not in ready:
        return 0
    return code if code >= 0 else SIGNALLED - code


if __name__ == "__main__":
    sys.exit(_watch(float(sys.argv[1]), sys.argv[2:]))
