"""What a run leaves on disk: one JSON file per agent, and per arm a timeline and a closing note.

::

    RUN/run.json                       config, tasks, versions
    RUN/arms/fixed-8/1/agents/*.json   one record per agent, written when it ends (arm, repeat)
    RUN/arms/fixed-8/1/left/*.json     what the agent left in its workspace, for the tests to judge
    RUN/arms/fixed-8/1/tests/*.log     what the tests printed, where they were SWE-bench's own
    RUN/arms/fixed-8/1/timeline.jsonl  one line per sample while the arm runs
    RUN/arms/fixed-8/1/arm.json        written when the arm is over; missing when it was interrupted
    RUN/summary.json  report.html  pictures/*.png   made from the above, again at any time by ``report``

Each file is whole or absent (written beside, then renamed), except the timeline, whose last line may be torn.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from pydantic import TypeAdapter, ValidationError

from benchmarks.swebench.entries import AgentRecord, StepRecord, TimelinePoint

__all__ = [
    "AgentRecord",
    "ArmFolder",
    "RecordError",
    "RunFolder",
    "StepRecord",
    "TimelinePoint",
    "append_point",
    "as_file_name",
    "read_json",
    "write_json",
]


class RecordError(Exception):
    """A run folder, or a file in it, is not what a run writes. The message names the path."""


_AGENT = TypeAdapter(AgentRecord)
_POINT = TypeAdapter(TimelinePoint)
_LEFT = TypeAdapter(dict[str, str | None])


@dataclass(frozen=True, slots=True)
class ArmFolder:
    """One arm in one repeat."""

    path: Path

    def create(self) -> None:
        """Make the folder."""
        for name in ("agents", "left"):
            (self.path / name).mkdir(parents=True)

    def write_agent(self, record: AgentRecord) -> None:
        """Write one agent's record, whole or not at all."""
        write_json(self.path / "agents" / f"{record.agent_id}.json", asdict(record))

    def forget_agent(self, agent_id: str) -> None:
        """Remove an agent's record, so that it runs again."""
        (self.path / "agents" / f"{agent_id}.json").unlink(missing_ok=True)

    def agents(self) -> tuple[AgentRecord, ...]:
        """Every record written so far, by agent id. Raises RecordError for a file that is none."""
        found = []
        for path in sorted((self.path / "agents").glob("*.json")):
            try:
                found.append(_AGENT.validate_json(path.read_bytes()))
            except (OSError, ValidationError) as error:
                raise RecordError(f"{path}: {error}") from None
        return tuple(found)

    def write_left(self, agent_id: str, changes: Mapping[str, bytes | None]) -> None:
        """Keep what an agent left, so that it can be judged whatever happens: contents by path, None where gone."""
        text = {path: None if data is None else base64.b64encode(data).decode() for path, data in changes.items()}
        write_json(self.path / "left" / f"{agent_id}.json", text)

    def left(self, agent_id: str) -> dict[str, bytes | None] | None:
        """What :meth:`write_left` kept; None where nothing was. Raises RecordError for a file that is none."""
        path = self.path / "left" / f"{agent_id}.json"
        if not path.exists():
            return None
        try:
            text = _LEFT.validate_json(path.read_bytes())
            return {name: None if data is None else base64.b64decode(data) for name, data in text.items()}
        except (OSError, ValueError) as error:
            raise RecordError(f"{path}: {error}") from None

    def write_log(self, agent_id: str, text: str) -> None:
        """Keep what an agent's tests printed. Raises RecordError when it cannot be written."""
        path = self.path / "tests" / f"{agent_id}.log"
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise RecordError(f"cannot make {path.parent}: {error.strerror or error}") from error
        _write(path, text)

    def elapsed_s(self) -> float:
        """Seconds of its clock that what is recorded reaches to; 0 when nothing is."""
        return max([0.0, *(point.at_s for point in self.timeline()), *(record.ended_s for record in self.agents())])

    def remove(self) -> None:
        """Remove all of it, if it is there."""
        if self.path.exists():
            shutil.rmtree(self.path)

    def open_timeline(self) -> TextIO:
        """For :meth:`append_point`; line-buffered, so that a killed run leaves what it saw."""
        return (self.path / "timeline.jsonl").open("a", buffering=1, encoding="utf-8")

    def timeline(self) -> tuple[TimelinePoint, ...]:
        """The samples; a torn last line is left out."""
        path = self.path / "timeline.jsonl"
        return tuple(_points(path)) if path.exists() else ()

    def write_closing(self, closing: Mapping[str, Any]) -> None:
        """Note that the arm is over, with what only its end knows."""
        write_json(self.path / "arm.json", closing)

    def closing(self) -> dict[str, Any] | None:
        """What :meth:`write_closing` noted, or None when the arm did not get to its end."""
        path = self.path / "arm.json"
        return read_json(path) if path.exists() else None


def append_point(stream: TextIO, point: TimelinePoint) -> None:
    """Write one sample as one line. Raises RecordError when it cannot be written."""
    try:
        stream.write(json.dumps(asdict(point)) + "\n")
    except OSError as error:
        raise RecordError(f"cannot write {stream.name}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run. Raises RecordError when it is none."""
        if not (path / "run.json").is_file():
            raise RecordError(f"{path} is no run folder: it has no run.json")
        return cls(path)

    @classmethod
    def create(cls, path: Path, about: Mapping[str, Any]) -> RunFolder:
        """A new run. Raises RecordError when ``path`` holds something already, or cannot be made."""
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise RecordError(f"{path} exists and is not empty: choose another --out")
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"cannot make {path}: {error.strerror or error}") from error
        write_json(path / "run.json", about)
        return cls(path)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from running into the same folder. Raises RecordError while one does."""
        with (self.path / "lock").open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RecordError(f"{self.path} is being run by another process") from None
            yield

    def is_empty(self) -> bool:
        """Whether no agent has ended, nor begun and been ended."""
        return next(self.path.glob("arms/*/*/agents/*.json"), None) is None

    def about(self) -> dict[str, Any]:
        """What :meth:`create` wrote."""
        return read_json(self.path / "run.json")

    def arm(self, name: str, repeat: int) -> ArmFolder:
        """The folder of an arm's ``repeat``-th run, counted from 1; it need not exist yet."""
        return ArmFolder(self.path / "arms" / as_file_name(name) / str(repeat))


def as_file_name(name: str) -> str:
    """An arm's name as a file name: ``fixed:8`` is ``fixed-8``."""
    return "".join(char if char.isalnum() or char in "._=" else "-" for char in name)


def _points(path: Path) -> Iterator[TimelinePoint]:
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            yield _POINT.validate_json(line)
        except ValidationError as error:
            if number == len(lines):
                return  # the run was killed while it wrote this line
            raise RecordError(f"{path}:{number}: {error}") from None


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write ``data`` to ``path``, whole or not at all. Refuses NaN and infinity, which are no JSON.

    Raises:
        RecordError: it cannot be written, the disk is full for one.
    """
    _write(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)  # noqa: PTH105  # the atomic one, by its usual name
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises RecordError that names ``path``."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: {error}") from None
    if not isinstance(data, dict):
        raise RecordError(f"{path}: a JSON object was expected, not {type(data).__name__}")
    return data
