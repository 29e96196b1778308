"""A controller's events in a file, one JSON object a line. A disk that is full or slow never holds up an agent."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from concur_agents.events import AgentEvent, Event, EventStream, ProblemEvent

__all__ = ["MAX_BYTES", "EventLog"]

_log = logging.getLogger("concur_agents")

MAX_BYTES = 2**30
"""Where the file stops growing: some million events."""


class EventLog:
    """Appends events to a file, from a thread of its own. Several processes may share the file: each line has its pid.

    Each line is one write, so nothing is lost when the process is killed. When a write fails, that is told once, and
    the line is lost; the next one is tried again.

    Args:
        path: of the file; made when the first event comes, and its folders too.
        limit: bytes at which the file is full.
    """

    def __init__(self, path: str | os.PathLike[str], *, limit: int = MAX_BYTES) -> None:
        self._path = Path(path).expanduser()
        self._limit = limit
        self._file: int | None = None
        self._torn = False
        """The last write left half a line."""
        self._warned = False
        self._thread: threading.Thread | None = None

    def start(self, stream: EventStream) -> None:
        """Begin to write what comes; ends with the stream."""
        self._thread = threading.Thread(target=self._run, args=(stream,), name="concur-events", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait until everything is written, at most ``timeout`` seconds. The stream must be closed."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self, stream: EventStream) -> None:
        try:
            for line in _lines(stream):
                if not self._write(line):
                    stream.close()
                    break
        finally:
            if self._file is not None:
                os.close(self._file)

    def _write(self, line: bytes) -> bool:
        """Append a line; False when the file is full."""
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            if os.fstat(self._file).st_size + len(line) > self._limit:
                _log.warning("events are no longer written: %s has reached %d bytes", self._path, self._limit)
                return False
            whole = b"\n" + line if self._torn else line
            self._torn = os.write(self._file, whole) < len(whole)
        except (OSError, ValueError) as error:  # ValueError: no file can have this name
            if not self._warned:
                self._warned = True
                _log.warning("events cannot be written to %s: %s (agents go on)", self._path, error)
        return True


def _lines(stream: EventStream) -> Iterator[bytes]:
    dropped = 0
    for event in stream:
        if stream.dropped > dropped:
            yield _line({"event": "dropped", "count": stream.dropped - dropped})
            dropped = stream.dropped
        yield _line(_record(event))


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps({**record, "pid": os.getpid()}, allow_nan=False).encode() + b"\n"


def _record(event: Event) -> dict[str, Any]:
    kind = "agent" if isinstance(event, AgentEvent) else "problem" if isinstance(event, ProblemEvent) else "window"
    return {"event": kind, **_plain(event)}


def _plain(value: Any) -> Any:
    """JSON has no infinity: an infinite window is ``"unlimited"``, as in a configuration; other such are unknown."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "unlimited" if value == math.inf else None
    return value
