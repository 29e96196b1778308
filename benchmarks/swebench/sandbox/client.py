"""The ``podman`` or ``docker`` program: asked what it can, told to import, pull, copy, kill and remove."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.swebench.sandbox.base import Limits, SandboxError, SandboxUnavailable
from benchmarks.swebench.sandbox.copies import unprivileged_uid
from benchmarks.swebench.sandbox.seccomp import without_namespaces

__all__ = ["PROGRAMS", "Client"]

PROGRAMS = ("podman", "docker")
PASSED_ON = ("HOME", "PATH", "TMPDIR", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
PASSED_ON_PREFIXES = ("DOCKER_", "CONTAINERS_", "CONTAINER_", "STORAGE_", "DBUS_SESSION_")
"""Of our environment, to the program: where its daemon, settings and storage are. Nothing of it gets inside."""
SAYS_NOTHING = 300.0
"""Seconds for what asks no registry: hundreds of containers may be starting on few cores."""
MOST = 32_768
"""Podman 4.3 lowers its own limit of processes to this, and cannot give more."""
PULL_S = 3600.0
"""An image of SWE-bench has 1 to 4 GB."""
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
"""The program's own settings may put them into containers, passwords included."""
IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]*")


class Client:
    """What this machine's program can do, and the ways to call it.

    Args:
        program: one of :data:`PROGRAMS`.

    Raises:
        SandboxUnavailable: it is not installed, does not answer, or cannot bound what a container uses.
    """

    def __init__(self, program: str) -> None:
        if program not in PROGRAMS:
            raise ValueError(f"program must be one of {', '.join(PROGRAMS)}, not {program!r}")
        self.program = program
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
        }
        if shutil.which(program, path=self.environment.get("PATH")) is None:
            raise SandboxUnavailable(f"the sandbox needs {program}, which is not on PATH. {_INSTALL[program]}")
        self._argv = (program, *(("--log-level=error",) if program == "podman" else ()))
        self._filter: Path | None = None
        """Podman's seccomp profile."""
        self._rootless, self._controllers = self._about()

    def command(self, *arguments: str) -> tuple[str, ...]:
        """The program with its arguments."""
        return (*self._argv, *arguments)

    def call(self, *arguments: str, given: bytes | None = None, timeout: float = SAYS_NOTHING) -> str:
        """Run the program to its end, and give what it printed. Raises SandboxError with what it complained of."""
        done = self._run(arguments, given=given, timeout=timeout)
        if done.returncode:
            raise SandboxError(f"{self.program} {arguments[0]} failed: {_text(done.stderr)}")
        return done.stdout.decode(errors="replace").strip()

    def have_image(self, image: str) -> None:
        """Pull ``image`` unless it is here. Raises SandboxError."""
        if not IMAGE.fullmatch(image):  # else a row's could be a flag
            raise SandboxError(f"not the name of an image: {image!r}")
        if not self.has_image(image):
            self.call("pull", "--quiet", image, timeout=PULL_S)

    def has_image(self, image: str) -> bool:
        """Whether ``image`` is on this machine."""
        return not self._run(("image", "inspect", "--format", "{{.Id}}", image)).returncode

    def isolation(self, limits: Limits, root: Path) -> tuple[str, ...]:
        """Flags of ``run`` that keep a container in, whatever its image is; ``root`` is for files they name."""
        uid, gid = unprivileged_uid() or os.getuid(), unprivileged_uid() or os.getgid()
        flags = [
            *("--rm", "--stop-timeout=0", "--pull=never", "--log-driver=none", "--entrypoint=bash"),
            *("--network=none", "--ipc=private", "--hostname=swebench", f"--user={uid}:{gid}"),
            *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only"),
            "--security-opt=label=disable",  # on SELinux hosts: what is lent has labels of its own
            *("--oom-score-adj=1000", f"--shm-size={limits.tmp_bytes // 4}"),
            f"--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size={limits.tmp_bytes}",
            *(f"--env={name}=" for proxy in PROXIES for name in (proxy, proxy.lower())),
        ]
        if "memory" in self._controllers:
            flags.append(f"--memory={limits.memory_bytes}")
        if "pids" in self._controllers:
            flags.append(f"--pids-limit={limits.processes + 1}")  # one of them is ours
        if self.program == "podman":
            # Its defaults are above what a root without CAP_SYS_RESOURCE may ask for. The second counts a user's
            # processes in all containers where they have no user namespaces of their own, so it bounds none of them.
            for name, what in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
                most = min(value for value in (resource.getrlimit(what)[1], MOST) if value != resource.RLIM_INFINITY)
                flags.append(f"--ulimit={name}={most}:{most}")
            flags += ("--no-hosts", "--http-proxy=false", "--read-only-tmpfs=false", "--image-volume=ignore")
            flags += ("--systemd=false", f"--security-opt=seccomp={self._filter_in(root)}")
            if self._rootless:
                flags.append("--userns=keep-id")
        return tuple(flags)

    @property
    def counts_processes_by_user(self) -> bool:
        """Whether RLIMIT_NPROC counts a container's processes alone, as it does in a user namespace of its own."""
        return self.program == "podman" and self._rootless

    def _about(self) -> tuple[bool, frozenset[str]]:
        done = self._run(("info", "--format", "{{json .}}"))
        try:
            about = json.loads(done.stdout) if not done.returncode else None
        except ValueError:
            about = None
        if not isinstance(about, Mapping):
            raise SandboxUnavailable(f"{self.program} does not run here: {_text(done.stderr) or _text(done.stdout)}")
        if self.program == "docker":
            rootless, controllers = _docker(about)
        else:
            rootless, controllers, self._filter = _podman(about)
        if not rootless and "pids" not in controllers:
            raise SandboxUnavailable(
                f"{self.program} cannot limit processes here: it needs the pids cgroup controller, or to run rootless"
            )
        return rootless, controllers

    def _filter_in(self, root: Path) -> Path:
        file = root / "seccomp.json"
        if self._filter is not None and not file.exists():
            file.write_text(json.dumps(without_namespaces(json.loads(self._filter.read_text()))))
        return file

    def _run(
        self, arguments: tuple[str, ...], *, given: bytes | None = None, timeout: float = SAYS_NOTHING
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                self.command(*arguments),
                env=self.environment,
                input=given if given is not None else b"",
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxError(f"{self.program} {arguments[0]} failed: {error}") from error


_INSTALL = {
    "podman": "On Debian and Ubuntu: apt-get install podman uidmap",
    "docker": "See https://docs.docker.com/engine/install/",
}


def _podman(about: Mapping[str, Any]) -> tuple[bool, frozenset[str], Path]:
    host = about.get("host", {})
    security = host.get("security", {})
    profile = Path(security.get("seccompProfilePath") or "/usr/share/containers/seccomp.json")
    if not security.get("seccompEnabled") or not profile.is_file():
        raise SandboxUnavailable(f"podman filters no system calls here: it needs seccomp, and its profile {profile}")
    return bool(security.get("rootless")), frozenset(host.get("cgroupControllers") or ()), profile


def _docker(about: Mapping[str, Any]) -> tuple[bool, frozenset[str]]:
    names = (("pids", "PidsLimit"), ("memory", "MemoryLimit"))
    security = " ".join(about.get("SecurityOptions") or ())
    if "rootless" in security or "userns" in security:
        raise SandboxUnavailable("in rootless Docker, or with userns-remap, a workspace is nobody's inside: use podman")
    if "seccomp" not in security:
        raise SandboxUnavailable("docker filters no system calls here: it needs seccomp")
    return False, frozenset(name for name, field in names if about.get(field))


def _text(said: bytes) -> str:
    """The end of it, for messages."""
    return said.decode(errors="replace").strip()[-2000:]
