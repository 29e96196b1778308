"""No sandbox at all: tools answer as they did when they were recorded, and take as long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks.swebench.recordings import Recording
from benchmarks.swebench.sandbox.base import CommandResult, SandboxError

__all__ = ["RecordedSandbox"]


class RecordedSandbox:
    """One recorded agent's tools; see :class:`~benchmarks.swebench.sandbox.base.Sandbox`. Runs nothing.

    Args:
        recording: what they said, in order.
        clock_rate: seconds by the recording's clock in a wall second, so that tools keep up with a faster engine.
    """

    def __init__(self, recording: Recording, clock_rate: float) -> None:
        self._answers: Iterator[tuple[str, float]] = iter([(turn.observation, turn.tool_s) for turn in recording.turns])
        self._clock_rate = clock_rate

    async def run(self, command: str, *, timeout: float) -> CommandResult:  # noqa: ARG002, ASYNC109 - a Sandbox
        """Answer as the next tool did. Raises SandboxError when there was none."""
        answer = next(self._answers, None)
        if answer is None:
            raise SandboxError("the recording has no more tools")
        text, seconds = answer
        await asyncio.sleep(seconds / self._clock_rate)
        return CommandResult(
            exit_code=0, output=text, timed_out=False, truncated=False, seconds=seconds / self._clock_rate
        )

    async def read(self, path: str, *, limit: int) -> bytes:  # noqa: ARG002 - a Sandbox
        """There are no files. Raises SandboxError."""
        raise SandboxError(f"a recording has no files: {path!r}")

    async def changes(self, *, limit: int) -> dict[str, bytes | None]:  # noqa: ARG002 - a Sandbox
        """None."""
        return {}

    async def close(self) -> None:
        """Nothing to do."""
