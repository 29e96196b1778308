"""The file of figures: one JSON object, written anew after each cell, and gone on with where it stopped."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from benchmarks.lab.cells import Cell, Key, Record
from benchmarks.lab.paper.trace import Trace

__all__ = ["FORMAT", "Store", "StoreError"]

FORMAT = 1
_RECORDS = TypeAdapter(list[Record])
_TRACES = TypeAdapter(list[Trace])


class StoreError(ValueError):
    """A file is not what this writes. The message names the path."""


class Store:
    """Cells and traces that have been run.

    Args:
        path: the file; need not be there yet.

    Raises:
        StoreError: it holds something else, and is left as it is.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[Key, Record] = {}
        self.traces: dict[Key, Trace] = {}
        if not path.exists():
            return
        try:
            data: Any = json.loads(path.read_bytes())
            if not isinstance(data, dict) or data.get("format") != FORMAT:
                raise ValueError(f"it must be an object with format {FORMAT}")
            cells, traces = (json.dumps(data[name]) for name in ("cells", "traces"))
            self.records = {record.key: record for record in _RECORDS.validate_json(cells)}
            self.traces = {trace.key: trace for trace in _TRACES.validate_json(traces)}
        except (ValueError, KeyError) as error:
            raise StoreError(f"{path}: not a file of the paper's figures: {_short(error)}") from None

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Store]:
        """The same, to be added to: nobody else writes into its folder's files at the same time.

        Raises:
            StoreError: as above; or another run is writing there.
            OSError: as above.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)  # the file itself is replaced each time: its lock would go with it
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"{path}: another run is writing in this folder") from None
            yield cls(path)
        finally:
            os.close(folder)

    @property
    def wall_s(self) -> float:
        """Processor seconds that its cells took."""
        return sum(record.wall_s or 0.0 for record in self.records.values())

    def done(self, cell: Cell) -> bool:
        """Whether a cell has come to its end."""
        record = self.records.get(cell.key)
        return record is not None and record.error is None

    def add(self, what: Record | Trace) -> None:
        """Keep one more."""
        if isinstance(what, Record):
            self.records[what.key] = what
        else:
            self.traces[what.key] = what
        self._write()

    def forget(self, arm: str) -> int:
        """Drop an arm's cells, under any argument, so that they run again; ``all`` drops everything. How many."""
        dropped = 0
        for kept in (self.records, self.traces):
            for key in [key for key in kept if arm in ("all", key[2], key[2].partition(":")[0])]:
                del kept[key]
                dropped += 1
        if dropped:
            self._write()
        return dropped

    def _write(self) -> None:
        cells = [
            {name: value for name, value in asdict(record).items() if value is not None}
            for record in self.records.values()
        ]
        parts = (("cells", cells), ("traces", [asdict(trace) for trace in self.traces.values()]))
        body = ",\n".join(f' "{name}": [{",".join(map(_line, items))}\n ]' for name, items in parts)
        new = self.path.with_name(f".{self.path.name}.new")
        new.write_text(f'{{\n "format": {FORMAT},\n{body}\n}}\n', encoding="utf-8")
        new.replace(self.path)


def _line(item: dict[str, Any]) -> str:
    return f"\n  {json.dumps(item, separators=(',', ':'), allow_nan=False)}"


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"no {error}" if isinstance(error, KeyError) else str(error)
