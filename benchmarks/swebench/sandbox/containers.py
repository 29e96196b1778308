"""Sandboxes by Podman or Docker: a container for each command, with the same copy of the workspace mounted.

What a container sees is the host's ``/usr`` and Python as bubblewrap lends them, or an image: SWE-bench has one a task.
Every container has no network, no capability, no new privileges, the program's system call filter, a read-only root,
and a user that is not root: as in bubblewrap, :data:`~benchmarks.swebench.sandbox.copies.UID` where we are root, and
otherwise whoever we are (with Podman in a user namespace of its own).
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import threading
from pathlib import Path

from benchmarks.swebench.sandbox.attached import first_process, run_attached
from benchmarks.swebench.sandbox.base import CommandResult, Limits, SandboxError
from benchmarks.swebench.sandbox.client import Client
from benchmarks.swebench.sandbox.copies import CopiedSandbox, CopiedSandboxes, unprivileged_uid
from benchmarks.swebench.sandbox.finishing import finish
from benchmarks.swebench.sandbox.guard import LABEL, Guard, remove_left_behind
from benchmarks.swebench.sandbox.host_image import import_host_image
from benchmarks.swebench.sandbox.runtime import ENVIRONMENT, WORKSPACE, Runtime

__all__ = ["ContainerSandbox", "ContainerSandboxes", "check_containers"]

OF_THE_HOST = frozenset({"PATH", "PYTHONPATH"})
"""Parts of the environment that an image has of its own."""
SWEBENCH_PYTHON = "/opt/miniconda3/envs/testbed/bin"
"""Where the images of SWE-bench keep the Python of their task; they activate it in root's ``.bashrc``."""
SETUP = ".git/concur-setup.sh"
"""Where a script lies that sets the workspace up: it may be too long for an argument."""
SETUP_TIMEOUT_S = 120.0
"""It applies a patch, on a disk that others use too."""
ACTIVATE = f'[ -d {SWEBENCH_PYTHON} ] && PATH="{SWEBENCH_PYTHON}:$PATH";'


def check_containers(program: str) -> None:
    """Return when ``program`` (podman or docker) answers and can bound what a container uses.

    Raises:
        SandboxUnavailable: it does not; the message says what to do.
    """
    Client(program)


class ContainerSandboxes(CopiedSandboxes):
    """Sandboxes by containers.

    ::

        async with ContainerSandboxes("podman") as sandboxes:
            workspace = await sandboxes.workspace_of(row.image)
            sandbox = await sandboxes.open(workspace, image=row.image)

    Args:
        program: ``podman`` or ``docker``.
        image: what containers are made of where :meth:`open` names none; None for what the host lends.
        packages: as in every kind; where the host lends only.
        limits: for each command.

    Raises:
        SandboxUnavailable: on entering; the message says what to do.
        SandboxError: the image cannot be had.
    """

    _client: Client
    _runtime: Runtime
    _root: Path

    def __init__(
        self, program: str, *, image: str | None = None, packages: Path | None = None, limits: Limits | None = None
    ) -> None:
        super().__init__(packages=packages, limits=limits)
        self._program = program
        self._image = image
        self._guard: Guard | None = None
        self._host_image = ""
        self._workspaces: dict[str, Path] = {}
        self._copying = threading.Lock()
        self._set_up_ones: dict[tuple[str, str], Path] = {}
        self._setting_up = asyncio.Lock()

    async def workspace_of(self, image: str, setup: str = "") -> Path:
        """The repository at ``/testbed`` in ``image``; see the protocol. Raises SandboxError."""
        if not self._ready:
            raise SandboxError("these sandboxes are not set up: use `async with`")
        plain = await finish(asyncio.to_thread(self._copied_out, image))
        if not setup:
            return plain
        async with self._setting_up:
            if (image, setup) not in self._set_up_ones:
                self._set_up_ones[image, setup] = await self._changed(plain, image, setup)
            return self._set_up_ones[image, setup]

    async def _changed(self, workspace: Path, image: str, setup: str) -> Path:
        """A copy of an image's workspace in which ``setup`` has run: that of a sandbox that stays open."""
        sandbox = await self.open(workspace, {SETUP: setup.encode()}, image=image)
        result = await sandbox.run(f"bash {SETUP} && rm {SETUP}", timeout=SETUP_TIMEOUT_S)
        if result.exit_code != 0:
            await sandbox.close()
            raise SandboxError(f"the repository of {image} cannot be set up: {result.output.strip()[-500:]}")
        return sandbox.workspace

    def _check(self) -> None:
        self._client = Client(self._program)

    def _set_up(self, root: Path) -> None:
        remove_left_behind(self._client)
        self._root = root
        self._guard = Guard(self._client, root)
        self._runtime = Runtime(root, uid=unprivileged_uid(), packages=self._packages, limits=self._limits)
        self._runtime.stage()
        self._host_image = import_host_image(self._client, self._runtime)

    def _leave(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.end()
        super()._leave()

    async def _have_image(self, image: str | None) -> None:
        image = image or self._image
        if image is not None:
            await finish(asyncio.to_thread(self._client.have_image, image))

    def _new(self, root: Path, image: str | None, limits: Limits) -> ContainerSandbox:
        image = image or self._image
        flags = [
            *self._client.isolation(limits, self._root),
            f"--label={LABEL}={self._root}",
            f"--workdir={WORKSPACE}",
        ]
        flags += [f"--mount=type=bind,source={root / 'testbed'},target={WORKSPACE}"]
        names = set(ENVIRONMENT) - (OF_THE_HOST if image else set())
        flags += [f"--env={name}={ENVIRONMENT[name]}" for name in sorted(names)]
        if image is None:
            flags += [
                f"--mount=type=bind,source={source},target={target},readonly" for source, target in self._runtime.binds
            ]
        return ContainerSandbox(root, limits, self._client, tuple(flags), image or self._host_image)

    def _copied_out(self, image: str) -> Path:
        with self._copying:
            if image not in self._workspaces:
                self._workspaces[image] = self._copy_out(image)
            return self._workspaces[image]

    def _copy_out(self, image: str) -> Path:
        self._client.have_image(image)
        folder = self._root / f"image-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        name = f"concur-swebench-{secrets.token_hex(8)}"
        label = f"--label={LABEL}={self._root}"
        self._client.call("create", "--pull=never", "--network=none", f"--name={name}", label, image, "true")
        try:
            self._client.call("cp", f"{name}:{WORKSPACE}", str(folder))
        finally:
            self._client.call("rm", "--force", name)
        return folder / WORKSPACE.lstrip("/")


class ContainerSandbox(CopiedSandbox):
    """One agent's workspace; see :class:`~benchmarks.swebench.sandbox.base.Sandbox`. Made by the factory."""

    def __init__(self, root: Path, limits: Limits, client: Client, flags: tuple[str, ...], image: str) -> None:
        super().__init__(root, limits)
        self._client = client
        self._arguments = flags
        self._image = image
        self._names = (f"concur-swebench-{secrets.token_hex(8)}-{number}" for number in itertools.count())

    async def _run(self, command: bytes, timeout_s: float) -> CommandResult:
        await self._disk.look()
        first = first_process(
            self._limits,
            file_bytes=self._disk.file_bytes(),
            count_processes=self._client.counts_processes_by_user,
            before=ACTIVATE,
        )
        name = next(self._names)
        argv: list[str | bytes] = [*self._client.command("run", f"--name={name}", *self._arguments, self._image)]
        argv += ["-c", first, command]
        return await run_attached(self._client, argv, name, timeout=timeout_s, limits=self._limits, disk=self._disk)
