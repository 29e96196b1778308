"""The command line: what is wrong is said in one line, and what was run is never lost."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.lab import cli
from benchmarks.lab.cells import failed, file_hash, run_cell
from benchmarks.lab.records import RecordFile, read_records


class Inline:
    """A pool without processes."""

    interrupt_at: int | None = None
    ran: int = 0

    def __init__(self, processes: int, code: str) -> None:
        self._code, self._cells = code, []

    @property
    def free(self) -> bool:
        return not self._cells

    @property
    def busy(self) -> bool:
        return bool(self._cells)

    def submit(self, cell) -> None:
        self._cells.append(cell)

    def wait(self):
        if Inline.ran == Inline.interrupt_at:
            raise KeyboardInterrupt
        Inline.ran += 1
        return [run_cell(self._cells.pop(), self._code)]

    def close(self) -> None:
        self._cells = []


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    """Calls the program, with its cells run in this process."""
    monkeypatch.setattr(cli, "Pool", Inline)
    monkeypatch.setattr(Inline, "ran", 0)
    monkeypatch.setattr(Inline, "interrupt_at", None)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, arguments)


SMALL = ("run", "--json", "cells.jsonl", "--workloads", "fits", "--engines", "qwen3-32b-tp2", "--agents", "3")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seeds", "0"], "error: seeds must be at least 1, got 0"),
        (["--agents", "0"], "error: agents must be at least 1, got 0"),
        (["--processes", "-1"], "error: processes must be at least 1, got -1"),
        (["--workloads", "fits,nope"], "got 'nope'"),
        (["--workloads", "fits,fits"], "error: workload 'fits' is given twice"),
        (["--workloads", ""], "error: workloads must name at least one of "),
        (["--engines", "abacus"], "error: engine must be one of "),
        (["--engines", ","], "error: engines must name at least one of "),
        (["--arms", "turbo"], "error: unknown arm 'turbo'"),
        (["--arms", "fixed:none"], "error: arm 'fixed:none'"),
        (
            ["--trace", "nowhere.jsonl"],
            "error: trace must be a file or folder of recorded sessions, got 'nowhere.jsonl'",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(invoke, tmp_path, arguments, complaint) -> None:
    result = invoke("run", "--json", "cells.jsonl", *arguments)
    assert (result.exit_code, complaint in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_run_writes_a_line_a_cell_and_says_how_much_there_is_to_do(invoke, tmp_path) -> None:
    result = invoke(*SMALL, "--arms", "uncontrolled,fixed:sweep,concur", "--seeds", "2")
    assert result.exit_code == 0, result.output
    assert "0 cells are there, at most 6 to go: about" in result.output
    lines = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert {(line["arm"], line["seed"]) for line in lines} == {
        (arm, seed) for arm in ("uncontrolled", "fixed:2", "concur") for seed in (0, 1)
    }
    assert {"workload", "engine", "makespan_s", "lower_bound_s", "hit_rate", "recomputed_tokens", "lost"} <= set(
        lines[0]
    )


def test_a_recording_is_a_workload_and_a_changed_one_is_another(invoke, tmp_path) -> None:
    session = '{"steps": [{"p": 100, "o": 10, "tool_s": 0.5}, {"p": 150, "o": 10, "tool_s": 0.5}], "prefix": 20}'
    (tmp_path / "mine.jsonl").write_text(f"{session}\n" * 3)
    command = ("run", "--json", "cells.jsonl", "--workloads", "", "--trace", "mine.jsonl", "--seeds", "1")
    command += ("--engines", "qwen3-32b-tp2", "--arms", "concur")
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    (record,) = read_records(tmp_path / "cells.jsonl")
    assert (record.workload, record.agents, record.steps, record.error) == ("trace:mine.jsonl", 3, 6, None)
    assert len(record.trace or "") == 12
    (tmp_path / "mine.jsonl").write_text(f"{session}\n" * 4)
    file_hash.cache_clear()
    result = invoke(*command)
    assert (result.exit_code, "was read from another recording" in result.stderr) == (2, True)


def test_what_an_engine_does_not_have_is_left_out_and_told(invoke, tmp_path) -> None:
    command = ("run", "--json", "cells.jsonl", "--workloads", "fits", "--agents", "2", "--seeds", "1")
    result = invoke(*command, "--engines", "vllm-qwen3-32b-tp2", "--arms", "hicache,concur")
    assert (result.exit_code, "vllm-qwen3-32b-tp2 has no hicache: left out" in result.output) == (0, True)
    assert [record.arm for record in read_records(tmp_path / "cells.jsonl")] == ["concur"]


def test_an_interrupted_run_keeps_what_there_is_and_goes_on(invoke, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Inline, "interrupt_at", 2)
    command = (*SMALL, "--arms", "uncontrolled,concur", "--seeds", "2")
    result = invoke(*command)
    assert (result.exit_code, "the same command goes on" in result.output) == (130, True)
    before = (tmp_path / "cells.jsonl").read_text()
    assert len(before.splitlines()) == 2
    monkeypatch.setattr(Inline, "interrupt_at", None)
    result = invoke(*command)
    assert (result.exit_code, "2 cells are there, 2 to go" in result.output) == (0, True)
    assert (tmp_path / "cells.jsonl").read_text().startswith(before)


def test_a_file_of_other_code_is_gone_on_with_only_by_force(invoke, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(cli, "code_hash", lambda: "before")
    assert invoke(*SMALL, "--arms", "concur", "--seeds", "1").exit_code == 0
    monkeypatch.setattr(cli, "code_hash", lambda: "after")
    command = (*SMALL, "--arms", "concur", "--seeds", "2")
    result = invoke(*command)
    assert result.exit_code == 2
    assert "cells.jsonl: it has cells that other code ran (before; this is after)" in result.stderr
    assert "--force-resume" in result.stderr
    assert invoke(*command, "--force-resume").exit_code == 0
    assert [record.code for record in read_records(tmp_path / "cells.jsonl")] == ["before", "after"]


def test_a_cell_that_fails_is_told_and_the_others_run(invoke, monkeypatch) -> None:
    def wait(self):
        cell = self._cells.pop()
        return [failed(cell, "c", "ValueError: no") if cell.arm == "concur" else run_cell(cell, "c")]

    monkeypatch.setattr(Inline, "wait", wait)
    result = invoke(*SMALL, "--arms", "concur,uncontrolled", "--seeds", "1")
    assert result.exit_code == 1
    assert "concur, seed 0: failed: ValueError: no" in result.output
    assert "Cells that failed: 1" in result.output
    assert len(read_records(Path("cells.jsonl"))) == 2


def test_a_file_that_is_being_written_or_is_something_else_is_refused(invoke, tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("mine\n")
    result = invoke("run", "--json", "notes.txt", "--workloads", "fits")
    assert (result.exit_code, "notes.txt:1: no record of the lab" in result.stderr) == (2, True)
    assert (tmp_path / "notes.txt").read_text() == "mine\n"
    with RecordFile.open(tmp_path / "cells.jsonl"):
        result = invoke(*SMALL)
    assert (result.exit_code, "another run is writing" in result.stderr) == (2, True)


def test_report_prints_tables_for_a_terminal_and_for_a_page(invoke) -> None:
    invoke(*SMALL, "--arms", "uncontrolled,concur", "--seeds", "1")
    plain = invoke("report", "cells.jsonl", "--ours", "concur")
    assert (plain.exit_code, "fits on qwen3-32b-tp2, 3 agents" in plain.output) == (0, True)
    page = invoke("report", "cells.jsonl", "--ours", "concur", "--markdown", "--baseline", "uncontrolled")
    assert "| uncontrolled | 1.00 | 0 of 1 | 1.00 | fits on qwen3-32b-tp2 |" in page.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl"),
        (["cells.jsonl"], "error: ours must be one of concur, got 'budget'"),
        (["cells.jsonl", "--ours", "concur", "--baseline", "turbo"], "error: baseline must be one of lower bound, got"),
        (["empty.jsonl"], "error: empty.jsonl: no cell is in it yet"),
    ],
)
def test_report_says_what_is_wrong(invoke, tmp_path, arguments, complaint) -> None:
    invoke(*SMALL, "--arms", "concur", "--seeds", "1")
    (tmp_path / "empty.jsonl").touch()
    result = invoke("report", *arguments)
    assert (result.exit_code, complaint in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("what", "names"),
    [("workloads", ["swe", "fits"]), ("engines", ["qwen3-32b-tp2"]), ("arms", ["fixed:sweep", "concur", "config:..."])],
)
def test_what_there_is_is_listed_a_line_each(invoke, what, names) -> None:
    result = invoke(what)
    assert result.exit_code == 0
    listed = {line.split(" ")[0] for line in result.output.splitlines()}
    assert set(names) <= listed


@pytest.mark.parametrize(("others", "call"), [(1, ["there"]), (2, ["there", "elsewhere"])], ids=["one", "several"])
def test_a_subcommand_is_there_where_its_module_is(monkeypatch, others, call) -> None:
    other = typer.Typer()
    for name in ("elsewhere", "another")[:others]:
        other.command(name)(lambda: print("from elsewhere"))
    program = typer.Typer()
    program.command("run")(lambda: None)
    monkeypatch.setattr(cli, "app", program)
    monkeypatch.setattr(cli, "SUBCOMMANDS", {"there": "json.tool", "absent": "benchmarks.lab.absent.cli"})
    monkeypatch.setattr(cli.importlib, "import_module", lambda name: SimpleNamespace(app=other))
    cli._mount()
    result = CliRunner().invoke(program, call)
    assert (result.exit_code, result.output) == (0, "from elsewhere\n")
    assert CliRunner().invoke(program, ["absent"]).exit_code == 2
