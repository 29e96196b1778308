"""The command: it runs what is missing, shows all, and the page is what the record says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.lab import cli as lab
from benchmarks.lab.paper import cli, run
from benchmarks.lab.paper.page import filled
from benchmarks.lab.paper.plan import FULL, SMALL
from benchmarks.lab.paper.store import Store
from benchmarks.lab.paper.summary import Summary

PAGE = Path(__file__).parents[4] / "docs" / "lab" / "paper.md"
MARKED = "before\n<!-- results:lab_paper -->\nold\n<!-- /results:lab_paper -->\nafter\n"


def invoke(folder: Path, *arguments: str):
    where = ["--json", str(folder / "f.json"), "--figures", str(folder), "--processes", "1"]
    return CliRunner().invoke(cli.app, ["--small", *where, *arguments])


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("done")
    assert invoke(folder).exit_code == 0
    return folder


@pytest.fixture
def no_pictures(monkeypatch) -> None:
    monkeypatch.setattr(cli, "draw", lambda summary, folder: [])


@pytest.fixture
def copy(done, tmp_path) -> Path:
    shutil.copy(done / "f.json", tmp_path / "f.json")
    return tmp_path


def test_it_prints_every_table_and_draws_every_figure(copy) -> None:
    result = invoke(copy, "--no-run")
    assert result.exit_code == 0
    for title in ("Table 1", "Table 2", "Table 3", "Figure 3", "Figure 5", "Figure 6", "Request caps", "Other lengths"):
        assert title in result.output
    assert "figures mean nothing" in result.output
    assert "?" not in result.output.split("Figure 3")[0]  # every cell of the paper's tables is there
    for name in ("figure-3.png", "figure-5.png", "figure-6.png"):
        assert (copy / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("no_pictures")
def test_a_finished_file_runs_nothing(copy, monkeypatch) -> None:
    monkeypatch.setattr(run, "run_paper_cell", lambda cell, code: pytest.fail("ran a cell"))
    before = (copy / "f.json").read_bytes()
    assert invoke(copy).exit_code == 0
    assert (copy / "f.json").read_bytes() == before


@pytest.mark.usefixtures("no_pictures")
def test_redo_runs_one_arm_again_and_no_other(copy) -> None:
    before = json.loads((copy / "f.json").read_text())
    result = invoke(copy, "--redo", "budget")
    again = sum(cell.arm == "budget" for cell in SMALL.cells())
    assert f"{again} cells to run" in result.stderr
    assert f"{again}/{again}" in result.stderr
    after = json.loads((copy / "f.json").read_text())
    kept = [cell for cell in before["cells"] if cell["arm"] != "budget"]
    assert after["cells"][: len(kept)] == kept
    assert len(after["cells"]) == len(before["cells"])


@pytest.mark.usefixtures("no_pictures")
def test_redo_of_an_arm_that_is_not_there_says_so(copy) -> None:
    assert "no cell of 'bugdet'" in invoke(copy, "--redo", "bugdet").stderr


def test_an_interrupted_run_keeps_its_cells(tmp_path, monkeypatch) -> None:
    real, ran = run.run_paper_cell, []

    def interrupted(cell, code):
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(cell)
        return real(cell, code)

    monkeypatch.setattr(run, "run_paper_cell", interrupted)
    assert invoke(tmp_path).exit_code == 130
    assert list(Store(tmp_path / "f.json").records) == [cell.key for cell in ran]


@pytest.mark.usefixtures("no_pictures")
def test_a_failed_cell_is_named_and_the_others_go_on(tmp_path, monkeypatch) -> None:
    def broken(cell, code):
        raise RuntimeError("no engine")

    monkeypatch.setattr(run, "run_paper_cell", broken)
    result = invoke(tmp_path)
    assert result.exit_code == 1
    assert f"{len(SMALL.cells())} cells failed" in result.output
    assert "RuntimeError: no engine" in result.output
    assert "?" in result.output


def test_what_is_wrong_is_said_in_a_line(tmp_path) -> None:
    (tmp_path / "f.json").write_text("hello")
    result = invoke(tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    (tmp_path / "page.md").write_text("no marks")
    (tmp_path / "f.json").unlink()
    assert invoke(tmp_path, "--no-run", "--page", str(tmp_path / "page.md")).exit_code == 2
    assert invoke(tmp_path, "--processes", "0").exit_code == 2


@pytest.mark.usefixtures("no_pictures")
def test_the_tables_go_between_the_marks_of_a_page(copy) -> None:
    (copy / "page.md").write_text(MARKED)
    assert invoke(copy, "--no-run", "--page", str(copy / "page.md")).exit_code == 0
    text = (copy / "page.md").read_text()
    assert text.startswith("before\n<!-- results:lab_paper -->\n")
    assert text.endswith("<!-- /results:lab_paper -->\nafter\n")
    assert "### Table 1" in text
    assert "old" not in text.splitlines()


def test_what_has_not_been_run_is_unknown_and_not_zero(tmp_path) -> None:
    page = filled(MARKED, Summary(Store(tmp_path / "none.json"), FULL))
    assert "| Qwen3-32B 256, TP 8 | ? | ? (?) |" in page
    assert "cells have not been run" in page


def test_the_page_says_what_the_record_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, Summary(Store(cli.RESULTS), FULL)) == page, f"make it again: paper --no-run --page {PAGE.name}"


def test_it_is_a_command_of_the_lab(monkeypatch) -> None:
    monkeypatch.setattr(lab, "app", typer.Typer())
    lab._mount()
    assert "paper" in [command.name for command in lab.app.registered_commands]
