"""Whose the CPU time of the agents' process is: the agents' framework's, Concur's, or the harness's own.

A statistical profile: whenever the process has used another :data:`EVERY_S`, the system interrupts it
(SIGPROF), and the innermost frame of the event loop's thread that is not Python's own library says whose that time was.
A thread that looks now and then would not do: it gets to look where the loop's thread lets go of the interpreter, which
is after a framework's work and not in it. The loop's own work is the harness's, and what other threads use while the
loop has nothing to do.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import benchmarks

__all__ = ["CpuShares", "CpuWatch", "owner_of"]

EVERY_S = 0.05
"""Of CPU time. asyncio hears of each signal through a pipe of some 280 places, which it empties between two rounds of
its loop; the first round of hundreds of agents takes seconds."""
FRAMEWORK, CONCUR, HARNESS = "framework", "concur", "harness"
_HERE = str(Path(benchmarks.__file__).parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuShares:
    """CPU seconds of this process; None is what was not watched."""

    framework_s: float | None
    """The agents' framework, its clients, and all else that is installed."""
    concur_s: float | None
    """Concur and its adapter."""
    total_s: float
    """Those, and the harness."""


class CpuWatch:
    """Watches the process from when it is entered to when it is left; tells nothing apart outside the main thread."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()
        self._watches = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        self._began = time.process_time()
        if self._watches:
            self._before = signal.signal(signal.SIGPROF, self._look)
            signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._watches:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, self._before)
        self._total_s = time.process_time() - self._began

    def shares(self) -> CpuShares:
        """Once it was left."""
        looks = self._found.total()
        if not looks:
            return CpuShares(framework_s=None, concur_s=None, total_s=self._total_s)
        each = self._total_s / looks
        return CpuShares(
            framework_s=each * self._found[FRAMEWORK], concur_s=each * self._found[CONCUR], total_s=self._total_s
        )

    def _look(self, _: int, frame: FrameType | None) -> None:
        self._found[owner_of(frame)] += 1


def owner_of(frame: FrameType | None) -> str:
    """Whose the work of a stack is, by its innermost frame first."""
    while frame is not None:
        file = frame.f_code.co_filename
        if "concur_agents" in file:
            return CONCUR
        if file.startswith(_HERE):
            return HARNESS
        if "site-packages" in file or "dist-packages" in file:
            return FRAMEWORK
        frame = frame.f_back
    return HARNESS
