"""Keeps a workspace from filling the disk: a bind mount has no quota, so somebody has to look.

What is seen by ``du`` counts for the workspace. What is not seen (files deleted while open, folders locked by an agent
that runs as we do) shows in the free space of the disk, and when that falls below the reserve, whatever runs is killed,
whoever is at fault: on a full disk everybody would fail.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.swebench.sandbox.base import Limits

__all__ = ["Disk", "reserve_is_left"]

LOOK_EVERY_S = 0.1
"""While a command runs: 2 GB/s is 200 MB meanwhile, and the reserve is more."""
SHARE = 0.05
"""Of the time may go into looking at a workspace: one that takes ``du`` 50 ms is looked at once a second."""
INODES_LEFT = 0.01
"""Of the file system's inodes, where it has a fixed number of them."""
FULL_FILE_BYTES = 4096
"""Largest file that a command may write in a workspace that is full: it can still delete."""
FULL_GROWTH_BYTES = 1024 * 1024
"""What such a command may add in small files before it is killed."""


class Disk:
    """How much of the disk a workspace takes, and whether that is too much."""

    def __init__(self, workspace: Path, limits: Limits) -> None:
        self._workspace = workspace
        self._limits = limits
        self._bound: float = float("inf")
        self._used = 0
        self._looked = 0.0
        self._cost_s = 0.0
        self._looking = asyncio.Lock()

    async def filled(self) -> None:
        """The workspace is as its agent gets it: from here on growth counts."""
        await self.look()
        self._bound = self._used + self._limits.growth_bytes

    def file_bytes(self) -> int:
        """Largest file that the next command may write."""
        return FULL_FILE_BYTES if self._is_full else self._limits.file_bytes

    @property
    def _is_full(self) -> bool:
        return self._used > self._bound

    async def look(self) -> None:
        """See what is used, unless that was done just now and there was room."""
        async with self._looking:  # commands may run at once, and one look is enough
            if time.monotonic() - self._looked < self._cost_s / SHARE and not self._is_full:
                return
            began = time.monotonic()
            self._used = await asyncio.to_thread(_disk_usage, self._workspace)
            self._looked = time.monotonic()
            self._cost_s = self._looked - began

    async def watch(self, kill: Callable[[], None]) -> None:
        """While a command runs: call ``kill`` once when it has used up the disk. Runs until cancelled."""
        bound = max(self._bound, self._used + FULL_GROWTH_BYTES)
        while reserve_is_left(self._workspace, self._limits) and self._used <= bound:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()
        kill()


def _disk_usage(folder: Path) -> int:
    """Bytes of disk that a tree takes, as far as it can be seen."""
    # By coreutils: no depth limit, no links followed. Files that vanish meanwhile make it complain; its sum stands.
    done = subprocess.run(
        ["du", "-sx", "-B1", "--", folder], capture_output=True, text=True, errors="replace", check=False
    )
    size = done.stdout.split("\t", 1)[0]
    return int(size) if size.isdigit() else 0


def reserve_is_left(folder: Path, limits: Limits) -> bool:
    """Whether the disk that holds ``folder`` has more than the reserve. Raises OSError."""
    status = os.statvfs(folder)
    inodes = not status.f_files or status.f_favail > status.f_files * INODES_LEFT
    return inodes and status.f_bavail * status.f_frsize > limits.reserve_bytes
