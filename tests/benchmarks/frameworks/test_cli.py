"""The command line: frameworks and arms take turns, other options go through, and what is whole is kept."""

import json

import pytest
from typer.testing import CliRunner

from benchmarks.frameworks import cli
from benchmarks.swebench.records import write_json


@pytest.fixture
def started(monkeypatch, make_run, tmp_path):
    """Every run is taken down; it leaves what a run leaves."""
    commands = []

    def run(console, line, repeat, folder, command):
        commands.append((line.key, repeat, command))
        if len(commands) == run.interrupt_at:
            raise KeyboardInterrupt
        arms = dict.fromkeys(command[command.index("--arms") + 1].split(","), 2.0)
        made = make_run(line.framework, arms | {"uncontrolled": 4.0})
        made.path.rename(folder / f"{line.key}-{repeat}")
        write_json(folder / f"{line.key}-{repeat}" / "summary.json", {})

    run.interrupt_at = None
    run.commands = commands
    monkeypatch.setattr(cli, "_run", run)
    monkeypatch.setattr(cli, "ensure", lambda line, home: tmp_path / line.key / "python")
    monkeypatch.chdir(tmp_path)
    return run


def invoke(*arguments):
    return CliRunner().invoke(cli.app, arguments)


def test_frameworks_and_arms_take_turns(started):
    result = invoke("run", "--repeats", "2", "--arms", "uncontrolled,concur", "--out", "out")
    assert result.exit_code == 0
    keys = [key for key, _, _ in started.commands]
    assert keys == ["langgraph", "agentscope-2", "agentscope-1", "agentscope-2", "agentscope-1", "langgraph"]
    arms = [command[command.index("--arms") + 1] for _, _, command in started.commands]
    assert arms == ["uncontrolled,concur"] * 3 + ["concur,uncontrolled"] * 3
    assert "within 5% of each other" in result.stdout


def test_other_options_are_passed_on(started):
    invoke("run", "--out", "out", "--agents", "4", "--speedup", "5")
    assert all(command[-4:] == ["--agents", "4", "--speedup", "5"] for _, _, command in started.commands)
    assert {command[command.index("--framework") + 1] for _, _, command in started.commands} == {
        "langgraph",
        "agentscope",
    }


def test_a_record_is_written_where_it_is_wanted(started, tmp_path):
    assert invoke("run", "--out", "out", "--record", "results/frameworks.json").exit_code == 0
    text = (tmp_path / "results" / "frameworks.json").read_text()
    assert set(json.loads(text)["frameworks"]) == {"langgraph", "agentscope-2", "agentscope-1"}
    assert str(tmp_path) not in text


def test_an_interrupted_measurement_keeps_its_whole_repeats(started):
    started.interrupt_at = 5
    result = invoke("run", "--repeats", "2", "--out", "out")
    assert (result.exit_code, "One repeat" in result.stdout) == (130, True)


def test_report_makes_the_same_table_again(started):
    first = invoke("run", "--out", "out")
    again = invoke("report", "out")
    assert (again.exit_code, again.stdout.strip()) == (0, first.stdout.strip())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--frameworks", "crewai"], "unknown framework 'crewai': choose from langgraph,agentscope-2,agentscope-1"),
        (["--frameworks", ","], "no framework given"),
        (["--arms", "turbo"], "unknown arm 'turbo'"),
    ],
)
def test_what_cannot_run_is_refused(started, arguments, complaint):
    result = invoke("run", *arguments)
    assert (result.exit_code, complaint in result.stderr) == (2, True)
    assert not started.commands
