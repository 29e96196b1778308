"""A reader that says what you wrote."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from concur_agents.samples import EngineSample

__all__ = ["ScriptedReader"]


class ScriptedReader:
    """Reads what you wrote, in order: samples are returned, exceptions raised; then the last one again and again.

    Args:
        samples: at least nothing; with nothing, every reading is empty (all fields unknown).
    """

    def __init__(self, samples: Iterable[EngineSample | Exception] = ()) -> None:
        self._script = list(samples)
        self._lock = threading.Lock()
        self._next = 0
        self.reads = 0
        """Readings taken so far."""
        self.closed = False

    def add(self, *samples: EngineSample | Exception) -> None:
        """Append to the script: what is added is read next once the script so far is through."""
        with self._lock:
            self._script += samples

    def read(self, timeout: float) -> EngineSample:  # noqa: ARG002 - a reader's signature
        """The next line of the script."""
        with self._lock:
            line = self._script[min(self._next, len(self._script) - 1)] if self._script else EngineSample()
            self._next = min(self._next + 1, len(self._script))
            self.reads += 1
        if isinstance(line, Exception):
            raise line
        return line

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True
