"""The command line: what is wrong is said in one line, and an interrupted run still shows what there is."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from benchmarks.swebench import cli
from benchmarks.swebench.engine import EngineError
from benchmarks.swebench.sandbox import SandboxUnavailable

DONE = {"capacity_tokens": 1000}


@pytest.fixture
def invoke(monkeypatch, make_task, tmp_path):
    """Calls the program, on two tasks and without sandboxes."""
    tasks = (make_task("a"), make_task("b"))
    monkeypatch.setattr(cli, "check_available", lambda: None)
    monkeypatch.setattr(cli, "load_tasks", lambda cache: tasks)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, arguments)


@pytest.fixture
def run_as(monkeypatch, make_record):
    """Makes a run do this in place of running: it gets the run's folder."""

    def use(what):
        async def run_arms(config, plans, folder, progress):
            for name in config.arms:
                arm = folder.arm(name, 1)
                arm.create()
                for plan in plans:
                    arm.write_agent(make_record(plan.agent_id, task_id=plan.task.task_id, resolved=True))
            await what(folder)

        monkeypatch.setattr(cli, "run_arms", run_arms)

    return use


async def complete(folder):
    for name in folder.about()["config"]["arms"]:
        folder.arm(name, 1).write_closing(DONE)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--arms", "turbo"], "error: unknown arm 'turbo'"),
        (["--arms", "fixed:none"], "error: arm 'fixed:none'"),
        (["--agents", "0"], "error: agents must be at least 1, not 0"),
        (["--repeats", "0"], "error: repeats must be at least 1, not 0"),
        (["--engine", "somewhere"], "error: engine must be 'embedded' or an http(s) URL, not 'somewhere'"),
        (["--tasks", "z"], "error: unknown task 'z': choose from a, b"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_made(invoke, tmp_path, arguments, complaint):
    result = invoke("run", *arguments)
    assert (result.exit_code, complaint in result.stderr) == (2, True)
    assert not (tmp_path / "runs").exists()


def test_a_machine_without_sandboxes_is_told_what_to_do(invoke, monkeypatch):
    def unavailable():
        raise SandboxUnavailable("the sandbox needs bubblewrap: apt-get install bubblewrap")

    monkeypatch.setattr(cli, "check_available", unavailable)
    result = invoke("run")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: the sandbox needs bubblewrap: apt-get install bubblewrap\n",
    )


def test_a_folder_in_use_is_refused(invoke, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = invoke("run", "--out", str(tmp_path))
    assert (result.exit_code, "not empty" in result.stderr) == (2, True)


def test_a_run_prints_its_table_and_writes_its_summary(invoke, run_as, tmp_path):
    run_as(complete)
    result = invoke("run", "--agents", "2", "--out", "out")
    assert result.exit_code == 0
    assert "uncontrolled" in result.stdout
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert list(summary["arms"]) == ["uncontrolled", "fixed:8", "budget"]
    assert summary["tasks"] == ["a", "b"]
    assert set(summary["versions"]) >= {"python", "langgraph", "concur-agents"}


def test_a_record_for_the_project_names_no_path_of_this_machine(invoke, run_as, tmp_path):
    run_as(complete)
    result = invoke("run", "--agents", "2", "--out", "out", "--record", "results/first.json")
    assert result.exit_code == 0
    text = (tmp_path / "results" / "first.json").read_text()
    assert str(tmp_path) not in text
    assert json.loads(text)["arms"]


def test_an_interrupted_run_shows_what_there_is(invoke, run_as):
    async def interrupt(folder):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    run_as(interrupt)
    result = invoke("run", "--agents", "2", "--arms", "concur", "--out", "out")
    assert result.exit_code == 130
    assert "(interrupted)" in result.stdout


def test_an_engine_that_cannot_be_had_is_told_with_what_there_is(invoke, run_as):
    async def fail(folder):
        raise EngineError("no engine answers at http://engine:1")

    run_as(fail)
    result = invoke("run", "--agents", "2", "--arms", "concur", "--out", "out")
    assert (result.exit_code, "error: no engine answers" in result.stderr) == (1, True)


def test_report_makes_the_same_table_again(invoke, run_as):
    run_as(complete)
    first = invoke("run", "--agents", "2", "--out", "out")
    again = invoke("report", "out")
    assert again.exit_code == 0
    assert again.stdout.split("Records")[0] in first.stdout


def test_report_refuses_what_is_no_run(invoke):
    result = invoke("report", ".")
    assert (result.exit_code, "no run.json" in result.stderr) == (2, True)


def test_tasks_lists_the_tasks(invoke):
    result = invoke("tasks")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["task", "a", "b"]
