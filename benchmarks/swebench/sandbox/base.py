"""What every sandbox is: a private copy of a workspace in which commands of an untrusted agent run.

Threats a sandbox must contain (each has a test, and a new kind of sandbox must pass them all): writing outside the
workspace; reading the host's files, environment or processes; the network and unix sockets; fork bombs; memory; huge,
endless or no output; children that outlive their command; symlinks in place of results; gaining privilege; other
sandboxes; filling the disk.

CPU is shared, not divided, by every kind here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

__all__ = ["CommandResult", "Limits", "Sandbox", "SandboxError", "SandboxUnavailable", "Sandboxes"]

MIB = 1024 * 1024


class SandboxError(Exception):
    """The sandbox itself failed (never: the command in it). The message holds what its program said."""


class SandboxUnavailable(SandboxError):  # noqa: N818 - it names the state it reports
    """This machine cannot run this kind of sandbox. The message says what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one command may use. Each is enforced by the kernel or by the reader, never by the command's good will.

    Raises:
        ValueError: a limit below its least useful value; the message names it and its value.
    """

    processes: int = 128
    """Processes and threads alive at once. A pytest run needs 1 to 3, a make -j 8 some twenty."""
    address_space_bytes: int = 2048 * MIB
    """Per process. Python reserves more than it uses: its interpreter alone takes some 30 MiB."""
    cpu_seconds: int = 120
    """Per process: what ends a busy loop whose timeout is longer."""
    file_bytes: int = 256 * MIB
    """Largest file a process may write; core dumps are off."""
    open_files: int = 256
    memory_bytes: int = 4096 * MIB
    """Of all processes of a command together, ``/tmp`` included: where the kind has a cgroup for it, as containers."""
    growth_bytes: int = 512 * MIB
    """What a workspace may grow by. It is looked at from time to time, so a fast writer gets somewhat further."""
    reserve_bytes: int = 512 * MIB
    """Left free on the disk that holds the workspaces: below it whatever runs is killed."""
    tmp_bytes: int = 64 * MIB
    """Size of ``/tmp``, which is memory and lasts one command. ``/dev/shm`` has a quarter of it."""
    kept_output_bytes: int = 64 * 1024
    """Output that is returned: the first and the last half of it."""
    read_output_bytes: int = 16 * MIB
    """Output after which a command is killed; a verbose build writes 1 to 5 MiB, a runaway one GiB a second."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 4096 if field.name.endswith("bytes") else 8 if field.name != "cpu_seconds" else 1
            if value < least:
                raise ValueError(f"{field.name} must be at least {least}, not {value}")
        if self.kept_output_bytes > self.read_output_bytes:
            raise ValueError(
                f"kept_output_bytes must be at most read_output_bytes ({self.read_output_bytes}), "
                f"not {self.kept_output_bytes}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended and what it printed."""

    exit_code: int | None
    """128 + n when signal n ended it; None when the sandbox killed it (timeout, too much output or disk)."""
    output: str
    """Standard output and error in the order written, undecodable bytes replaced; see ``truncated``."""
    timed_out: bool
    truncated: bool
    """Some output is missing: a line in the middle says how many bytes, or the command was killed for it."""
    seconds: float
    """Wall seconds from the sandbox being up to the command's end."""


class Sandbox(Protocol):
    """One agent's place. Commands may run one after the other or at once; files last, processes do not."""

    async def run(self, command: str, *, timeout: float) -> CommandResult:  # noqa: ASYNC109 - of the command
        """Run ``bash -c command`` in the workspace and kill whatever is left of it.

        Cancelling kills the whole process tree before the cancellation goes on.

        Args:
            command: any text that bash takes.
            timeout: wall seconds, from the sandbox being up; above 0.

        Raises:
            SandboxError: the sandbox could not be set up, or is closed. Never for what the command does.
        """
        ...

    async def read(self, path: str, *, limit: int) -> bytes:
        """Read at most ``limit`` bytes of a regular file that the agent left, following no link.

        Args:
            path: relative to the workspace, without ``..``.
            limit: bytes; a larger file is cut, not refused.

        Raises:
            SandboxError: missing, outside, a link on the way, or no regular file.
        """
        ...

    async def changes(self, *, limit: int) -> dict[str, bytes | None]:
        """What differs from the workspace that it was opened on: contents by path, None for a file that is gone.

        No command may run meanwhile. Only regular files count; what test runs leave by the way does not.

        Args:
            limit: most bytes of all contents together.

        Raises:
            SandboxError: it is more, or cannot be read.
        """
        ...

    async def close(self) -> None:
        """Kill what runs and remove the workspace's copy. Safe to call again."""
        ...


class Sandboxes(Protocol):
    """One kind of sandbox, set up once and opened many times; an async context manager."""

    async def open(
        self,
        workspace: Path,
        changes: Mapping[str, bytes | None] | None = None,
        *,
        image: str | None = None,
        limits: Limits | None = None,
    ) -> Sandbox:
        """Copy ``workspace`` to a private place and give it as a sandbox; the original is never touched.

        Args:
            workspace: what it starts from.
            changes: made in the copy: what :meth:`Sandbox.changes` of another sandbox on it said.
            image: container image that its commands run in, pulled when it is not there; None for the host's programs.
            limits: in place of the factory's.

        Raises:
            SandboxError: the copy failed (disk full, unreadable), the image cannot be had, this kind has none, or this
                factory is closed.
        """
        ...

    async def workspace_of(self, image: str, setup: str = "") -> Path:
        """The repository at ``/testbed`` in ``image``, copied out once: what sandboxes of it are opened on.

        It is there as long as these sandboxes are.

        Args:
            image: which.
            setup: a script of bash that is run in it, once, in a sandbox of the image.

        Raises:
            SandboxError: the image cannot be had, has none, this kind has no images, or ``setup`` failed.
        """
        ...

    async def close(self) -> None:
        """Close every sandbox still open and remove all that was set up. Safe to call again."""
        ...
