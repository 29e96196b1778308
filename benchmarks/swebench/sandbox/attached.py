"""Runs one ``podman run`` or ``docker run``: output with a cap, a timeout, and nothing alive afterwards.

The first process inside is a bash of ours: it says that it is up, runs the command as its child (a first process would
not die of most signals), and ends with its exit code. When it ends, or is killed, the kernel kills everything else in
the pid namespace before anybody is told, so the end of the program is the end of all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from benchmarks.swebench.sandbox.base import CommandResult, Limits, SandboxError
from benchmarks.swebench.sandbox.client import Client
from benchmarks.swebench.sandbox.disk import Disk
from benchmarks.swebench.sandbox.finishing import finish
from benchmarks.swebench.sandbox.running import Running

__all__ = ["first_process", "run_attached"]

MARK = b"\x00up\x00"
"""What the first process says first: what follows is the command's."""
FIRST = """exec 2>/dev/null; printf '\\0up\\0'; ( {limits}; {before} exec bash -c "$0" ) 2>&1; exit $?"""
"""Its own complaints ("Killed") go nowhere; the command's two streams are one, since the program would mix them up."""
START_TIMEOUT_S = 180.0
"""For the first sign of life: 64 that start at once on 2 busy cores take some 30 s."""
KILL_S = 20.0
"""After a kill, for the program to end; then its container is removed by force."""
OWN_FAILURE = 125
"""The program's exit code when it failed itself. A command may end with it, but says nothing on that stderr."""


def first_process(limits: Limits, *, file_bytes: int, count_processes: bool, before: str = "") -> str:
    """The text that the first process, a bash, runs; ``$0`` is the command.

    Args:
        limits: which of them are rlimits, set for the command alone: the runtime's own start must not meet them.
        file_bytes: largest file.
        count_processes: also limit processes so.
        before: bash that runs just before the command.
    """
    kib = 1024
    ulimits = [f"-c 0 -v {limits.address_space_bytes // kib} -t {limits.cpu_seconds}"]
    ulimits += [f"-f {file_bytes // kib}", f"-n {limits.open_files}"]
    if count_processes:
        ulimits.append(f"-u {limits.processes}")
    # One that fails would raise a limit that is lower already.
    return FIRST.format(limits="; ".join(f"ulimit {each}" for each in ulimits), before=before)


async def run_attached(
    client: Client,
    argv: Sequence[str | bytes],
    name: str,
    *,
    timeout: float,  # noqa: ASYNC109 - of the command
    limits: Limits,
    disk: Disk,
) -> CommandResult:
    """Run ``argv``, a ``run`` of the client's program that names its container ``name``.

    Raises:
        SandboxError: the container did not start, or could not be killed.
    """
    run = _Attached(client, name, limits, disk)
    return await finish(run.run(argv, timeout_s=timeout), on_cancel=lambda: run.kill("cancel"))


class _Attached(Running):
    def __init__(self, client: Client, name: str, limits: Limits, disk: Disk) -> None:
        super().__init__(limits, disk)
        self._client = client
        self._name = name
        self._process: asyncio.subprocess.Process | None = None
        """The program, once its container is up."""
        self._killing: asyncio.Task[None] | None = None

    def _kill(self) -> None:
        if self._process is not None and self._killing is None:
            self._killing = asyncio.create_task(self._kill_container(self._process))

    async def run(self, argv: Sequence[str | bytes], *, timeout_s: float) -> CommandResult:
        process = await self._spawn(argv)
        assert process.stdout is not None  # noqa: S101 - both are PIPEs; for the type checker
        assert process.stderr is not None  # noqa: S101
        complaint = asyncio.create_task(_head(process.stderr))
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                mark = await process.stdout.readexactly(len(MARK))
        except (asyncio.IncompleteReadError, TimeoutError):
            mark = b""
        if mark != MARK:
            await self._end(process)
            raise SandboxError(f"the sandbox did not start: {await complaint or 'no sign of life'}")
        self._process = process
        if self._reason is not None:
            self._kill()
        async with self._bounded(timeout_s):
            await self._read(process.stdout)
            seconds = time.monotonic() - self._started
            code = await process.wait()
        if self._killing is not None:
            await self._killing
        said = await complaint
        if self._reason is None and code == OWN_FAILURE and said:
            raise SandboxError(f"the sandbox failed: {said}")
        return self._result(code, seconds)

    async def _spawn(self, argv: Sequence[str | bytes]) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._client.environment,
                start_new_session=True,  # a Ctrl-C at the terminal is ours to handle, not theirs
            )
        except OSError as error:
            raise SandboxError(f"cannot start {argv[0]!r}: {error}") from error

    async def _kill_container(self, process: asyncio.subprocess.Process) -> None:
        with suppress(SandboxError):  # it may have ended just now
            await asyncio.to_thread(self._client.call, "kill", "--signal=KILL", self._name)
        try:
            async with asyncio.timeout(KILL_S):
                await process.wait()
        except TimeoutError:
            await self._end(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Remove the container by force, and the program with it. Raises SandboxError when something stays."""
        if process.returncode is None:
            process.kill()
        await process.wait()
        try:
            await asyncio.to_thread(self._client.call, "rm", "--force", self._name)
        except SandboxError as error:
            if "no such container" not in str(error).lower():
                raise


async def _head(stream: asyncio.StreamReader, kept: int = 2000) -> str:
    """Read to the end; the first ``kept`` bytes as text."""
    head = b""
    while chunk := await stream.read(65_536):
        head += chunk[: kept - len(head)]
    return head.decode(errors="replace").strip()
