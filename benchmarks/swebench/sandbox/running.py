"""One command that runs: why it is killed, if it is, and what becomes of its output and exit code."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from benchmarks.swebench.sandbox.base import CommandResult, Limits
from benchmarks.swebench.sandbox.disk import Disk
from benchmarks.swebench.sandbox.output import Output

__all__ = ["Reason", "Running"]

Reason = Literal["timeout", "flood", "disk", "cancel"]
CHUNK_BYTES = 65_536
"""What a pipe holds."""
DISK = "\n[killed: it used up the disk; the workspace may grow by {} bytes. Delete something first.]\n"


class Running(ABC):
    """From a command's start to the certainty that nothing of it lives; each kind says how it kills."""

    def __init__(self, limits: Limits, disk: Disk) -> None:
        self._limits = limits
        self._disk = disk
        self._output = Output(limits.kept_output_bytes)
        self._reason: Reason | None = None
        self._started = 0.0

    def kill(self, reason: Reason) -> None:
        """End the command, now or as soon as there is one. The first reason stands."""
        self._reason = self._reason or reason
        self._kill()

    @abstractmethod
    def _kill(self) -> None:
        """Kill what there is of it."""

    @asynccontextmanager
    async def _bounded(self, timeout_s: float) -> AsyncIterator[None]:
        """The command runs within this block: it is killed at its timeout, or when it fills the disk."""
        self._started = time.monotonic()
        timer = asyncio.get_running_loop().call_later(timeout_s, self.kill, "timeout")
        watching = asyncio.create_task(self._disk.watch(lambda: self.kill("disk")))
        try:
            yield
        finally:
            timer.cancel()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CHUNK_BYTES):
            self._output.add(chunk)
            if self._output.total > self._limits.read_output_bytes:
                self.kill("flood")

    def _result(self, code: int, seconds: float) -> CommandResult:
        said = DISK.format(self._limits.growth_bytes) if self._reason == "disk" else ""
        return CommandResult(
            exit_code=None if self._reason else code,
            output=self._output.text() + said,
            timed_out=self._reason == "timeout",
            truncated=self._reason == "flood" or self._output.left_out > 0,
            seconds=seconds,
        )
