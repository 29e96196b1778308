"""The benchmark's agents do the same in every framework: real agents, over HTTP on the real emulator."""

import asyncio
import importlib.metadata
import json
import socket
import subprocess
import sys
import time

import pytest
from rich.console import Console

from benchmarks.engines.emulated import register
from benchmarks.engines.engine import connect
from benchmarks.swebench import setting
from benchmarks.swebench.agents import AgentPlan, Recorder, find_framework, observation, run_agent, versions
from benchmarks.swebench.agents.base import SYSTEM_PROMPT
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.progress import LineProgress, TimeLeft
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.runner import run_arms
from concur_agents import Controller, Uncontrolled
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.emulator.radix import TOKEN_BYTES
from concur_agents.emulator.tokenizer import ByteTokenizer
from concur_agents.testing import ScriptedReader

TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a bash command in /testbed and return its output and exit code.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
LOOK = {"content": "I look.", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}], "output_tokens": 20}
DONE = {"content": "Done.", "tool_calls": [], "output_tokens": 2}


@pytest.fixture
def emulator():
    with Emulator(ServiceConfig.preset("laptop", speedup=200.0)) as emulator:
        yield emulator


@pytest.fixture
def hanging():
    """The URL of a server that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def run(framework, emulator, make_task, sandbox):
    """One agent on the emulator, which plays ``script``."""

    async def run(script, *, sandbox=sandbox, replies=None, url=None, **config):
        config = RunConfig(framework=framework, **config)
        plan = AgentPlan("001-a", make_task("a"), 1)
        engine = await connect(emulator.url)
        await register(engine, plan.agent_id, script)
        with Controller(ScriptedReader(), law=Uncontrolled(), background=False) as controller:
            async with find_framework(framework).open_model(url or engine.url, engine.model) as model:
                return await run_agent(
                    Recorder(plan, time.monotonic, config),
                    model=model,
                    controller=controller,
                    sandbox=sandbox(),
                    replies=replies,
                    config=config,
                )

    return run


async def test_an_agent_runs_its_commands_and_completes(run):
    record = await run([LOOK, LOOK, DONE])
    assert (record.outcome, record.error, record.commands, record.commands_failed) == ("completed", None, 2, 0)
    assert [step.output_tokens for step in record.steps] == [20, 20, 2]
    assert [step.tool_s for step in record.steps] == [0.25, 0.25, None]


async def test_its_prompts_are_as_long_as_in_any_framework(run, make_task, sandbox):
    """As what the chat is plainly made of: system prompt, report, and each reply with what its command printed."""
    record = await run([LOOK, LOOK, DONE])
    result = await sandbox().run("ls", timeout=1.0)
    messages = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": "state.txt says broken."},
    ]
    call = {"id": "x", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": "ls"})}}
    wanted = []
    for _ in record.steps:
        wanted.append(len(ByteTokenizer().render(messages, [TOOL])) // TOKEN_BYTES)
        messages.append({"role": "assistant", "content": "I look.", "tool_calls": [call]})
        messages.append({"role": "tool", "content": observation(result)})
    assert [step.prompt_tokens for step in record.steps] == pytest.approx(wanted, rel=0.02)


async def test_what_it_said_before_is_found_in_the_engines_cache(run):
    first, second, _ = (await run([LOOK, LOOK, DONE])).steps
    assert (first.cached_tokens or 0) == 0
    assert second.cached_tokens >= first.prompt_tokens


async def test_an_engine_that_plays_no_scripts_does_their_work(run):
    """As a real engine would: it generates as many tokens as the script says, and the script's words are used."""
    record = await run([], replies=[LOOK, LOOK, DONE])
    assert (record.outcome, record.error, record.commands) == ("completed", None, 2)
    assert [step.output_tokens for step in record.steps] == [20, 20, 2]


async def test_an_agent_that_never_stops_is_stopped(run):
    record = await run([LOOK] * 10, max_steps=3)
    assert record.error == "StepLimitError: still not done after 3 generations"
    assert len(record.steps) == 3


