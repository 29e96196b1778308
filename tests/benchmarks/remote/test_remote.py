"""The benchmark of a shared controller, small."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.remote.batch import app as batch
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


def test_agents_of_several_processes_share_one_window_and_all_end(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    options = ["--agents", "6", "--processes", "2", "--steps", "2", "--window", "2", "--frameworks", "langgraph"]
    result = CliRunner().invoke(batch, [*options, "--json", str(file)])
    assert result.exit_code == 0, result.output
    record = json.loads(file.read_text())
    assert record["ended"] == {"completed": 6}
    assert 1 <= record["most_seated"] <= 2


def test_a_framework_that_is_not_known_is_named() -> None:
    result = CliRunner().invoke(batch, ["--frameworks", "langgraph,mine"])
    assert result.exit_code == 2
    assert "mine" in result.output
