"""What the kinds of sandboxes share: copies of workspaces below one folder, and an end for whatever runs in them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from benchmarks.swebench.sandbox.base import CommandResult, Limits, SandboxError, SandboxUnavailable
from benchmarks.swebench.sandbox.disk import Disk, reserve_is_left
from benchmarks.swebench.sandbox.files import changed_files, copy_tree, read_inside, remove_tree
from benchmarks.swebench.sandbox.finishing import finish
from benchmarks.swebench.sandbox.scratch import Scratch

__all__ = ["UID", "CopiedSandbox", "CopiedSandboxes", "unprivileged_uid"]

UID = 60_999
"""Who the agents are when we are root: in 60706..61183, which neither Debian's policy nor systemd gives to anyone."""
ARGUMENT_BYTES = 131_071
"""Linux takes no longer argument (MAX_ARG_STRLEN less its end)."""
REFUSED = 126
"""What a shell says of a command it found and cannot run."""
NO_IMAGES = "commands run in an image ({}) in containers only: use podman or docker"
PROBE_TIMEOUT_S = 60.0
PROBE = "touch written && python -c 'print(6 * 7)'"


def unprivileged_uid() -> int | None:
    """Whom agents must become; None when we are no root and they stay who we are."""
    return UID if os.geteuid() == 0 else None


