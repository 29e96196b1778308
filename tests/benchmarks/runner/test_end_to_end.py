"""Real LangGraph agents, over HTTP on the real emulator, with commands in real sandboxes: only the tasks are tiny."""

import json
import urllib.request

import pytest
from rich.console import Console

from benchmarks.swebench import runner, setting
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.progress import LineProgress, TimeLeft
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.report import report
from benchmarks.swebench.runner import run_arms
from benchmarks.swebench.tasks import load_recorded
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.engines import read_sample

pytestmark = pytest.mark.sandbox

READ = {"name": "bash", "arguments": {"command": "cat state.txt; seq 200"}}
FIX = {"name": "bash", "arguments": {"command": "sed -i s/broken/fixed/ state.txt"}}


@pytest.fixture
def emulator():
    with Emulator(ServiceConfig.preset("laptop", speedup=200.0)) as emulator:
        yield emulator


@pytest.fixture
def scripts(monkeypatch):
    """Agents of task ``a`` fix it, those of ``b`` only look."""

    def scripted_replies(task, *, seed, config):
        calls = [READ, READ, FIX] if task.task_id == "a" else [READ, READ]
        looks = [{"content": f"Step by {seed}.", "tool_calls": [call], "output_tokens": 20} for call in calls]
        return [*looks, {"content": "Done.", "tool_calls": [], "output_tokens": 5}]

    monkeypatch.setattr(setting, "scripted_replies", scripted_replies)


@pytest.fixture
def run(tmp_path, make_task, scripts):
    tasks = [make_task("a"), make_task("b")]

    async def run(config):
        plans = plan_agents(config, tasks)
        about = {"config": config.to_json(), "tasks": ["a", "b"], "cpus": 2}
        folder = RunFolder.create(tmp_path / "run", about)
        with (tmp_path / "out").open("w") as stream:
            console = Console(file=stream)
            await run_arms(config, plans, folder, LineProgress(console, TimeLeft(len(config.arms))))
            report(folder, console)
        return folder

    return run


def counters(emulator):
    with urllib.request.urlopen(f"{emulator.url}/metrics") as reply:
        sample = read_sample(reply.read().decode())
    return sample.hit_tokens_total, sample.query_tokens_total


async def test_every_arm_resolves_the_same_tasks_and_loses_nobody(run, emulator):
    folder = await run(RunConfig(agents=4, arms=("uncontrolled", "fixed:1", "concur"), engine=emulator.url))
    summary = json.loads((folder.path / "summary.json").read_text())
    assert {name: (arm["lost"], arm["resolved"]) for name, arm in summary["arms"].items()} == {
        "uncontrolled": (0, 2),
        "fixed:1": (0, 2),
        "concur": (0, 2),
    }
    assert summary["same_resolved"]
    assert (folder.path / "pictures" / "over-time-1.png").exists()


async def test_the_fixed_arm_keeps_its_window(run, emulator):
    """At most two agents hold a seat at a time, so no more than two of their lives overlap."""
    folder = await run(RunConfig(agents=4, arms=("fixed:2",), engine=emulator.url))
    lives = [
        (record.steps[0].started_s + record.steps[0].wait_s, record.ended_s)
        for record in folder.arm("fixed:2", 1).agents()
    ]
    for begun, _ in lives:
        assert sum(start <= begun < end for start, end in lives) <= 2


async def test_figures_from_replies_agree_with_the_engines_counters(run, emulator, monkeypatch):
    async def no_warm_up(*arguments):
        pass

    monkeypatch.setattr(setting, "_warm_up", no_warm_up)
    folder = await run(RunConfig(agents=4, arms=("uncontrolled",), engine=emulator.url))
    steps = [step for record in folder.arm("uncontrolled", 1).agents() for step in record.steps]
    assert counters(emulator) == (sum(s.cached_tokens for s in steps), sum(s.prompt_tokens for s in steps))


async def test_an_engine_that_plays_no_scripts_does_their_work(run, emulator, monkeypatch):
    """As a real engine would: it generates as many tokens as the script says, and the script's words are used."""

    async def register(engine, session_id, replies):
        return False

    monkeypatch.setattr(setting, "register", register)
    folder = await run(RunConfig(agents=1, tasks=("a",), arms=("concur",), engine=emulator.url))
    (record,) = folder.arm("concur", 1).agents()
    assert (record.resolved, record.commands) == (True, 3)
    assert [step.output_tokens for step in record.steps] == [20, 20, 20, 5]
    assert record.steps[-1].cached_tokens > record.steps[0].prompt_tokens


async def test_an_arm_finds_nothing_of_the_arm_before_it(run, emulator):
    folder = await run(RunConfig(agents=1, arms=("uncontrolled", "concur"), engine=emulator.url))
    first, second = (
        [(step.prompt_tokens, step.cached_tokens) for step in folder.arm(arm, 1).agents()[0].steps]
        for arm in ("uncontrolled", "concur")
    )
    assert first[0] == second[0]
    assert second[0][1] == 0


async def test_recorded_agents_are_played_again_without_a_sandbox(emulator, tmp_path, monkeypatch):
    call = {"function": {"name": "bash", "arguments": json.dumps({"command": "false"})}}
    usage = {"prompt_tokens": 20, "completion_tokens": 9}
    sessions = [
        {
            "id": f"s{number}",
            "messages": [
                {"role": "user", "content": f"Fix {number}."},
                {"role": "assistant", "content": "I look.", "tool_calls": [call], "usage": usage},
                {"role": "tool", "content": "x" * 20_000},
                {"role": "assistant", "content": "Done.", "usage": usage},
            ],
        }
        for number in range(2)
    ]
    (tmp_path / "recorded.jsonl").write_text("\n".join(json.dumps(session) for session in sessions))
    config = RunConfig(agents=2, arms=("budget",), engine=emulator.url, recordings=str(tmp_path / "recorded.jsonl"))
    plans = plan_agents(config, load_recorded(tmp_path / "recorded.jsonl"))
    folder = RunFolder.create(tmp_path / "run", {"config": config.to_json(), "tasks": ["s0", "s1"], "cpus": 2})
    monkeypatch.setattr(runner, "BubblewrapSandboxes", None)  # must not be needed
    with (tmp_path / "out").open("w") as stream:
        await run_arms(config, plans, folder, LineProgress(Console(file=stream), TimeLeft(1)))
    for record in folder.arm("budget", 1).agents():
        assert (record.outcome, record.commands, record.resolved) == ("completed", 1, None)
        first, second = record.steps
        assert (first.output_tokens, second.output_tokens) == (9, 9)
        assert second.prompt_tokens > 5_000  # nothing is cut out of what was recorded
