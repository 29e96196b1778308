"""An image of some kilobytes on which the host's ``/usr`` and Python are mounted: nothing to pull or build."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from benchmarks.swebench.sandbox.client import Client
from benchmarks.swebench.sandbox.runtime import TMP, WORKSPACE, Runtime

__all__ = ["import_host_image"]

NAME = "localhost/concur-swebench-host"
MOUNTED = ("/dev", "/proc", "/sys", TMP, WORKSPACE)


def import_host_image(client: Client, runtime: Runtime) -> str:
    """Its name; imported unless it is there already. Raises SandboxError."""
    archive = _archive(runtime)
    name = f"{NAME}:{hashlib.sha256(archive).hexdigest()[:16]}"
    if not client.has_image(name):
        client.call("import", "-", name, given=archive)
    return name


def _archive(runtime: Runtime) -> bytes:
    """``/etc``, links and the folders to mount on, always the same bytes for the same host."""
    buffer = io.BytesIO()
    made: set[Path] = set()
    with tarfile.open(fileobj=buffer, mode="w") as archive:

        def folder(path: Path) -> None:
            if path.name and path not in made:
                folder(path.parent)
                made.add(path)
                entry = _entry(path, tarfile.DIRTYPE)
                entry.mode = 0o1777 if str(path) == TMP else 0o755  # which a tmpfs there gets, too
                archive.addfile(entry)

        for target in (*MOUNTED, *(target for _, target in runtime.binds)):
            if not target.startswith("/usr/"):  # those are on the host's /usr
                folder(Path(target))
        for text, path in runtime.links:
            folder(Path(path).parent)
            archive.addfile(_entry(Path(path), tarfile.SYMTYPE, text))
        for found in sorted(runtime.etc.rglob("*")):
            inside = Path("/etc") / found.relative_to(runtime.etc)
            folder(inside.parent)
            if found.is_symlink():
                archive.addfile(_entry(inside, tarfile.SYMTYPE, str(found.readlink())))
            elif found.is_file():
                content = found.read_bytes()
                entry = _entry(inside, tarfile.REGTYPE)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _entry(path: Path, kind: bytes, text: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(str(path).lstrip("/"))
    entry.type = kind
    entry.mode = 0o644
    entry.linkname = text
    return entry