async def test_an_engine_that_never_answers_ends_its_agent(run, hanging):
    record = await run([DONE], url=hanging, generation_timeout_s=0.05)
    assert (record.outcome, record.by_concur, record.error) == (
        "failed",
        False,
        "EngineHungError: no reply within 0.05 s",
    )


async def test_a_broken_sandbox_ends_the_agent_and_is_not_blamed_on_concur(run, sandbox):
    class Broken(sandbox):
        async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
            raise OSError("disk full")

    record = await run([LOOK, DONE], sandbox=Broken)
    assert (record.outcome, record.error, record.by_concur) == ("failed", "OSError: disk full", False)
    assert len(record.steps) == 1


async def test_an_engine_that_is_not_there_ends_the_agent_at_once(run):
    record = await run([DONE], url="http://127.0.0.1:1")
    assert (record.outcome, record.by_concur, len(record.steps)) == ("failed", False, 1)
    assert record.error.endswith("ConnectionError: Connection error.")


async def test_no_client_is_left_to_the_garbage_collector(framework):
    """It would close sockets by numbers that new connections have by then, and their replies would never be read."""
    async with find_framework(framework).open_model("http://127.0.0.1:1", "m") as model:
        pass
    if framework == "agentscope":  # LangChain keeps its client for good
        assert model.client.is_closed()


async def test_a_cancelled_agent_is_cancelled(run, sandbox):
    reached = asyncio.Event()

    class Hanging(sandbox):
        async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
            reached.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run([LOOK, DONE], sandbox=Hanging))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.sandbox
async def test_two_agents_fix_their_tasks_in_every_arm(framework, emulator, make_task, monkeypatch, tmp_path):
    """As the benchmark runs them: sandboxes, warm-up, arms with and without Concur, tests."""
    fix = {**LOOK, "tool_calls": [{"name": "bash", "arguments": {"command": "sed -i s/broken/fixed/ state.txt"}}]}
    monkeypatch.setattr(setting, "scripted_replies", lambda task, *, seed, config: [LOOK, fix, DONE])
    config = RunConfig(framework=framework, agents=2, arms=("uncontrolled", "fixed:1", "concur"), engine=emulator.url)
    plans = plan_agents(config, [make_task("a"), make_task("b")])
    folder = RunFolder.create(tmp_path / "run", {"config": config.to_json()})
    with (tmp_path / "out").open("w") as stream:
        await run_arms(config, plans, folder, LineProgress(Console(file=stream), TimeLeft(3)))
    lives = {}
    for arm in config.arms:
        records = folder.arm(arm, 1).agents()
        assert [(r.outcome, r.error, r.resolved, len(r.steps)) for r in records] == [("completed", None, True, 3)] * 2
        lives[arm] = sorted((r.steps[0].started_s + r.steps[0].wait_s, r.ended_s) for r in records)
    (_, first_ended), (second_began, _) = lives["fixed:1"]
    assert second_began >= first_ended - 0.01  # the seat passes on a moment before the record is closed


def test_exact_versions_are_known(framework):
    found = versions(find_framework(framework))
    assert {"python", "concur-agents", framework, f"concur-agents-{framework}", "openai"} <= set(found)


def test_a_framework_that_is_not_there_is_told(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(ValueError, match="framework 'agentscope' is not installed here"):
        find_framework.__wrapped__("agentscope")


def test_the_benchmark_imports_no_framework_before_one_is_chosen():
    code = (
        "import sys, benchmarks.swebench.cli; "
        "print(sorted({'langchain_core', 'langgraph', 'agentscope'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_frameworks_agents_import_no_other_framework(framework):
    code = (
        "import sys; from benchmarks.swebench.agents import find_framework; "
        f"find_framework({framework!r}); print(sorted({{'langgraph', 'agentscope'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"[{framework!r}]\n"
