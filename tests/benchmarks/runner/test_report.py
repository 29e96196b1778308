"""The table says what the summary says, and warns of what a reader must know."""

import io
import json
import re

import pytest
from rich.console import Console

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import RecordError
from benchmarks.swebench.report import public_summary, render, report
from benchmarks.swebench.summary import summarise

DONE = {"capacity_tokens": 100, "harness_cpu_s": 1.0, "engine_cpu_s": 0.5, "machine_busy": 0.6}


def text(summary):
    console = Console(width=200, record=True, force_terminal=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with console.file:
        console.print(render(summary))
    return console.export_text()


def two_arms(make_record, **concur):
    return {
        ("uncontrolled", 1): ([make_record(ended_s=9.0, resolved=True)], [], DONE),
        ("concur", 1): ([make_record(**{"ended_s": 3.0, "resolved": True, **concur})], [], DONE),
    }


def test_each_arm_has_its_row(make_run, make_record):
    shown = text(summarise(make_run(two_arms(make_record), agents=1)))
    row = next(line for line in shown.splitlines() if line.startswith("concur"))
    assert row.split() == ["concur", "3.0", "s", "3.00x", "0.0%", "0", "1", "1", "0"]


def test_the_workload_is_stated_against_the_pool(make_run, make_record, make_step):
    arms = {("uncontrolled", 1): ([make_record(steps=(make_step(240, 0, 10),))], [], DONE)}
    assert "fill the pool 2.5 times" in text(summarise(make_run(arms, agents=1)))


def test_unknown_figures_are_shown_as_unknown(make_run, make_record, make_step):
    arms = {("concur", 1): ([make_record(steps=(make_step(None, None, None),))], [], DONE)}
    row = next(line for line in text(summarise(make_run(arms, agents=1))).splitlines() if line.startswith("concur"))
    assert row.split()[3:6] == ["-", "?", "?"]


def test_agents_that_failed_are_told(make_run, make_record):
    shown = text(summarise(make_run(two_arms(make_record, outcome="failed", error="X: y"), agents=1)))
    assert "concur: 1 agent failed (1 X); the records say why" in shown


def test_where_the_model_decides_times_are_not_all_concurs_doing(make_run, make_record):
    told = "no two arms did the same work"
    live = make_run(two_arms(make_record), agents=1, replies="model", engine="http://engine")
    assert told in text(summarise(live))


def test_arms_that_resolved_different_tasks_are_told(make_run, make_record):
    assert "did not resolve the same" in text(summarise(make_run(two_arms(make_record, resolved=False), agents=1)))


def test_a_harness_that_set_the_pace_is_told(make_run, make_record):
    arms = {("concur", 1): ([make_record(ended_s=1.0)], [], DONE)}
    assert "the process of the agents kept 100% of a core busy" in text(summarise(make_run(arms, agents=1)))


def test_what_the_harness_itself_cost_is_told(make_run, make_record):
    shown = text(summarise(make_run(two_arms(make_record), agents=1)))
    assert "Of this machine's 2 cores, beside the commands: uncontrolled 5.6% harness with frameworks; concur" in shown


def test_nothing_is_made_up_where_no_cost_was_noted(make_run, make_record):
    arms = {("concur", 1): ([make_record()], [], {"capacity_tokens": 100})}
    assert "The harness" not in text(summarise(make_run(arms, agents=1)))


def test_a_busy_machine_is_told(make_run, make_record):
    arms = {("concur", 1): ([make_record(ended_s=9.0)], [], {**DONE, "machine_busy": 0.97})}
    assert "this machine's cores were 97% busy" in text(summarise(make_run(arms, agents=1)))


def test_an_interrupted_run_is_told(make_run, make_record):
    arms = {("concur", 1): ([make_record()], [], None)}
    shown = text(summarise(make_run(arms, agents=2)))
    assert "(interrupted)" in shown
    assert "The run was interrupted" in shown


def test_a_run_without_any_arm_is_told(make_run):
    folder = make_run({("concur", 1): ([], [], None)})
    folder.arm("concur", 1).path.rename(folder.path / "elsewhere")
    assert "nothing to report" in text(summarise(folder))


def test_report_writes_summary_and_picture(make_run, make_record, make_point):
    records = [make_record()]
    folder = make_run({("concur", 1): (records, [make_point(0.0), make_point(1.0)], DONE)}, agents=1)
    with open("/dev/null", "w") as sink:  # noqa: PTH123
        summary = report(folder, Console(file=sink))
    assert json.loads((folder.path / "summary.json").read_text()) == summary
    assert (folder.path / "pictures" / "over-time-1.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in (folder.path / "pictures").iterdir()} == {
        "agents-concur.png",
        "makespans.png",
        "over-time-1.png",
    }


def test_the_public_summary_names_no_engine_address(make_run, make_record):
    folder = make_run({("concur", 1): ([make_record()], [], DONE)}, agents=1, engine="http://secret-host:30000")
    assert "secret-host" not in json.dumps(public_summary(summarise(folder)))


def test_the_public_summary_names_no_folder_of_rows():
    for tasks, public in ((("/home/me/rows.jsonl", "a"), ["rows.jsonl", "a"]), (("verified",), ["verified"])):
        config = RunConfig(tasks=tasks, sandbox="docker").to_json()
        assert public_summary({"config": config})["config"]["tasks"] == public


@pytest.mark.parametrize("name", ["pictures/makespans.png", "report.html", "summary.json"])
def test_a_page_that_cannot_be_written_is_named_after_the_table(make_run, make_record, make_point, name):
    folder = make_run({("concur", 1): ([make_record()], [make_point(0.0), make_point(1.0)], DONE)}, agents=1)
    (folder.path / name).mkdir(parents=True)
    shown = io.StringIO()
    with pytest.raises(RecordError, match=rf"cannot write .*{re.escape(str(folder.path))}.*: Is a directory"):
        report(folder, Console(file=shown))
    assert "makespan" in shown.getvalue()
