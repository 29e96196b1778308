"""The folder that holds a run's copies, and the removal of those that killed runs left behind."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from pathlib import Path

from benchmarks.swebench.sandbox.base import SandboxError, SandboxUnavailable
from benchmarks.swebench.sandbox.files import remove_tree

__all__ = ["Scratch"]

PREFIX = "concur-swebench-"


class Scratch:
    """A new folder below the temporary directory that other users may pass through but not list.

    It holds a lock for as long as this process lives, so that the next run can tell a dead run's folder from a live
    one.

    Raises:
        SandboxUnavailable: the sandbox's user cannot reach the temporary directory.
    """

    def __init__(self, *, uid: int | None) -> None:
        parent = Path(tempfile.gettempdir()).resolve()
        if uid is not None and not all(path.stat().st_mode & stat.S_IXOTH for path in (parent, *parent.parents)):
            raise SandboxUnavailable(
                f"the sandboxes' user {uid} cannot reach {parent}: set TMPDIR to a folder that all users may enter"
            )
        _sweep(parent)
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = os.open(self.root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.root.chmod(0o711)

    def remove(self) -> None:
        """Remove the folder with all in it. Raises SandboxError when something stays."""
        try:
            remove_tree(self.root)
        finally:
            os.close(self._lock)


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            status = folder.lstat()
            if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
                continue
            lock = os.open(folder / "lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # just made, or just removed, by another run
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(folder)
        except (BlockingIOError, SandboxError):  # alive; or another sweep is at it
            continue
        finally:
            os.close(lock)
