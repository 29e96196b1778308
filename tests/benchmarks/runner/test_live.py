"""A model that decides for itself: however badly it does, its agent's end is recorded, and nobody else's changes."""

import asyncio
import json
import time
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks.engines.emulated import register
from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.wire import EngineError
from benchmarks.swebench import setting
from benchmarks.swebench.agents import AgentPlan, Recorder, find_framework, run_agent
from benchmarks.swebench.agents.base import COMMANDS
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.progress import LineProgress, TimeLeft
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.report import report
from benchmarks.swebench.runner import run_arms
from benchmarks.swebench.setting import open_setting
from concur_agents import Controller, Uncontrolled
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.testing import ScriptedReader

LIVE = {"replies": "model", "engine": "http://engine", "max_output_tokens": 500}


def says(content="I look.", *calls, **more):
    return {
        "content": content,
        "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls],
    } | more


LOOK = says("I look.", ("bash", {"command": "ls"}))
DONE = says("Done.")


@pytest.fixture(scope="module")
def emulator():
    config = ServiceConfig.preset("laptop", speedup=200.0)
    short = replace(config, engine=replace(config.engine, context_length=4000, max_total_tokens=100_000))
    with Emulator(short) as emulator:
        yield emulator


@pytest.fixture
async def engine(emulator):
    """A model with a short context, that says what its script says."""
    return await connect(emulator.url)


@pytest.fixture
def run(make_task, fake_sandbox):
    """One agent whose model is at ``url``."""

    async def run(url, *, sandbox=None, **config):
        config = RunConfig(**{**LIVE, **config})
        plan = AgentPlan("001-a", make_task("a"), 1)
        with Controller(ScriptedReader(), law=Uncontrolled(), background=False) as controller:
            async with find_framework("langgraph").open_model(url, "m") as model:
                return await run_agent(
                    Recorder(plan, time.monotonic, config),
                    model=model,
                    controller=controller,
                    sandbox=sandbox or fake_sandbox(),
                    replies=None,
                    config=config,
                )

    return run


@pytest.fixture
def say(engine, run):
    """One agent whose model says this, reply by reply."""

    async def say(*replies, **more):
        await register(engine, "001-a", replies)
        return await run(engine.url, **more)

    return say


async def test_a_model_calls_both_tools(say, fake_sandbox):
    sandbox = fake_sandbox()
    edit = says("", ("edit", {"path": "state.txt", "old": "broken", "new": "fixed"}))
    record = await say(LOOK, edit, DONE, sandbox=sandbox)
    assert (record.outcome, record.error, record.commands) == ("completed", None, 2)
    assert sandbox.commands[0] == "ls"
    assert "Path('state.txt'), 'broken', 'fixed'" in sandbox.commands[1]


@pytest.mark.parametrize("content", ["It works for me.", "", " \n"])
async def test_a_reply_without_a_call_ends_the_agent(say, content):
    record = await say(says(content))
    assert (record.outcome, record.error, record.commands, len(record.steps)) == ("completed", None, 0, 1)


@pytest.mark.parametrize(
    "arguments",
    ['{"command": "ls"', "ls", "{'command': 'ls'}", '["ls"]', '"ls"', "3", "null", "", '{"command": "\\x"}'],
)
async def test_arguments_that_are_no_object_run_nothing_and_end_in_a_record(say, fake_sandbox, arguments):
    sandbox = fake_sandbox()
    record = await say(says("I look.", ("bash", arguments)), DONE, sandbox=sandbox)
    assert record.outcome in ("completed", "failed")
    assert not record.by_concur
    assert sandbox.commands == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("python", {"code": "1"}),
        ("", {}),
        ("bash ", {"command": "ls"}),
        ("bash", {}),
        ("bash", {"cmd": "ls"}),
        ("bash", {"command": None}),
        ("bash", {"command": ["ls"]}),
        ("edit", {"path": "a.py"}),
    ],
)
async def test_a_call_that_no_tool_takes_is_answered_and_the_agent_goes_on(say, fake_sandbox, name, arguments):
    sandbox = fake_sandbox()
    record = await say(says("", (name, arguments)), LOOK, DONE, sandbox=sandbox)
    assert (record.outcome, record.error, len(record.steps)) == ("completed", None, 3)
    assert sandbox.commands == ["ls"]


async def test_a_model_that_calls_for_ever_is_stopped(say):
    record = await say(*[LOOK] * 9, max_steps=4)
    assert (record.outcome, len(record.steps)) == ("failed", 4)
    assert record.error.startswith("StepLimitError: ")


async def test_a_reply_without_end_is_cut(say):
    record = await say(says("again " * 500, output_tokens=900), max_output_tokens=50)
    assert (record.outcome, record.commands) == ("completed", 0)
    assert [step.output_tokens for step in record.steps] == [50]


async def test_a_call_that_is_cut_off_is_not_made(say, fake_sandbox):
    sandbox = fake_sandbox()
    record = await say(says("again " * 500, ("bash", {"command": "rm -r ."})), max_output_tokens=50, sandbox=sandbox)
    assert (record.outcome, sandbox.commands) == ("completed", [])


async def test_a_script_is_not_cut(say):
    record = await say(says("again " * 100, output_tokens=200), max_output_tokens=50, replies="scripted")
    assert [step.output_tokens for step in record.steps] == [200]


