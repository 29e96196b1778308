"""``python -m benchmarks.chaos.clock FILE MODULE ARGUMENTS...``: a module whose clocks jump when the file says so.

Python's own clocks are shifted (``time.time`` and ``time.monotonic``), by what another process has written into the
file. That is all by which asyncio, aiohttp and Concur tell the time, needs nothing to be installed, and leaves waits of
threads alone, as a real jump does. The wall clock goes forth and back, as when NTP sets it; the monotonic one only
forth, as when a virtual machine was paused.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Clock", "real_monotonic"]

_OFFSETS = struct.Struct("<qq")
"""Nanoseconds added to the wall clock, and to the monotonic one."""
_NS = 1_000_000_000


def real_monotonic() -> float:
    """Seconds on the machine's clock, whatever this process has been made to believe."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Clock:
    """The other side: makes one process's clocks jump.

    Args:
        file: to be made, and given to the process.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_bytes(_OFFSETS.pack(0, 0))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _OFFSETS.size)

    def jump(self, *, wall_s: float = 0.0, monotonic_s: float = 0.0) -> None:
        """Add seconds to a clock."""
        wall, monotonic = _OFFSETS.unpack_from(self._map)
        _OFFSETS.pack_into(self._map, 0, wall + int(wall_s * _NS), monotonic + int(monotonic_s * _NS))


def _shift(file: Path) -> None:
    with file.open("r+b") as opened:
        offsets = mmap.mmap(opened.fileno(), _OFFSETS.size, access=mmap.ACCESS_READ)

    def shifted(clock: Callable[[], int], which: int) -> Callable[[], int]:
        return lambda: clock() + _OFFSETS.unpack_from(offsets)[which]

    wall, monotonic = shifted(time.time_ns, 0), shifted(time.monotonic_ns, 1)
    time.time_ns, time.monotonic_ns = wall, monotonic
    time.time, time.monotonic = lambda: wall() / _NS, lambda: monotonic() / _NS


def _main() -> None:
    _, file, module, *arguments = sys.argv
    _shift(Path(file))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