class CopiedSandboxes(ABC):
    """Opens sandboxes on copies of workspaces; see :class:`~benchmarks.swebench.sandbox.base.Sandboxes`.

    Entering it sets up what all sandboxes of the kind need and tries it; leaving removes everything.

    Args:
        packages: a folder of importable Python packages (pytest) that commands see read-only on PYTHONPATH.
        limits: for each command.

    Raises:
        SandboxUnavailable: on entering; the message says what to do.
    """

    def __init__(self, *, packages: Path | None = None, limits: Limits | None = None) -> None:
        self._packages = packages
        self._limits = limits or Limits()
        self._scratch: Scratch | None = None
        self._ready = False
        self._open: set[CopiedSandbox] = set()

    async def __aenter__(self) -> Self:
        try:
            await finish(asyncio.to_thread(self._enter))
            await self._try()
        except BaseException:  # also when cancelled: nobody will leave what was never entered
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(
        self,
        workspace: Path,
        changes: Mapping[str, bytes | None] | None = None,
        *,
        image: str | None = None,
        limits: Limits | None = None,
    ) -> CopiedSandbox:
        """Copy ``workspace`` into a folder of the sandbox's user, with ``changes`` made.

        Raises:
            SandboxError: not entered, closed, the copy failed, or the image cannot be had.
        """
        if self._scratch is None or not self._ready:
            raise SandboxError("these sandboxes are not set up: use `async with`")
        await self._have_image(image)
        sandbox = self._new(Path(tempfile.mkdtemp(dir=self._scratch.root)), image, limits or self._limits)
        self._open.add(sandbox)
        sandbox.on_close = self._open.discard
        try:
            await finish(sandbox.fill(workspace, changes or {}))
        except BaseException:  # also when cancelled: the caller never gets the sandbox, so nobody else closes it
            await sandbox.close()
            raise
        return sandbox

    async def workspace_of(self, image: str, setup: str = "") -> Path:  # noqa: ARG002 - as the protocol has it
        """Where the kind has images, the repository in one; see the protocol. Raises SandboxError."""
        raise SandboxError(NO_IMAGES.format(image))

    async def _have_image(self, image: str | None) -> None:
        """Make sure of the image that commands are to run in, if any. Raises SandboxError."""
        if image is not None:
            raise SandboxError(NO_IMAGES.format(image))

    async def close(self) -> None:
        """Close what is open and remove everything. Safe to call again."""
        self._ready = False
        # What one of them cannot remove, the last lines cannot either, and say so.
        await asyncio.gather(*(sandbox.close() for sandbox in tuple(self._open)), return_exceptions=True)
        await finish(asyncio.to_thread(self._leave))

    @abstractmethod
    def _check(self) -> None:
        """Raise SandboxUnavailable where this machine cannot run the kind."""

    @abstractmethod
    def _set_up(self, root: Path) -> None:
        """Make, below ``root``, what all sandboxes use. Raises SandboxError."""

    @abstractmethod
    def _new(self, root: Path, image: str | None, limits: Limits) -> CopiedSandbox:
        """A sandbox whose copy will be below ``root``."""

    def _enter(self) -> None:
        self._check()
        self._scratch = Scratch(uid=unprivileged_uid())
        if not reserve_is_left(self._scratch.root, self._limits):
            raise SandboxUnavailable(
                f"less than {self._limits.reserve_bytes:,} bytes, or hardly a file, are free in "
                f"{self._scratch.root.parent}: set TMPDIR to a folder with more"
            )
        self._set_up(self._scratch.root)
        self._ready = True

    def _leave(self) -> None:
        """Undo :meth:`_enter`, as far as it came."""
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.remove()

    async def _try(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            sandbox = await self.open(Path(empty))
        result = await sandbox.run(PROBE, timeout=PROBE_TIMEOUT_S)
        await sandbox.close()
        if result.output != "42\n":
            raise SandboxUnavailable(f"Python does not run in the sandbox, or cannot write there: {result}")


class CopiedSandbox(ABC):
    """One agent's workspace; see :class:`~benchmarks.swebench.sandbox.base.Sandbox`. Made by the factory."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self._root = root
        self._workspace = root / "testbed"
        self._limits = limits
        self._disk = Disk(self._workspace, limits)
        self.on_close: Callable[[CopiedSandbox], object] = lambda _: None
        self._running: set[asyncio.Task[CommandResult]] = set()
        self._filling = asyncio.Lock()
        self._original: Path | None = None
        self._closed = False

    @property
    def workspace(self) -> Path:
        """The copy: there until this is closed."""
        return self._workspace

    async def fill(self, workspace: Path, changes: Mapping[str, bytes | None]) -> None:
        """Copy ``workspace`` here and change it; the factory does it once. Raises SandboxError."""
        self._original = workspace
        async with self._filling:  # so that a close meanwhile removes after, not during, the copying
            uid = unprivileged_uid()
            if uid is not None:
                os.chown(self._root, uid, uid)
            await asyncio.to_thread(copy_tree, workspace, self._workspace, owner=uid, changes=changes)
            await self._disk.filled()
        if self._closed:
            raise SandboxError("this sandbox was closed while it was being filled")

    async def run(self, command: str, *, timeout: float) -> CommandResult:  # noqa: ASYNC109 - of the command
        """Run one command; see the protocol."""
        if self._closed:
            raise SandboxError("this sandbox is closed")
        text = command.encode(errors="replace")  # a model may write a lone surrogate
        if b"\0" in text or len(text) > ARGUMENT_BYTES:
            why = f"a command is at most {ARGUMENT_BYTES} bytes without NUL; this one has {len(text)}\n"
            return CommandResult(exit_code=REFUSED, output=why, timed_out=False, truncated=False, seconds=0.0)
        self._workspace.chmod(0o755)  # a command may have locked itself out, and the next one must start all the same
        task = asyncio.create_task(self._run(text, timeout))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            raise SandboxError("this sandbox was closed while the command ran") from None

    @abstractmethod
    async def _run(self, command: bytes, timeout_s: float) -> CommandResult:
        """Run ``bash -c command``; cancelled, kill all of it first. Raises SandboxError."""

    async def read(self, path: str, *, limit: int) -> bytes:
        """Read a file that the agent left; see the protocol."""
        if self._closed:
            raise SandboxError("this sandbox is closed")
        return await finish(asyncio.to_thread(read_inside, self._workspace, path, limit=limit))

    async def changes(self, *, limit: int) -> dict[str, bytes | None]:
        """What the agent left; see the protocol."""
        if self._closed or self._original is None:
            raise SandboxError("this sandbox is closed")
        return await finish(asyncio.to_thread(changed_files, self._original, self._workspace, limit=limit))

    async def close(self) -> None:
        """Kill what runs and remove the copy. Safe to call again."""
        self._closed = True
        await finish(self._close())

    async def _close(self) -> None:
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        async with self._filling:
            await asyncio.to_thread(remove_tree, self._root)
        self.on_close(self)
