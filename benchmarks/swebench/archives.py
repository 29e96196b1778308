"""Reads source archives and wheels as plain files; nothing of them is ever run outside a sandbox."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

__all__ = ["below", "read_sdist", "read_wheel", "write_files"]


def read_sdist(path: Path) -> dict[str, bytes]:
    """The regular files of a source archive (.tar.gz), by path without the archive's top folder.

    Left out are links (none of the tasks needs one, and so none can point anywhere) and bytecode that was packed along.
    """
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = member.name.removeprefix("./").partition("/")[2]
            if member.isfile() and name and not name.endswith(".pyc") and (stream := archive.extractfile(member)):
                found[name] = stream.read()
    return found


def read_wheel(path: Path) -> dict[str, bytes]:
    """The files of a wheel, by path."""
    with zipfile.ZipFile(path) as archive:
        return {item.filename: archive.read(item) for item in archive.infolist() if not item.is_dir()}


def below(files: Mapping[str, bytes], roots: Iterable[str]) -> dict[str, bytes]:
    """Those files that are one of ``roots`` or in one of them."""
    return {
        name: data for name, data in files.items() if any(PurePosixPath(name).is_relative_to(root) for root in roots)
    }


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files below ``folder``.

    Raises:
        ValueError: a path would lead outside.
    """
    for name, data in files.items():
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise ValueError(f"the archive has a path that leads outside: {name!r}")
        target = folder / parts
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
