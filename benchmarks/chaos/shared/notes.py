"""What a worker notes of its agents and of its link to the controller, and how that is read."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.chaos.clock import real_monotonic

__all__ = ["Notebook", "Try", "WorkerNotes", "read_notes"]

Try = tuple[str, int, int]
"""Agent, step and attempt."""

_LOST, _BACK = "cannot be asked", "is back"
"""What Concur says of its link."""


class Notebook:
    """Notes, a line each; may be written by any thread."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def of_agent(self, agent: str, what: str, **more: Any) -> None:
        """Something an agent did."""
        self._write({"agent": agent, "what": what, **more})

    def link_handler(self) -> logging.Handler:
        """Notes what Concur warns of."""
        notes = self

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                notes._write({"warning": record.getMessage()})

        return Handler(logging.WARNING)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stream.close()

    def _write(self, note: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(ValueError):  # it is closed: the process ends
            self._stream.write(json.dumps({"at_s": real_monotonic(), **note}) + "\n")


@dataclass(slots=True, kw_only=True)
class WorkerNotes:
    """One worker's notes."""

    granted: dict[Try, float] = field(default_factory=dict)
    """When the step was begun that each try is part of."""
    done: set[Try] = field(default_factory=set)
    """Tries that were answered."""
    twice: list[str] = field(default_factory=list)
    """Steps that were done more than once."""
    prompt_tokens: int = 0
    """Over all answered steps."""
    lost: list[float] = field(default_factory=list)
    """When it said that the controller is gone."""
    back: list[float] = field(default_factory=list)
    """When it took that back."""
    others: list[str] = field(default_factory=list)
    """What it warned of beside that."""
    muddled: bool = False
    """It said one of the two twice running."""

    def in_control(self, at_s: float) -> bool:
        """Whether the controller was there then, as far as the worker knew."""
        return not any(lost <= at_s < back for lost, back in self.gone())

    def gone(self) -> list[tuple[float, float]]:
        """From when to when it was not."""
        ends = [*self.back, *([math.inf] * (len(self.lost) - len(self.back)))]
        return list(zip(self.lost, ends, strict=False))


def read_notes(path: Path) -> WorkerNotes:
    """A worker's notes; one that never ran has none."""
    notes = WorkerNotes()
    steps: set[tuple[str, int]] = set()
    seated: dict[str, float] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            note = json.loads(line)
        except ValueError:
            continue  # the process was killed while it wrote its last one
        if "warning" in note:
            _link(notes, note["warning"], note["at_s"])
        elif note["what"] == "seated":
            seated[note["agent"]] = note["at_s"]
        elif note["what"] == "begun":
            notes.granted[note["agent"], note["step"], note["attempt"]] = seated[note["agent"]]
        elif note["what"] == "done":
            step = (note["agent"], note["step"])
            if step in steps:
                notes.twice.append(f"{note['agent']} step {note['step']}")
            steps.add(step)
            notes.done.add((*step, note["attempt"]))
            notes.prompt_tokens += note["prompt"]
    return notes


def _link(notes: WorkerNotes, warning: str, at_s: float) -> None:
    if _LOST in warning:
        notes.muddled |= len(notes.lost) > len(notes.back)
        notes.lost.append(at_s)
    elif _BACK in warning:
        notes.muddled |= len(notes.lost) <= len(notes.back)
        notes.back.append(at_s)
    else:
        notes.others.append(warning)
