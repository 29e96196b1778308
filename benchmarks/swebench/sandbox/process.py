"""Runs one bwrap command line: output with a cap, a timeout, and nothing alive afterwards.

How the end is made certain: bwrap tells the host's pid of its namespace's first process on a pipe. Whatever ends the
run (exit, timeout, flood, cancel), that process is killed through a pidfd, the kernel then kills everything else in
the pid namespace, and the pidfd turns readable only when all of it is dead. ``--die-with-parent`` remains for the
case that this process itself is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from benchmarks.swebench.sandbox.base import CommandResult, Limits, SandboxError
from benchmarks.swebench.sandbox.disk import Disk
from benchmarks.swebench.sandbox.finishing import finish
from benchmarks.swebench.sandbox.running import Running

__all__ = ["FILTER_FD", "HOST_ENVIRONMENT", "STATUS_FD", "run_contained"]

STATUS_FD = "{status_fd}"
"""Stands in an argument list for the number of the pipe that bwrap writes its status to."""
FILTER_FD = "{filter_fd}"
"""Stands there for the number of the pipe that bwrap reads its system call filter from."""
HOST_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
"""All that the sandbox's programs are started with: inside, ``/proc/1/environ`` shows it."""
START_TIMEOUT_S = 60.0
"""For bwrap's first sign of life: a hundred times what 64 starting at once on 2 busy cores take."""


async def run_contained(
    argv: Sequence[str | bytes],
    *,
    timeout: float,  # noqa: ASYNC109 - of the command
    limits: Limits,
    disk: Disk,
    program: bytes,
) -> CommandResult:
    """Run ``argv``, which is bwrap (or execs it) with ``--json-status-fd`` :data:`STATUS_FD`.

    Args:
        argv: program and arguments.
        program: for bwrap's ``--seccomp`` :data:`FILTER_FD`: the compiled filter.
        timeout: wall seconds from the sandbox being up.
        limits: its output caps are enforced here; the others are the command line's.
        disk: of its workspace; watched here.

    Raises:
        SandboxError: bwrap could not be started, or could not set the sandbox up.
    """
    run = _Run(limits, disk, program)
    return await finish(run.run(argv, timeout_s=timeout), on_cancel=lambda: run.kill("cancel"))


class _Run(Running):
    """One bwrap, from its start to the certainty that nothing of it lives."""

    def __init__(self, limits: Limits, disk: Disk, program: bytes) -> None:
        super().__init__(limits, disk)
        self._program = program
        self._first: int | None = None
        """A pidfd of the namespace's first process, once there is one."""

    def _kill(self) -> None:
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    async def run(self, argv: Sequence[str | bytes], *, timeout_s: float) -> CommandResult:
        read_fd, write_fd = os.pipe()
        status = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(status), os.fdopen(read_fd, "rb")
        )
        try:
            try:
                process = await self._spawn(argv, write_fd)
            finally:
                os.close(write_fd)
            return await self._follow(process, status, timeout_s)
        finally:
            transport.close()
            if self._first is not None:
                self._kill()  # only a loop that shuts down comes here with it alive
                os.close(self._first)
                self._first = None

    async def _spawn(self, argv: Sequence[str | bytes], write_fd: int) -> asyncio.subprocess.Process:
        filter_fd, feed_fd = os.pipe()
        with os.fdopen(feed_fd, "wb") as feed:
            feed.write(self._program)  # at once: it is less than a pipe holds
        numbers = {STATUS_FD: str(write_fd), FILTER_FD: str(filter_fd)}
        try:
            return await asyncio.create_subprocess_exec(
                *(numbers.get(each, each) if isinstance(each, str) else each for each in argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(write_fd, filter_fd),
                env=HOST_ENVIRONMENT,
                start_new_session=True,  # a Ctrl-C at the terminal is ours to handle, not theirs
            )
        except OSError as error:
            raise SandboxError(f"cannot start {argv[0]!r}: {error}") from error
        finally:
            os.close(filter_fd)

    async def _follow(
        self, process: asyncio.subprocess.Process, status: asyncio.StreamReader, timeout_s: float
    ) -> CommandResult:
        assert process.stdout is not None  # noqa: S101 - it is a PIPE; for the type checker
        reading = asyncio.create_task(self._read(process.stdout))
        await self._find_first(process, status)
        if self._reason is not None:
            self._kill()
        async with self._bounded(timeout_s):
            code = await process.wait()
            seconds = time.monotonic() - self._started
        self._kill()  # what the command left running
        await self._first_is_dead()
        await reading
        if self._reason is None and b"exit-code" not in await status.read():
            raise SandboxError(f"the sandbox did not start (status {code}): {self._output.text().strip()}")
        return self._result(code, seconds)

    async def _find_first(self, process: asyncio.subprocess.Process, status: asyncio.StreamReader) -> None:
        try:
            line = await asyncio.wait_for(status.readline(), START_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise SandboxError(f"bwrap gave no sign of life in {START_TIMEOUT_S:g} s") from None
        if line:  # else bwrap ended before it had a namespace; its exit tells
            with suppress(ProcessLookupError):
                self._first = os.pidfd_open(json.loads(line)["child-pid"])

    async def _first_is_dead(self) -> None:
        if self._first is None:
            return
        loop = asyncio.get_running_loop()
        dead = asyncio.Event()
        loop.add_reader(self._first, dead.set)
        try:
            await dead.wait()
        finally:
            loop.remove_reader(self._first)
