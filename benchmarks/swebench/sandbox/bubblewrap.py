"""Sandboxes by Debian's bubblewrap (0.8 or later): namespaces and rlimits, no daemon, no image.

Each command is one ``bwrap``: user, mount, pid, network, ipc, uts and cgroup namespaces of its own, no capability, no
new privileges, no nested user namespace, everything read-only but the workspace (and a small ``/tmp`` and
``/dev/shm`` in memory that last one command). Started as root, the whole thing runs as :data:`UID` from before bwrap
on: root inside a user namespace would still own root's files outside. Started by a person, it runs as that person,
and the mount namespace alone keeps their files away.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from benchmarks.swebench.sandbox.base import CommandResult, Limits, SandboxError, SandboxUnavailable
from benchmarks.swebench.sandbox.files import changed_files, copy_tree, read_inside, remove_tree
from benchmarks.swebench.sandbox.finishing import finish
from benchmarks.swebench.sandbox.process import HOST_ENVIRONMENT, STATUS_FD, run_contained
from benchmarks.swebench.sandbox.runtime import Runtime
from benchmarks.swebench.sandbox.scratch import Scratch

__all__ = ["BubblewrapSandbox", "BubblewrapSandboxes", "check_available"]

UID = 60_999
"""Who the agents are when we are root: in 60706..61183, which neither Debian's policy nor systemd gives to anyone."""
ARGUMENT_BYTES = 131_071
"""Linux takes no longer argument (MAX_ARG_STRLEN less its end)."""
REFUSED = 126
"""What a shell says of a command it found and cannot run."""
PROBE_TIMEOUT_S = 60.0


