"""Recorded sessions out of files, with errors that say where."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from benchmarks.recorded import Recorded, from_messages, from_steps, opening

__all__ = ["TraceError", "read_sessions"]

T = TypeVar("T")
GZIP = b"\x1f\x8b"
SUFFIXES = (".traj.json", ".jsonl", ".jsonl.gz", ".traj.json.gz")
"""What is looked for in a folder."""


class TraceError(ValueError):
    """A recording cannot be read. The message names the file, the line where there are lines, and the field."""


def read_sessions(path: Path) -> list[Recorded]:
    """All sessions of a file or a folder, in the order of their names and lines.

    Sessions given by messages share what the first requests of all of them begin with, word for word.

    Raises:
        TraceError: see there.
    """
    sessions: list[Recorded] = []
    openings: dict[int, str] = {}
    for file in _files(path):
        for where, data in _documents(file):
            if "messages" in data:
                openings[len(sessions)] = _checked(opening, where, data)
            sessions.append(_checked(from_messages if "messages" in data else from_steps, where, data))
    shared = _common(openings.values()) if len(openings) > 1 else 0
    for number, text in openings.items():
        session = sessions[number]
        if session.steps:
            share = shared / max(1, len(text))
            sessions[number] = replace(session, prefix_tokens=int(share * session.steps[0].prompt))
    return sessions


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file())
    if not found:
        raise TraceError(f"{path}: the folder has no file that ends in {', '.join(SUFFIXES)}")
    return found


def _documents(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    text = _read(file)
    if file.name.removesuffix(".gz").endswith(".traj.json"):
        yield str(file), _json(text, str(file))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{file}:{number}", _json(line, f"{file}:{number}")


def _read(file: Path) -> str:
    try:
        content = file.read_bytes()
        if content.startswith(GZIP):
            content = gzip.decompress(content)
        return content.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TraceError(f"{file}: cannot be read: {error}") from error


def _json(text: str, where: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise TraceError(f"{where}: must be an object, is {type(data).__name__}")
    if "steps" not in data and "messages" not in data:
        raise TraceError(f"{where}: has neither 'steps' nor 'messages'")
    return data


def _checked(read: Callable[[Mapping[str, Any]], T], where: str, data: Mapping[str, Any]) -> T:
    try:
        return read(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        got = "" if first["type"] == "missing" else f", got {repr(first['input'])[:60]}"
        raise TraceError(f"{where}: {field}: {first['msg']}{got}") from error


def _common(texts: Collection[str]) -> int:
    first, last = min(texts), max(texts)  # what these two begin with, all between them do
    return next((at for at, (left, right) in enumerate(zip(first, last, strict=False)) if left != right), len(first))
