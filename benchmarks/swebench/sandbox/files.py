"""A workspace's copy: made, read and removed without trusting what the agent did to it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from benchmarks.swebench.sandbox.base import SandboxError

__all__ = ["changed_files", "copy_tree", "read_inside", "remove_tree"]

BY_THE_WAY = frozenset({"__pycache__", ".pytest_cache", ".git"})
"""Folders that a test run leaves, or that say how a file came to be; nobody is judged by them."""
MOST_FILES = 20_000
"""That an agent's workspace is looked through for."""


def copy_tree(
    source: Path, target: Path, *, owner: int | None, changes: Mapping[str, bytes | None] | None = None
) -> None:
    """Copy a tree (links stay links) to ``target``, which must not exist, and give it to ``owner`` if there is one.

    Args:
        source: what to copy.
        target: where to.
        owner: user id; None for us.
        changes: what :func:`changed_files` found; made in the copy.

    Raises:
        SandboxError: anything could not be read or written; what was written is left for :func:`remove_tree`.
    """
    try:
        shutil.copytree(source, target, symlinks=True)
        target.chmod(0o755)
        for path, content in (changes or {}).items():
            _change(target, path, content)
        if owner is not None:
            for folder, _, files in os.walk(target):
                os.chown(folder, owner, owner, follow_symlinks=False)
                for name in files:
                    os.chown(Path(folder) / name, owner, owner, follow_symlinks=False)
    except (OSError, shutil.Error) as error:
        raise SandboxError(f"cannot copy the workspace {source}: {error}") from error


def changed_files(before: Path, after: Path, *, limit: int) -> dict[str, bytes | None]:
    """What an agent left: the content of each regular file that is new or another one, None for each that is gone.

    Nothing of the sandbox may run any more. Links and special files count as gone; what :data:`BY_THE_WAY` names is
    left out. A file of unchanged size and time counts as unchanged.

    Args:
        before: the tree it was a copy of.
        after: the copy.
        limit: most bytes of all files together.

    Raises:
        SandboxError: it is more than that, or cannot be read.
    """
    _open_up(after)
    found: dict[str, bytes | None] = {}
    seen: set[str] = set()
    left = limit
    try:
        for path, status in _regular_files(after):
            seen.add(path)
            if len(seen) > MOST_FILES:
                raise SandboxError(f"the workspace has more than {MOST_FILES:,} files")
            original = _status(before / path)
            if original and (original.st_size, original.st_mtime_ns) == (status.st_size, status.st_mtime_ns):
                continue
            content = read_inside(after, path, limit=left + 1)
            left -= len(content)
            if left < 0:
                raise SandboxError(f"the workspace has more than {limit:,} bytes of changes")
            if not original or content != (before / path).read_bytes():
                found[path] = content
        found |= {path: None for path, _ in _regular_files(before) if path not in seen}
    except (OSError, RecursionError) as error:
        raise SandboxError(f"cannot look through the workspace: {error}") from error
    return found


def _regular_files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    for folder, folders, names, at in os.fwalk(root, follow_symlinks=False, onerror=_raise):
        folders[:] = sorted(name for name in folders if name not in BY_THE_WAY)
        for name in sorted(names):
            status = os.lstat(name, dir_fd=at)
            if stat.S_ISREG(status.st_mode):
                yield str((Path(folder) / name).relative_to(root)), status


def _raise(error: OSError) -> None:
    raise error


def _status(path: Path) -> os.stat_result | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _change(root: Path, path: str, content: bytes | None) -> None:
    """Make one change in a tree that is ours. Raises OSError."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise OSError(f"not a path inside the workspace: {path!r}")
    folder = root
    for part in parts[:-1]:
        folder /= part
        if folder.is_symlink():
            raise OSError(f"a link is on the way to {path!r}")
        folder.mkdir(exist_ok=True)
    file = folder / parts[-1]
    mode = stat.S_IMODE(file.stat().st_mode) if _status(file) else None
    file.unlink(missing_ok=True)
    if content is not None:
        file.write_bytes(content)
        if mode is not None:
            file.chmod(mode)


def remove_tree(root: Path) -> None:
    """Remove a tree that an agent wrote, also folders it made unreadable or nested thousands deep.

    By coreutils, whose walk has no depth limit and follows no link; nothing of the sandbox runs any more.

    Raises:
        SandboxError: something could not be removed.
    """
    if not root.exists():
        return
    _open_up(root)
    done = subprocess.run(["rm", "-rf", "--", root], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise SandboxError(f"cannot remove {root}: {done.stderr.strip()[:500]}")


def _open_up(root: Path) -> None:
    """Let the owner into folders and files that an agent has locked; follows no link."""
    subprocess.run(["chmod", "-R", "u+rwX", "--", root], stderr=subprocess.DEVNULL, check=False)


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
