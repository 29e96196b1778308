"""What a sandbox sees of the host: ``/usr`` read-only, one Python without its packages, an ``/etc`` of our own.

The interpreter is the one that runs us (``sys.base_prefix``), at its own path, so that rpaths and ``sys.prefix``
hold. Below ``/usr`` it is there already. Elsewhere it is bound; but when we are root, the sandbox's user may be
unable to reach it (a pyenv below ``/root``, mode 700), and then it is copied once without site-packages and tests:
50 MB, under a second, and no door into ``/root`` is opened.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.swebench.sandbox.base import Limits, SandboxUnavailable

__all__ = ["PACKAGES", "Runtime"]

HOME = "/opt/swebench"
TMP = "/tmp"  # noqa: S108 - inside, where it is private and lasts one command
WORKSPACE = "/testbed"
PACKAGES = f"{HOME}/packages"
"""Where the packages given to the sandboxes are, inside."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
BESIDE_USR = ("bin", "sbin", "lib", "lib32", "lib64")
"""Links into /usr where the host merged them (Debian 12, Fedora); folders elsewhere."""
HOST_PACKAGES = ("lib/python3*/*-packages", "local/lib/python3*/*-packages", "lib64/python3*/*-packages")
"""Hidden: a test that passes because the host has some package would fail on the next host."""
UNUSED = (
    *("*-packages", "test", "tests", "config-*", "ensurepip", "distutils", "lib2to3"),
    *("idlelib", "tkinter", "turtledemo", "pydoc_data", "*.opt-?.pyc"),
)
"""Parts of a standard library that are not copied: most of its bulk, and no test here needs them."""
ENVIRONMENT = {
    "PATH": f"{HOME}/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": TMP,
    "USER": "agent",
    "LOGNAME": "agent",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "PYTHONPATH": PACKAGES,
    "PYTHONHASHSEED": "0",  # the same task must resolve in every arm
    "PYTHONDONTWRITEBYTECODE": "1",  # a fix of equal size within the second would meet the stale bytecode
}


class Runtime:
    """What is lent, staged below ``root``, which the sandbox's user can reach; bwrap's command line for it.

    After :meth:`stage`: ``etc`` is the folder that becomes ``/etc``; ``links`` are pairs of a link's text and its path;
    ``binds``, in order, are pairs of a folder here and where it lies, read-only, inside.
    """

    def __init__(self, root: Path, *, uid: int | None, packages: Path | None, limits: Limits) -> None:
        self._root = root
        self._uid = uid
        self._packages = packages
        self._limits = limits
        self.etc = root / "etc"
        self.links: tuple[tuple[str, str], ...] = ()
        self.binds: tuple[tuple[str, str], ...] = ()

    def stage(self) -> None:
        """Make the copies. Raises SandboxUnavailable."""
        try:
            self._stage()
        except (OSError, shutil.Error, subprocess.CalledProcessError) as error:
            raise SandboxUnavailable(f"cannot stage the sandbox's Python in {self._root}: {error}") from error

    def _stage(self) -> None:
        (self._root / "empty").mkdir()
        self._stage_etc()
        if self._packages is None:
            (self._root / "packages").mkdir()
        else:
            shutil.copytree(self._packages, self._root / "packages")
        python = self._stage_python()
        # Our umask may be 077, and the sandbox's user is another one when we are root.
        subprocess.run(["chmod", "-R", "a+rX", "--", *self._root.iterdir()], check=True, capture_output=True)
        folders, links = _system()
        hidden = self._hide(path for pattern in HOST_PACKAGES for path in Path("/usr").glob(pattern))
        program = str(Path(sys.base_prefix) / "bin" / PYTHON)
        self.links = (*links, (program, f"{HOME}/bin/python"), (program, f"{HOME}/bin/python3"))
        self.binds = (*folders, *hidden, *python, (str(self._root / "packages"), PACKAGES))

    def arguments(self, workspace: Path) -> tuple[str, ...]:
        """Everything between ``bwrap`` and the program, for one workspace."""
        tmp = self._limits.tmp_bytes
        return (
            *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"),
            *("--uid", "1000", "--gid", "1000", "--hostname", "swebench"),
            *("--ro-bind", str(self.etc), "/etc", "--size", str(tmp), "--tmpfs", TMP),
            *(part for text, path in self.links for part in ("--symlink", text, path)),
            *(part for source, target in self.binds for part in ("--ro-bind", source, target)),
            *("--dev", "/dev", "--size", str(tmp // 4), "--tmpfs", "/dev/shm"),  # noqa: S108 - inside
            *("--remount-ro", "/dev", "--proc", "/proc"),
            *("--bind", str(workspace), WORKSPACE, "--chdir", WORKSPACE, "--remount-ro", "/", "--clearenv"),
            *(part for name, value in ENVIRONMENT.items() for part in ("--setenv", name, value)),
        )

    def _stage_etc(self) -> None:
        etc = self.etc
        etc.mkdir()
        (etc / "passwd").write_text(f"agent:x:1000:1000::{TMP}:/bin/bash\n")
        (etc / "group").write_text("agent:x:1000:\n")
        (etc / "hosts").write_text("127.0.0.1 localhost swebench\n")
        if Path("/etc/alternatives").is_dir():  # awk, pager and editor are links through it
            shutil.copytree("/etc/alternatives", etc / "alternatives", symlinks=True)
        if Path("/etc/ld.so.cache").is_file():
            shutil.copy("/etc/ld.so.cache", etc)

    def _stage_python(self) -> tuple[tuple[str, str], ...]:
        prefix = Path(sys.base_prefix)
        program = prefix / "bin" / PYTHON
        if prefix.is_relative_to("/usr"):
            return ()
        if self._uid is None or _reachable(program):
            return ((str(prefix), str(prefix)), *self._hide(prefix.glob("lib/python3*/site-packages")))
        copy = self._root / "python"
        (copy / "bin").mkdir(parents=True)
        shutil.copy2(program, copy / "bin")
        unused = shutil.ignore_patterns(*UNUSED)
        shutil.copytree(prefix / "lib" / PYTHON, copy / "lib" / PYTHON, symlinks=True, ignore=unused)
        for library in (prefix / "lib").glob("*.so*"):
            shutil.copy2(library, copy / "lib", follow_symlinks=False)
        return ((str(copy), str(prefix)),)

    def _hide(self, folders: Iterable[Path]) -> tuple[tuple[str, str], ...]:
        return tuple((str(self._root / "empty"), str(folder)) for folder in folders)


def _system() -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """``/usr`` with the folders beside it, and the links where the host has links."""
    folders, links = [("/usr", "/usr")], []
    for name in BESIDE_USR:
        path = Path("/", name)
        if path.is_symlink():
            links.append((str(path.readlink()), str(path)))
        elif path.is_dir():
            folders.append((str(path), str(path)))
    return tuple(folders), tuple(links)


def _reachable(program: Path) -> bool:
    """Whether any user may run ``program``: every folder on the way lets others through."""
    program = program.resolve()
    return all(path.stat().st_mode & stat.S_IXOTH for path in (program, *program.parents))
