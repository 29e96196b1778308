"""The file of figures is gone on with, and never mistaken for another."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.lab.cells import Cell, failed
from benchmarks.lab.paper.cells import run_paper_cell
from benchmarks.lab.paper.store import Store, StoreError
from benchmarks.lab.paper.trace import run_trace

CELL = Cell(workload="paper-2", engine="qwen3-32b-tp8", arm="budget", seed=0, agents=2)


def test_what_is_added_is_read_again(tmp_path) -> None:
    path = tmp_path / "figures.json"
    record, trace = run_paper_cell(CELL, "c0de"), run_trace(CELL, "c0de", bins=4)
    with Store.open(path) as store:
        store.add(record)
        store.add(trace)
    again = Store(path)
    assert again.records == {CELL.key: record}
    assert list(again.traces[CELL.key].hit_rate) == list(trace.hit_rate)
    assert again.done(CELL)
    assert [file.name for file in tmp_path.iterdir()] == ["figures.json"]


def test_a_cell_that_failed_is_kept_and_not_done(tmp_path) -> None:
    with Store.open(tmp_path / "figures.json") as store:
        store.add(failed(CELL, "c0de", "ValueError: no"))
    again = Store(tmp_path / "figures.json")
    assert again.records[CELL.key].error == "ValueError: no"
    assert not again.done(CELL)


@pytest.mark.parametrize(
    ("arm", "left"), [("budget", 2), ("concur", 1), ("concur:u_low=0.1", 2), ("all", 0), ("no", 3)]
)
def test_an_arm_is_forgotten_under_any_argument(tmp_path, arm, left) -> None:
    with Store.open(tmp_path / "figures.json") as store:
        for name in ("budget", "concur", "concur:u_low=0.1"):
            store.add(failed(replace(CELL, arm=name), "c0de", "not run"))
        assert store.forget(arm) == 3 - left
    assert len(Store(tmp_path / "figures.json").records) == left


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": 2, "cells": [], "traces": []}', '{"format": 1, "cells": [{"arm": 1}], "traces": []}'],
)
def test_another_file_is_refused_and_left_as_it_is(tmp_path, content) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(StoreError, match=r"other\.json: not a file of the paper's figures"), Store.open(path):
        pass
    assert path.read_text() == content


def test_two_runs_cannot_write_one_file(tmp_path) -> None:
    with Store.open(tmp_path / "a.json"):
        with pytest.raises(StoreError, match="another run"), Store.open(tmp_path / "a.json"):
            pass
        Store(tmp_path / "a.json")
    with Store.open(tmp_path / "a.json"):
        pass


def test_a_cell_is_a_line_without_what_is_unknown(tmp_path) -> None:
    with Store.open(tmp_path / "figures.json") as store:
        store.add(run_paper_cell(CELL, "c0de"))
    lines = (tmp_path / "figures.json").read_text().splitlines()
    line = json.loads(next(line for line in lines if "budget" in line).rstrip(","))
    assert "lower_bound_s" not in line
    assert line["makespan_s"] > 0
