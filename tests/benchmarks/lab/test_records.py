"""The file of records: nothing written is lost, nothing torn is read, and nobody else's file is touched."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.cells import Record
from benchmarks.lab.records import RecordError, RecordFile, read_records


def make(seed: int, makespan_s: float | None = 1.5, **more) -> Record:
    names = {"workload": "w", "engine": "e", "arm": "a", "agents": 2}
    return Record(concur="0.1", code="c", seed=seed, makespan_s=makespan_s, **names, **more)


def line(record: Record) -> bytes:
    return json.dumps(asdict(record)).encode() + b"\n"


def test_a_record_comes_back_as_it_was(tmp_path) -> None:
    path = tmp_path / "new" / "cells.jsonl"
    with RecordFile.open(path) as file:
        file.append(make(0, lower_bound_s=None, hit_rate=0.5, lost=0))
        file.append(make(1, None, error="ValueError: no"))
        assert len(read_records(path)) == 2, "it is in the file before the file is closed"
    assert read_records(path) == [make(0, hit_rate=0.5, lost=0), make(1, None, error="ValueError: no")]


def test_of_a_cell_that_is_there_twice_the_later_one_counts(tmp_path) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_bytes(line(make(0, 1.0)) + line(make(1, 2.0)) + line(make(0, 3.0)))
    assert [record.makespan_s for record in read_records(path)] == [2.0, 3.0]


@given(kept=st.integers(0, 3), cut=st.integers(0, 500))
def test_wherever_a_run_was_killed_whole_lines_stay_and_the_torn_one_goes(
    tmp_path_factory, kept: int, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "cells.jsonl"
    whole = b"".join(line(make(seed)) for seed in range(kept))
    torn = line(make(9))[:-1]
    path.write_bytes(whole + torn[: min(cut, len(torn))])
    assert len(read_records(path)) == kept
    with RecordFile.open(path) as file:
        assert len(file.records) == kept
        file.append(make(9))
    assert path.read_bytes() == whole + line(make(9))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"my notes", "last line is no record"),
        (b"my notes\n", "cells.jsonl:1: no record of the lab"),
        (line(make(0)) + b'{"format": 1}\n', "cells.jsonl:2: no record of the lab: concur: Field required"),
        (line(make(0)).replace(b'"format": 1', b'"format": 2'), "format must be 1, got 2"),
        (line(make(0)).replace(b'"lost": null', b'"lost": "none"'), "lost: Input should be a valid integer"),
        (b"\n", "cells.jsonl:1"),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, content: bytes, message: str) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=message), RecordFile.open(path):
        pass
    assert path.read_bytes() == content


def test_two_runs_cannot_write_one_file(tmp_path) -> None:
    path = tmp_path / "cells.jsonl"
    with RecordFile.open(path):
        with pytest.raises(RecordError, match="another run is writing"), RecordFile.open(path):
            pass
        assert read_records(path) == []
    with RecordFile.open(path):
        pass
