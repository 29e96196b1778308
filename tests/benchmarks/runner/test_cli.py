"""The command line: what is wrong is said in one line, and an interrupted run still shows what there is."""

import asyncio
import errno
import json
import logging
import os
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.engines.wire import EngineError
from benchmarks.swebench import cli, listing, planning, terminal
from benchmarks.swebench.records import RecordError, RunFolder
from benchmarks.swebench.sandbox import SandboxUnavailable

DONE = {"capacity_tokens": 1000}


@pytest.fixture
def invoke(monkeypatch, make_task, tmp_path):
    """Calls the program, on two tasks and without sandboxes."""
    tasks = (make_task("a"), make_task("b"))
    monkeypatch.setattr(planning, "check_available", lambda: None)
    for module in (planning, listing):
        monkeypatch.setattr(module, "load_tasks", lambda cache: tasks)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, arguments)


@pytest.fixture
def run_as(monkeypatch, make_record):
    """Makes a run do this in place of running: it gets the run's folder."""

    def use(what):
        async def run_arms(config, plans, folder, progress, *, python=None):
            for name in config.arms:
                arm = folder.arm(name, 1)
                arm.remove()
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
        (["--engine", "somewhere"], "error: engine must be 'embedded', 'launch' or an http(s) URL, not 'somewhere'"),
        (["--engine", "launch"], "error: engine 'launch' needs a server"),
        (["--engine", "launch", "--server", "tgi", "--model", "m"], "error: server must be one of sglang, vllm"),
        (["--engine", "launch", "--server-flags", "--tp 8"], "error: model must name a model"),
        (["--preset", "h100"], "error: unknown preset 'h100': choose from laptop"),
        (["--tasks", "z"], "error: unknown task 'z': choose from a, b; or name a file or a data set of rows"),
        (["--tasks", " ,"], "error: tasks must name at least one, or be left out, not ' ,'"),
        (["--max-steps", "0"], "error: max_steps must be at least 1, not 0"),
        (["--max-output-tokens", "0"], "error: max_output_tokens must be at least 1, not 0"),
        (["--replies", "model"], "error: replies 'model' need an engine that has one"),
        (
            ["--replies", "model", "--engine", "http://engine", "--recordings", "r.jsonl"],
            "error: replies 'model' and recordings 'r.jsonl': leave out one of the two",
        ),
        (["--recordings", "nowhere.jsonl"], "error: nowhere.jsonl: cannot be read: "),
        (["--arms", "config:nowhere.yaml"], "nowhere.yaml"),
        (["--arms", "proxy:nowhere.toml"], "nowhere.toml"),
        (["--out", "/dev/null/run"], "error: cannot make /dev/null/run: Not a directory"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_made(invoke, tmp_path, arguments, complaint):
    result = invoke("run", *arguments)
    assert (result.exit_code, complaint in result.stderr) == (2, True)
    assert not (tmp_path / "runs").exists()


def test_a_machine_without_sandboxes_is_told_what_to_do(invoke, monkeypatch):
    def unavailable():
        raise SandboxUnavailable("the sandbox needs bubblewrap: apt-get install bubblewrap")

    monkeypatch.setattr(planning, "check_available", unavailable)
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


def test_a_run_goes_on_where_it_was_interrupted(invoke, run_as):
    async def interrupt(folder):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    run_as(interrupt)
    result = invoke("run", "--agents", "2", "--arms", "concur", "--out", "out")
    assert "resume out" in result.stdout
    run_as(complete)
    again = invoke("resume", "out")
    assert again.exit_code == 0
    assert "(interrupted)" not in again.stdout


def test_a_folder_that_is_being_run_is_not_run_twice(invoke, run_as, tmp_path):
    async def other(folder):
        with pytest.raises(RecordError, match="being run by another"), RunFolder(folder.path).alone():
            pass
        await complete(folder)

    run_as(other)
    assert invoke("run", "--agents", "2", "--out", "out").exit_code == 0


def test_what_cannot_be_resumed_is_told(invoke, run_as, tmp_path):
    assert "no run.json" in invoke("resume", ".").stderr
    run_as(complete)
    invoke("run", "--agents", "2", "--out", "out")
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    (tmp_path / "out" / "run.json").write_text(json.dumps({**about, "tasks": ["other"]}))
    assert "is of other tasks than there are now: a, b" in invoke("resume", "out").stderr
    (tmp_path / "out" / "run.json").write_text("{}")
    assert "run.json has no 'config'" in invoke("resume", "out").stderr


def test_report_makes_the_same_table_again(invoke, run_as):
    run_as(complete)
    first = invoke("run", "--agents", "2", "--out", "out")
    again = invoke("report", "out")
    assert again.exit_code == 0
    assert again.stdout.split("Records")[0] in first.stdout


def test_report_refuses_what_is_no_run(invoke):
    result = invoke("report", ".")
    assert (result.exit_code, "no run.json" in result.stderr) == (2, True)


def test_what_is_given_goes_over_the_preset(invoke, run_as, tmp_path):
    run_as(complete)
    given = ["--agents", "2", "--server-flags", "--tp 1", "--repeats", "1"]
    assert invoke("run", "--preset", "qwen3-32b-tp8-b256", *given, "--out", "out").exit_code == 0
    config = json.loads((tmp_path / "out" / "run.json").read_text())["config"]
    assert (config["agents"], config["lengths"], config["engine"]) == (2, "full", "launch")
    assert (config["server"]["model"], config["server"]["flags"]) == ("Qwen/Qwen3-32B", ["--tp", "1"])


def test_presets_and_engines_are_listed(invoke):
    presets, engines = invoke("presets"), invoke("engines")
    assert (presets.exit_code, engines.exit_code) == (0, 0)
    assert "deepseek-v3-tp16-b40" in presets.stdout
    assert "--node-rank 1" in presets.stdout
    assert "--max-num-seqs N" in engines.stdout


def test_more_agents_than_recordings_are_refused(invoke, tmp_path):
    (tmp_path / "r.jsonl").write_text(json.dumps({"steps": [{"p": 10, "o": 3}]}))
    result = invoke("run", "--recordings", "r.jsonl", "--agents", "2")
    assert (result.exit_code, "agents must be at most 1, as many as r.jsonl has, not 2" in result.stderr) == (2, True)


@pytest.fixture
def rows(monkeypatch, make_task, tmp_path):
    """A file of rows that the swebench package knows, by id with their patches."""

    def rows(**patches):
        found = [replace(make_task(name), image="i", patch=patch) for name, patch in patches.items()]

        def load(source, chosen):
            assert source == "rows.jsonl"
            return tuple(task for task in found if not chosen or task.task_id in chosen)

        monkeypatch.setattr(planning, "load_rows", load)

    return rows


PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def test_rows_run_in_containers_and_only_those_that_are_named(invoke, run_as, tmp_path, monkeypatch, rows):
    run_as(complete)
    checked = []
    monkeypatch.setattr(planning, "check_kind", checked.append)
    rows(x=PATCH, y=PATCH)
    result = invoke("run", "--tasks", "rows.jsonl,y", "--sandbox", "docker", "--agents", "2", "--out", "out")
    assert (result.exit_code, checked) == (0, ["docker"])
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert about["tasks"] == ["y"]
    assert (about["config"]["tasks"], about["config"]["sandbox"]) == (["rows.jsonl", "y"], "docker")
    assert invoke("resume", "out").exit_code == 0


def test_rows_without_containers_are_refused_with_what_to_add(invoke, rows, tmp_path):
    rows(x=PATCH)
    result = invoke("run", "--tasks", "rows.jsonl")
    assert (result.exit_code, "add --sandbox docker or --sandbox podman" in result.stderr) == (2, True)
    assert not (tmp_path / "runs").exists()


def test_a_row_without_a_fix_is_for_models_only(invoke, run_as, rows, monkeypatch):
    run_as(complete)
    monkeypatch.setattr(planning, "check_kind", lambda kind: None)
    rows(x="Binary files differ")
    given = ["run", "--tasks", "rows.jsonl", "--sandbox", "podman", "--agents", "1", "--out", "out"]
    result = invoke(*given)
    assert (result.exit_code, "x has no patch for a scripted agent to make" in result.stderr) == (2, True)
    assert invoke(*given, "--replies", "model", "--engine", "http://engine").exit_code == 0


def test_rows_that_nobody_can_score_are_refused(invoke, monkeypatch, tmp_path):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(planning, "check_kind", lambda kind: None)
    monkeypatch.setattr("importlib.metadata.version", missing)
    row = {"instance_id": "a__a-1", "problem_statement": "Broken.", "FAIL_TO_PASS": ["t"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    result = invoke("run", "--tasks", "rows.jsonl", "--sandbox", "podman")
    assert (result.exit_code, "error: scoring a__a-1 needs the swebench package" in result.stderr) == (2, True)


@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_the_kind_of_sandbox_reaches_the_run(invoke, run_as, tmp_path, monkeypatch, kind):
    run_as(complete)
    checked = []
    monkeypatch.setattr(planning, "check_kind", checked.append)
    assert invoke("run", "--sandbox", kind, "--agents", "2", "--out", "out").exit_code == 0
    assert checked == [kind]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["config"]["sandbox"] == kind


def test_a_kind_of_sandbox_that_does_not_work_here_is_told(invoke, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = invoke("run", "--sandbox", "podman")
    assert (result.exit_code, "the sandbox needs podman, which is not on PATH" in result.stderr) == (2, True)
    assert (
        "sandbox must be one of bubblewrap, podman, docker, not 'chroot'" in invoke("run", "--sandbox", "chroot").stderr
    )


def test_tasks_of_a_data_set_are_listed_with_their_images(invoke, tmp_path):
    row = {"instance_id": "a__a-1", "problem_statement": "Broken.", "FAIL_TO_PASS": ["t"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    result = invoke("tasks", "--source", "rows.jsonl")
    assert result.exit_code == 0
    assert "a_1776_a-1" in result.stdout
    assert "neither" in invoke("tasks", "--source", "rows").stderr


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{not json", "rows.jsonl, line 1: no JSON"),
        ("[1]", "rows.jsonl, row 1: an object was expected, not list"),
        ('{"id": "a", "text": "Broken."}', "instance_id: Field required (columns: id, text)"),
        ("", "rows.jsonl has no rows"),
    ],
)
def test_a_file_with_other_columns_is_named_with_those_it_has(invoke, tmp_path, line, complaint):
    (tmp_path / "rows.jsonl").write_text(line)
    result = invoke("tasks", "--source", "rows.jsonl")
    assert (result.exit_code, "error: " in result.stderr, "Traceback" in result.stderr) == (2, True, False)
    for part in complaint.split(": "):
        assert part in result.stderr


def test_a_cache_that_cannot_be_made_is_told(invoke, monkeypatch):
    def load(cache):
        (cache / "archives").mkdir(parents=True)

    for module in (planning, listing):
        monkeypatch.setattr(module, "load_tasks", load)
    for command in ("run", "tasks"):
        result = invoke(command, "--cache", "/proc/nowhere")
        assert (result.exit_code, "error: " in result.stderr, "/proc/nowhere" in result.stderr) == (2, True, True)


@pytest.mark.parametrize(
    "arguments", [["report", "nowhere"], ["resume", "nowhere"], ["tasks", "--source", "nowhere.jsonl"]]
)
def test_what_is_missing_is_named(invoke, arguments):
    result = invoke(*arguments)
    assert (result.exit_code, "nowhere" in result.stderr) == (2, True)


def test_a_summary_that_cannot_be_written_is_told(invoke, run_as):
    run_as(complete)
    result = invoke("run", "--agents", "2", "--arms", "uncontrolled", "--record", "/proc/nowhere/x.json")
    assert (result.exit_code, "error: " in result.stderr, "/proc/nowhere" in result.stderr) == (2, True, True)
    assert "2 LangGraph agents" in result.stdout


def test_an_engine_that_is_down_is_told_and_the_run_can_go_on(invoke, tmp_path):
    (tmp_path / "r.jsonl").write_text(json.dumps({"steps": [{"p": 10, "o": 3}]}))
    result = invoke(
        *("run", "--recordings", "r.jsonl", "--agents", "1", "--engine", "http://127.0.0.1:9", "--out", "out")
    )
    assert (result.exit_code, result.stderr.count("error: ")) == (1, 1)
    assert "no engine answers at http://127.0.0.1:9/" in result.stderr
    assert "swebench resume out" in result.stdout
    assert "No agent has ended." in result.stdout
    assert "makespan" not in result.stdout  # of a batch that never began there are no figures


def test_a_server_without_its_environment_is_told(invoke, tmp_path):
    (tmp_path / "r.jsonl").write_text(json.dumps({"steps": [{"p": 10, "o": 3}]}))
    given = ["--engine", "launch", "--model", "m", "--server-python", "/nowhere/python", "--out", "out"]
    result = invoke("run", "--recordings", "r.jsonl", "--agents", "1", *given)
    assert (result.exit_code, "there is no /nowhere/python: name an environment" in result.stderr) == (1, True)


@pytest.mark.parametrize("full", ["engine.log", "concur.log", "summary.json"])
def test_a_full_disk_leaves_what_there_is_and_says_how_to_go_on(invoke, run_as, tmp_path, monkeypatch, full):
    opened, replace = Path.open, os.replace

    def no_room(target):
        if Path(target).name == full:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))

    def open_(self, *args, **more):
        no_room(self)
        return opened(self, *args, **more)

    def replace_(source, target):
        no_room(target)
        replace(source, target)

    async def work(folder):
        logging.getLogger("concur_agents").warning("something to say")
        with (folder.path / "engine.log").open("wb"):
            pass
        await complete(folder)

    run_as(work)
    monkeypatch.setattr(Path, "open", open_)
    monkeypatch.setattr(os, "replace", replace_)
    if full == "concur.log":
        monkeypatch.setattr(terminal._LogFile, "_open", lambda self: no_room(self.baseFilename))
    result = invoke("run", "--agents", "2", "--out", "out")
    assert "Traceback" not in result.output
    assert len(list((tmp_path / "out").glob("arms/*/1/agents/*.json"))) == 6
    if full == "concur.log":  # nothing of worth is lost
        assert result.exit_code == 0
    else:
        assert result.exit_code == 1
        assert "No space left on device" in result.stderr
        assert "resume out" in result.stdout


def test_tasks_lists_the_tasks(invoke):
    result = invoke("tasks")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["task", "a", "b"]
