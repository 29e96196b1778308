"""Sandboxes by Debian's bubblewrap (0.8 or later): namespaces and rlimits, no daemon, no image.

Each command is one ``bwrap``: user, mount, pid, network, ipc, uts and cgroup namespaces of its own, no capability, no
new privileges, no nested user namespace, a system call filter (``seccomp.py``), everything read-only but the workspace
(and a small ``/tmp`` and ``/dev/shm`` in memory that last one command). Started as root, the whole thing runs as
:data:`UID` from before bwrap on: root inside a user namespace would still own root's files outside. Started by a
person, it runs as that person, and the mount namespace alone keeps their files away.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.swebench.sandbox.base import CommandResult, Limits, SandboxUnavailable
from benchmarks.swebench.sandbox.copies import PROBE_TIMEOUT_S, UID, CopiedSandbox, CopiedSandboxes, unprivileged_uid
from benchmarks.swebench.sandbox.process import FILTER_FD, HOST_ENVIRONMENT, STATUS_FD, run_contained
from benchmarks.swebench.sandbox.runtime import Runtime
from benchmarks.swebench.sandbox.seccomp import compiled_filter

__all__ = ["UID", "BubblewrapSandbox", "BubblewrapSandboxes", "check_available"]


def check_available() -> None:
    """Return when this machine can run these sandboxes; takes some 30 ms.

    Raises:
        SandboxUnavailable: it cannot; the message says what to install or to allow.
    """
    programs = {"bwrap": "bubblewrap", "choom": "util-linux", "prlimit": "util-linux"} | (
        {"setpriv": "util-linux"} if unprivileged_uid() else {}
    )
    missing = sorted({package for program, package in programs.items() if not _which(program)})
    if missing:
        names = " ".join(missing)
        raise SandboxUnavailable(f"the sandbox needs {names}: apt-get install {names}")
    compiled_filter()
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


class BubblewrapSandboxes(CopiedSandboxes):
    """Sandboxes by bubblewrap, on what the host lends; staging that takes well under a second.

    ::

        async with BubblewrapSandboxes(packages=packages_folder(cache)) as sandboxes:
            sandbox = await sandboxes.open(task.workspace)
    """

    _runtime: Runtime
    _program: bytes

    def _check(self) -> None:
        check_available()

    def _set_up(self, root: Path) -> None:
        self._runtime = Runtime(root, uid=unprivileged_uid(), packages=self._packages, limits=self._limits)
        self._runtime.stage()
        self._program = compiled_filter()

    def _new(self, root: Path, image: str | None, limits: Limits) -> BubblewrapSandbox:  # noqa: ARG002 - it has none
        return BubblewrapSandbox(root, self._runtime, limits, self._program)


class BubblewrapSandbox(CopiedSandbox):
    """One agent's workspace; see :class:`~benchmarks.swebench.sandbox.base.Sandbox`. Made by the factory."""

    def __init__(self, root: Path, runtime: Runtime, limits: Limits, program: bytes) -> None:
        super().__init__(root, limits)
        self._program = program
        self._arguments = runtime.arguments(self._workspace)

    async def _run(self, command: bytes, timeout_s: float) -> CommandResult:
        await self._disk.look()
        argv: list[str | bytes] = [*_enter(), "bwrap", "--json-status-fd", STATUS_FD, "--seccomp", FILTER_FD]
        argv += [*self._arguments, *self._limited(), "bash", "-c", command]
        return await run_contained(argv, timeout=timeout_s, limits=self._limits, disk=self._disk, program=self._program)

    def _limited(self) -> tuple[str, ...]:
        limits = self._limits
        return (
            # Address space is limited per process: if all of them together exhaust the machine, they go first.
            *("choom", "--adjust", "1000", "--"),
            # Inside bwrap, since processes are counted per user namespace and the limit does not bind root.
            *("prlimit", f"--nproc={limits.processes}", f"--as={limits.address_space_bytes}", "--core=0"),
            *(f"--cpu={limits.cpu_seconds}", f"--fsize={self._disk.file_bytes()}", f"--nofile={limits.open_files}"),
        )


def _enter() -> tuple[str, ...]:
    uid = unprivileged_uid()
    if uid is None:
        return ()
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs", "--inh-caps=-all")


def _which(program: str) -> bool:
    return shutil.which(program, path=HOST_ENVIRONMENT["PATH"]) is not None
