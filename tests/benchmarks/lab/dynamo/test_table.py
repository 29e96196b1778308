"""The table in the README, and the command that makes it."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from benchmarks.lab.dynamo import cli, install
from benchmarks.lab.dynamo.grid import GROUPS
from benchmarks.lab.dynamo.table import filled, markdown

CELL = {
    "engine": "e",
    "workload": "w",
    "agents": 8,
    "pool_tokens": 50_000,
    "cap": 4,
    "chunk": 1 << 20,
    "makespan_s": 104.0,
    "hit_rate": 0.5,
    "dynamo_makespan_s": 100.0,
    "dynamo_hit_rate": 0.6,
}
RULED = {**CELL, "makespan_s": 94.0, "with_dynamos_rules_makespan_s": 99.0, "with_dynamos_rules_hit_rate": 0.61}
UNSHARED = {**CELL, "shared": False}
RECORD = {
    "versions": {"ai-dynamo": "1"},
    "cells": [CELL, RULED],
    "chunked": [{**CELL, "chunk": 8192}],
    "unshared": [UNSHARED],
}


def test_the_table_says_who_is_within_five_per_cent() -> None:
    text = markdown(RECORD)
    assert "| e | 2 | 1 | 5.00% | 6.0% | 4.0% |" in text
    assert "| e | w | 8 | 50k | 4 | 94.0 | 100.0 | 0.940 | 0.500 | 0.600 | 0.990 | 0.610 |" in text
    assert "| w | 4 | own | 104.0 | 100.0 | 1.0400 |" in text
    assert "| w | 8192 | 104.0 | 100.0 | 0.500 | 0.600 |" in text


def test_only_what_is_between_the_marks_is_made_anew() -> None:
    page = "before\n<!-- results:lab_dynamo -->\nold\n<!-- /results:lab_dynamo -->\nafter\n"
    new = filled(page, RECORD)
    assert "old" not in new
    assert new.startswith("before\n")
    assert new.endswith("after\n")
    assert filled(new, RECORD) == new


def test_the_readme_shows_the_kept_record() -> None:
    record = json.loads(cli.RESULTS.read_text(encoding="utf-8"))
    page = cli.README.read_text(encoding="utf-8")
    assert filled(page, record) == page
    assert record["versions"]["ai-dynamo"] == install.versions()["ai-dynamo"]
    assert {name: len(record[name]) for name in GROUPS} == {name: len(cells) for name, cells in GROUPS.items()}


def test_the_record_is_written_with_a_cell_a_line() -> None:
    text = cli.dumps(RECORD)
    assert json.loads(text) == RECORD
    assert len(text.splitlines()) == 13


def test_without_dynamo_the_command_says_how_to_get_it(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.app, ["compare", "--json", "out.json"])
    assert result.exit_code == 2
    assert "dynamo install" in result.stderr
    assert not (tmp_path / "out.json").exists()
