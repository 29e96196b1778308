"""Whose the CPU time of the agents' process is: the agents' framework's, Concur's, or the harness's own.

A thread looks, every :data:`EVERY_S` seconds, at how much CPU time the event loop's thread has used since, and at what
it is in the middle of: the innermost frame that is not Python's own library says whose that time was. What other
threads of the process use, and the loop's own work, counts as the harness's. The looking costs less than 1% of a core.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import benchmarks

__all__ = ["CpuShares", "CpuWatch", "owner_of"]

EVERY_S = 0.01
FRAMEWORK, CONCUR, HARNESS = "framework", "concur", "harness"
_HERE = str(Path(benchmarks.__file__).parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuShares:
    """CPU seconds of this process."""

    framework_s: float
    """The agents' framework, its clients, and all else that is installed."""
    concur_s: float
    """Concur and its adapter."""
    total_s: float
    """Those, and the harness."""


class CpuWatch:
    """Watches the thread that enters it, until it leaves."""

    def __init__(self) -> None:
        self._found = dict.fromkeys((FRAMEWORK, CONCUR, HARNESS), 0.0)
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._ident = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._ident)
        self._began, self._seen = time.process_time(), time.clock_gettime(self._clock)
        self._thread = threading.Thread(target=self._look, name="cpu-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def shares(self) -> CpuShares:
        """Since it was entered."""
        return CpuShares(
            framework_s=self._found[FRAMEWORK],
            concur_s=self._found[CONCUR],
            total_s=time.process_time() - self._began,
        )

    def _look(self) -> None:
        while not self._stop.wait(EVERY_S):
            now = time.clock_gettime(self._clock)
            used, self._seen = now - self._seen, now
            frame = sys._current_frames().get(self._ident)
            if used > 0 and frame is not None:
                self._found[owner_of(frame)] += used


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