def check_available() -> None:
    """Return when this machine can run these sandboxes; takes some 30 ms.

    Raises:
        SandboxUnavailable: it cannot; the message says what to install or to allow.
    """
    programs = {"bwrap": "bubblewrap", "choom": "util-linux", "prlimit": "util-linux"} | (
        {"setpriv": "util-linux"} if _uid() else {}
    )
    missing = sorted({package for program, package in programs.items() if not _which(program)})
    if missing:
        names = " ".join(missing)
        raise SandboxUnavailable(f"the sandbox needs {names}: apt-get install {names}")
    probe = [*_enter(), "bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "true"]
    try:
        done = subprocess.run(
            probe, env=HOST_ENVIRONMENT, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"bubblewrap does not run here: {error}") from error
    if done.returncode:
        raise SandboxUnavailable(
            f"bubblewrap cannot make a sandbox here ({(done.stderr or done.stdout).strip()}): it needs bubblewrap 0.8 "
            "and unprivileged user namespaces. On a host: sysctl -w kernel.unprivileged_userns_clone=1 "
            "kernel.apparmor_restrict_unprivileged_userns=0 (those that exist). In a container: run it with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined."
        )


class BubblewrapSandboxes:
    """Opens sandboxes; see :class:`~benchmarks.swebench.sandbox.base.Sandboxes`.

    ::

        async with BubblewrapSandboxes(packages=packages_folder(cache)) as sandboxes:
            sandbox = await sandboxes.open(task.workspace)

    Entering stages what the host lends (once, well under a second) and tries it.

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
        self._runtime: Runtime | None = None
        self._open: set[BubblewrapSandbox] = set()

    async def __aenter__(self) -> Self:
        try:
            await finish(asyncio.to_thread(self._set_up))
            await self._try_python()
        except BaseException:  # also when cancelled: nobody will leave what was never entered
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self, workspace: Path, changes: Mapping[str, bytes | None] | None = None) -> BubblewrapSandbox:
        """Copy ``workspace`` into a folder of the sandbox's user, with ``changes`` made.

        Raises:
            SandboxError: not entered, closed, or the copy failed.
        """
        if self._scratch is None or self._runtime is None:
            raise SandboxError("these sandboxes are not set up: use `async with`")
        root = Path(tempfile.mkdtemp(dir=self._scratch.root))
        sandbox = BubblewrapSandbox(root, self._runtime, self._limits, on_close=self._open.discard)
        self._open.add(sandbox)
        try:
            await finish(sandbox.fill(workspace, changes or {}))
        except BaseException:  # also when cancelled: the caller never gets the sandbox, so nobody else closes it
            await sandbox.close()
            raise
        return sandbox

    async def close(self) -> None:
        """Close what is open and remove everything. Safe to call again."""
        scratch, self._scratch = self._scratch, None
        # What one of them cannot remove, the last line cannot either, and says so.
        await asyncio.gather(*(sandbox.close() for sandbox in tuple(self._open)), return_exceptions=True)
        if scratch is not None:
            await finish(asyncio.to_thread(scratch.remove))

    def _set_up(self) -> None:
        check_available()
        self._scratch = Scratch(uid=_uid())
        runtime = Runtime(self._scratch.root, uid=_uid(), packages=self._packages, limits=self._limits)
        try:
            runtime.stage()
        except (OSError, shutil.Error, subprocess.CalledProcessError) as error:
            raise SandboxUnavailable(f"cannot stage the sandbox's Python in {self._scratch.root}: {error}") from error
        self._runtime = runtime

    async def _try_python(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            sandbox = await self.open(Path(empty))
        result = await sandbox.run("python -c 'print(6 * 7)'", timeout=PROBE_TIMEOUT_S)
        await sandbox.close()
        if result.output != "42\n":
            raise SandboxUnavailable(f"Python does not run in the sandbox: {result}")


class BubblewrapSandbox:
    """One agent's workspace; see :class:`~benchmarks.swebench.sandbox.base.Sandbox`. Made by the factory."""

    def __init__(
        self,
        root: Path,
        runtime: Runtime,
        limits: Limits,
        *,
        on_close: Callable[[BubblewrapSandbox], object],
    ) -> None:
        self._root = root
        self._workspace = root / "testbed"
        self._arguments = runtime.arguments(self._workspace)
        self._limits = limits
        self._on_close = on_close
        self._running: set[asyncio.Task[CommandResult]] = set()
        self._filling = asyncio.Lock()
        self._original: Path | None = None
        self._closed = False

    async def fill(self, workspace: Path, changes: Mapping[str, bytes | None]) -> None:
        """Copy ``workspace`` here and change it; the factory does it once. Raises SandboxError."""
        self._original = workspace
        async with self._filling:  # so that a close meanwhile removes after, not during, the copying
            uid = _uid()
            if uid is not None:
                os.chown(self._root, uid, uid)
            await asyncio.to_thread(copy_tree, workspace, self._workspace, owner=uid, changes=changes)
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
        argv: list[str | bytes] = [*_enter(), "bwrap", "--json-status-fd", STATUS_FD, *self._arguments]
        argv += [*self._limited(), "bash", "-c", text]
        task = asyncio.create_task(run_contained(argv, timeout=timeout, limits=self._limits))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            raise SandboxError("this sandbox was closed while the command ran") from None

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
        self._on_close(self)

    def _limited(self) -> tuple[str, ...]:
        limits = self._limits
        return (
            # Address space is limited per process: if all of them together exhaust the machine, they go first.
            *("choom", "--adjust", "1000", "--"),
            # Inside bwrap, since processes are counted per user namespace and the limit does not bind root.
            *("prlimit", f"--nproc={limits.processes}", f"--as={limits.address_space_bytes}", "--core=0"),
            *(f"--cpu={limits.cpu_seconds}", f"--fsize={limits.file_bytes}", f"--nofile={limits.open_files}"),
        )


def _uid() -> int | None:
    """Whom to become before anything else; None when we are no root and stay who we are."""
    return UID if os.geteuid() == 0 else None


def _enter() -> tuple[str, ...]:
    uid = _uid()
    if uid is None:
        return ()
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs", "--inh-caps=-all")


def _which(program: str) -> bool:
    return shutil.which(program, path=HOST_ENVIRONMENT["PATH"]) is not None
