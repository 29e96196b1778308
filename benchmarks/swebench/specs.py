"""The task list: one TOML file per task in ``task_specs/``, and the packages that their tests need."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.swebench.fetch import Archive

__all__ = ["PACKAGES_FILE", "SPECS", "SpecError", "TaskSpec", "read_packages", "read_specs"]

SPECS = Path(__file__).with_name("task_specs")
PACKAGES_FILE = "packages.toml"
KEYS = {"project", "buggy", "fixed", "tests", "leave_out", "sources", "test_command", "problem"}


class SpecError(ValueError):
    """A spec file is not as ``task_specs/README.md`` says. The message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """How to build one task; the keys of its file."""

    task_id: str
    project: str
    buggy: Archive
    fixed: Archive
    tests: tuple[str, ...]
    leave_out: tuple[str, ...]
    sources: tuple[str, ...]
    test_command: str
    problem: str


def read_specs(folder: Path = SPECS) -> tuple[TaskSpec, ...]:
    """All tasks, by id.

    Raises:
        SpecError: a file is malformed, or there is none.
    """
    paths = sorted(path for path in folder.glob("*.toml") if path.name != PACKAGES_FILE)
    if not paths:
        raise SpecError(f"no task specs in {folder}")
    return tuple(_spec(path) for path in paths)


def read_packages(folder: Path = SPECS) -> tuple[Archive, ...]:
    """The wheels that the sandbox's Python can import.

    Raises:
        SpecError: the file is missing or malformed.
    """
    path = folder / PACKAGES_FILE
    data = _load(path)
    try:
        return tuple(_archive(row["project"], row) for row in data["wheels"])
    except (KeyError, TypeError) as error:
        raise SpecError(f"{path}: each of [[wheels]] has project, filename and sha256 ({error!r})") from error


def _spec(path: Path) -> TaskSpec:
    data = {"leave_out": [], **_load(path)}
    if odd := KEYS.symmetric_difference(data):
        raise SpecError(f"{path}: missing or unknown keys: {', '.join(sorted(odd))}")
    try:
        return TaskSpec(
            task_id=path.stem,
            project=data["project"],
            buggy=_archive(data["project"], data["buggy"]),
            fixed=_archive(data["project"], data["fixed"]),
            tests=tuple(data["tests"]),
            leave_out=tuple(data["leave_out"]),
            sources=tuple(data["sources"]),
            test_command=data["test_command"],
            problem=data["problem"].strip() + "\n",
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"{path}: {error!r}") from error


def _archive(project: str, data: Mapping[str, Any]) -> Archive:
    return Archive(project=project, filename=data["filename"], sha256=data["sha256"])


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{path}: {error}") from error
