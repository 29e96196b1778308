"""The file of records: one JSON object a line, written as each cell ends, and gone on with where it stopped."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from benchmarks.lab.cells import FORMAT, Key, Record

__all__ = ["RecordError", "RecordFile", "read_records"]

_RECORD = TypeAdapter(Record)
_BEGINS = b'{"format": '


class RecordError(ValueError):
    """A file is not what the lab writes, or not what may be gone on with. The message names the path."""


def read_records(path: Path) -> list[Record]:
    """All cells in a file, in its order. Of a cell that is there twice the later one counts. A torn end is left out.

    Raises:
        RecordError: a line is no record.
        OSError: the file cannot be read.
    """
    return list(_parse(path, path.read_bytes())[0].values())


class RecordFile:
    """A file of records that is being added to; nobody else can add to it at the same time."""

    def __init__(self, path: Path, stream: BinaryIO, records: dict[Key, Record]) -> None:
        self.path = path
        self.records = records
        self._stream = stream

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[RecordFile]:
        """Open or begin a file. What a killed run left of its last line is cut off.

        Raises:
            RecordError: it holds something else, which is left as it is; or another run is writing it.
            OSError: it cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system lets go of it however we end
            except BlockingIOError:
                raise RecordError(f"{path}: another run is writing this file") from None
            stream.seek(0)
            records, whole = _parse(path, stream.read())
            stream.truncate(whole)
            yield cls(path, stream, records)

    def append(self, record: Record) -> None:
        """Write one record, so that it outlives this process."""
        line = json.dumps(asdict(record), allow_nan=False) + "\n"
        self._stream.seek(0, os.SEEK_END)
        self._stream.write(line.encode())
        self._stream.flush()
        self.records[record.key] = record


def _parse(path: Path, data: bytes) -> tuple[dict[Key, Record], int]:
    """The records, and how many bytes of whole lines there are."""
    whole = data.rfind(b"\n") + 1
    torn = data[whole:]
    if not (torn.startswith(_BEGINS) or _BEGINS.startswith(torn)):
        raise RecordError(f"{path}: its last line is no record of the lab; the file is left as it is")
    records: dict[Key, Record] = {}
    for number, line in enumerate(data[:whole].splitlines(), 1):
        record = _record(path, number, line)
        records.pop(record.key, None)  # the later one also takes the later place
        records[record.key] = record
    return records, whole


def _record(path: Path, number: int, line: bytes) -> Record:
    try:
        record = _RECORD.validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordError(
            f"{path}:{number}: no record of the lab: {place + ': ' if place else ''}{first['msg']}"
        ) from None
    if record.format != FORMAT:
        raise RecordError(f"{path}:{number}: format must be {FORMAT}, got {record.format}: write another file")
    return record
