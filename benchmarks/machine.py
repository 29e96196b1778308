"""What the figures were measured on, and whether anything else kept the machine busy meanwhile."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from pathlib import Path
from typing import Any

from benchmarks.engines.warden import members

__all__ = ["Usage", "describe", "session_cpu_s"]


def describe() -> dict[str, Any]:
    """Processor, cores and Python; nothing that names this one machine."""
    return {"cpu": _model_name(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}


def _model_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


class Usage:
    """CPU time from here on: of all, and of those that belong to the benchmark.

    Args:
        session: process session of the engine; None when it is a thread of this process.
    """

    def __init__(self, session: int | None) -> None:
        self._session = session
        self._start = time.monotonic(), _busy_s(), self._ours_s()

    def others(self) -> float | None:
        """Share of all cores that other programs have used since. 0..1; None where Linux does not tell."""
        began, busy, ours = self._start
        now_busy, now_ours = _busy_s(), self._ours_s()
        if busy is None or now_busy is None:
            return None
        spent = (now_busy - busy) - (now_ours - ours)
        return min(1.0, max(0.0, spent / (time.monotonic() - began) / (os.cpu_count() or 1)))

    def _ours_s(self) -> float:
        return sum(os.times()[:4]) + (0.0 if self._session is None else session_cpu_s(self._session))


def session_cpu_s(sid: int) -> float:
    """CPU seconds of the processes of a session that run now."""
    total = 0.0
    for pid in members(sid):
        with contextlib.suppress(OSError):  # it may end while we look
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _busy_s() -> float | None:
    """Seconds that all cores together have worked since the machine started."""
    try:
        first = Path("/proc/stat").read_text().splitlines()[0].split()
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, first[1:9])
    except (OSError, ValueError, IndexError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
