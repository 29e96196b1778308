"""The benchmark of a shared controller, small."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.remote.cli import app, markdown
from benchmarks.remote.measure import Load


def test_it_measures_every_load_and_its_table_is_made_of_the_record(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    result = CliRunner().invoke(
        app, ["--agents", "6", "--processes", "2", "--pause", "0.02", "--seconds", "1", "--json", str(file)]
    )
    assert result.exit_code == 0, result.output
    record = json.loads(file.read_text())
    assert [(row["agents"], row["processes"]) for row in record["rows"]] == [(1, 1), (6, 2)]
    assert all(row["steps"] > 1 and 0 < row["p50_ms"] <= row["p99_ms"] for row in record["rows"])
    assert markdown(record).count("\n|") == 3


def test_agents_are_spread_over_the_processes() -> None:
    assert Load(10, 3, 1).shares() == [4, 3, 3]
    assert Load(2, 5, 1).shares() == [1, 1]
