"""Bounds are computed anew, and nothing else of a file changes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from typer.testing import CliRunner

from benchmarks.lab.cells import Cell, run_cell
from benchmarks.lab.rebound import app, rebound
from benchmarks.lab.records import read_records


@pytest.fixture(scope="module")
def record():
    return run_cell(Cell(workload="busy-host", engine="qwen3-32b-tp2", arm="uncontrolled", seed=0, agents=6), "c0de")


def test_an_old_bound_gives_way_and_a_users_recording_keeps_its_own(record) -> None:
    old, recorded = replace(record, lower_bound_s=1.0), replace(record, lower_bound_s=1.0, trace="abc")
    unknown = replace(record, lower_bound_s=None)
    assert rebound([old, recorded, unknown]) == [record, recorded, unknown]


def test_a_file_is_written_anew_with_its_other_figures_as_they_were(record, tmp_path) -> None:
    file = tmp_path / "lab.jsonl"
    records = [record, replace(record, arm="fixed:2", lower_bound_s=1.0)]
    file.write_text("".join(json.dumps(asdict(each)) + "\n" for each in records))
    result = CliRunner().invoke(app, [str(file)])
    assert result.output == "1 of 2 cells have another bound\n"
    assert read_records(file) == [record, replace(record, arm="fixed:2")]
    assert CliRunner().invoke(app, [str(file)]).output == "0 of 2 cells have another bound\n"