async def test_a_full_context_ends_its_agent_by_name(say, fake_sandbox):
    record = await say(*[LOOK] * 9, sandbox=fake_sandbox(output="x" * 5_000))
    assert (record.outcome, record.by_concur) == ("failed", False)
    assert record.error.startswith("ContextFullError: ")
    assert record.steps[0].generation_s is not None
    assert record.steps[-1].generation_s is None


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Requested token count exceeds the model's maximum context length of 4096 tokens.",
    ],
)
async def test_every_engines_words_for_a_full_context_are_known(run, answering, message):
    url = answering(400, json.dumps({"error": {"message": message, "code": 400}}).encode())
    assert (await run(url)).error.startswith("ContextFullError: ")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "RefusedError: "), (404, "RefusedError: "), (429, "OpenAI"), (500, "OpenAI")]
)
async def test_a_refusal_is_told_from_a_failure_that_may_pass(run, answering, status, kind):
    record = await run(answering(status, b'{"error": {"message": "no"}}'))
    assert (record.outcome, record.by_concur) == ("failed", False)
    assert record.error.startswith(kind)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"null",
        b"{}",
        b'{"choices": null}',
        b'{"choices": []}',
        b'{"choices": [{"message": null, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"role": "assistant", "content": null}, "finish_reason": "length"}]}',
        b'{"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": null}}], "usage": null}',
    ],
)
async def test_an_empty_or_broken_reply_ends_in_a_record(run, answering, body):
    record = await run(answering(200, body))
    assert record.outcome in ("completed", "failed")
    assert (record.by_concur, record.commands, len(record.steps)) == (False, 0, 1)


async def test_calls_of_one_reply_run_a_few_at_a_time(say, fake_sandbox):
    now, most = 0, 0

    class Counting(fake_sandbox):
        async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
            nonlocal now, most
            now, most = now + 1, max(most, now + 1)
            for _ in range(10):
                await asyncio.sleep(0)
            now -= 1
            return await super().run(command, timeout=timeout)

    sandbox = Counting()
    await say(says("", *[("bash", {"command": f"echo {number}"}) for number in range(30)]), DONE, sandbox=sandbox)
    assert (most, len(sandbox.commands)) == (COMMANDS, 30)


# The run


@pytest.fixture
def open_live(monkeypatch, make_task, fake_sandbox):
    """Prepares an arm, up to its first agent."""

    async def opened(*_, **__):
        return fake_sandbox()

    async def open_live(engine, **config):
        config = RunConfig(**{**LIVE, "agents": 1, **config})
        plans = plan_agents(config, [make_task("a")])
        async with open_setting(config, engine, plans, None):
            pass

    monkeypatch.setattr(setting, "_open", opened)
    return open_live


def server_at(url):
    return Engine(url=url, name="a server", model="m", scheduling={})


async def test_an_engine_that_refuses_agents_is_told_before_the_batch(open_live, answering):
    """As vLLM does that was not told how its model calls tools."""
    url = answering(400, b'{"error": {"message": "auto tool choice requires --enable-auto-tool-choice"}}')
    with pytest.raises(EngineError, match=r"refuses what agents ask of it: .*requires --enable-auto-tool-choice"):
        await open_live(server_at(url))


async def test_a_failure_that_may_pass_does_not_keep_a_batch_from_running(open_live, answering):
    await open_live(server_at(answering(500, b'{"error": {"message": "busy"}}')))


async def test_a_model_that_never_stops_does_not_warm_up_for_ever(open_live, answering):
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    url = answering(200, json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode())
    await open_live(server_at(url))
    assert answering.asked == 2


async def test_replies_that_could_never_fit_are_refused(open_live, engine):
    with pytest.raises(EngineError, match=r"max_output_tokens must be below 4000, .*, not 4000: set --max-output"):
        await open_live(engine, max_output_tokens=4000)


@pytest.mark.sandbox
async def test_a_batch_of_bad_models_is_recorded_whole_and_the_good_one_resolves(engine, make_task, tmp_path):
    fix = says("", ("edit", {"path": "state.txt", "old": "broken", "new": "fixed"}))
    shout = says("", ("bash", {"command": "seq 5000"}))
    lives = [
        ([LOOK, fix, DONE], "completed", None, True),
        ([DONE], "completed", None, False),
        ([says("")], "completed", None, False),
        ([says("", ("bash", '{"command": '))], "completed", None, False),
        ([says("", ("submit", {}))] * 9, "failed", "StepLimitError", False),
        ([says("again " * 500, output_tokens=900)], "completed", None, False),
        ([shout] * 9, "failed", "ContextFullError", False),
    ]
    config = RunConfig(
        agents=len(lives),
        arms=("uncontrolled", "budget"),
        engine=engine.url,
        replies="model",
        max_steps=6,
        max_output_tokens=200,
    )
    plans = plan_agents(config, [make_task("a")])
    for plan, (script, *_) in zip(plans, lives, strict=True):
        await register(engine, plan.agent_id, script)
    folder = RunFolder.create(tmp_path / "run", {"config": config.to_json(), "tasks": ["a"], "cpus": 2})
    with (tmp_path / "out").open("w") as stream:
        console = Console(file=stream, width=200)
        await run_arms(config, plans, folder, LineProgress(console, TimeLeft(2)))
        summary = report(folder, console)
    for arm in config.arms:
        records = folder.arm(arm, 1).agents()
        ends = [(r.outcome, r.error and r.error.partition(":")[0], r.resolved) for r in records]
        assert ends == [tuple(end) for _, *end in lives]
        figures = summary["arms"][arm]
        assert (figures["complete"], figures["lost"], figures["failed"], figures["resolved"]) == (True, 0, 2, 1)
    assert "2 agents failed (1 ContextFullError, 1 StepLimitError)" in (tmp_path / "out").read_text()
