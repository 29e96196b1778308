"""A workspace's copy: made, read and removed without trusting what the agent did to it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path, PurePosixPath

from benchmarks.swebench.sandbox.base import SandboxError

__all__ = ["copy_tree", "read_inside", "remove_tree"]


def copy_tree(source: Path, target: Path, *, owner: int | None) -> None:
    """Copy a tree (links stay links) to ``target``, which must not exist, and give it to ``owner`` if there is one.

    Raises:
        SandboxError: anything could not be read or written; what was written is left for :func:`remove_tree`.
    """
    try:
        shutil.copytree(source, target, symlinks=True)
        target.chmod(0o755)
        if owner is not None:
            for folder, _, files in os.walk(target):
                os.chown(folder, owner, owner, follow_symlinks=False)
                for name in files:
                    os.chown(Path(folder) / name, owner, owner, follow_symlinks=False)
    except (OSError, shutil.Error) as error:
        raise SandboxError(f"cannot copy the workspace {source}: {error}") from error


def remove_tree(root: Path) -> None:
    """Remove a tree that an agent wrote, also folders it made unreadable or nested thousands deep.

    By coreutils, whose walk has no depth limit and follows no link; nothing of the sandbox runs any more.

    Raises:
        SandboxError: something could not be removed.
    """
    if not root.exists():
        return
    subprocess.run(["chmod", "-R", "u+rwX", "--", root], stderr=subprocess.DEVNULL, check=False)
    done = subprocess.run(["rm", "-rf", "--", root], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise SandboxError(f"cannot remove {root}: {done.stderr.strip()[:500]}")


def read_inside(root: Path, path: str, *, limit: int) -> bytes:
    """Read at most ``limit`` bytes of a regular file below ``root``, refusing links at every step of the way.

    Raises:
        SandboxError: missing, absolute, with ``..``, through a link, or no regular file.
    """
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise SandboxError(f"not a path inside the workspace: {path!r}")
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for part in parts[:-1]:
                deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = deeper
            # O_NONBLOCK: opening a FIFO would wait for a writer for ever.
            file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise SandboxError(f"not a regular file: {path!r}")
            with open(file, "rb", closefd=False) as stream:
                return stream.read(limit)
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        raise SandboxError(f"cannot read {path!r} in the workspace: {error}") from error
