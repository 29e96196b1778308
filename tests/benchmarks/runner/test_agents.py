"""One agent: what it runs, what is recorded of it, and that no end of it is worse than a record."""

import asyncio
import time

import pytest
from anyio import CapacityLimiter

from benchmarks.swebench.agents import OUTPUT_CHARS, AgentPlan, Recorder, observation, run_agent
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.sandbox import CommandResult
from concur_agents import AgentState, Controller, FixedWindow, Uncontrolled
from concur_agents.testing import ManualClock, ScriptedReader
from concur_agents_langgraph import ConcurMiddleware

LOOK_THEN_STOP = [
    {"content": "I look.", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}], "output_tokens": 5},
    {"content": "Done.", "tool_calls": [], "output_tokens": 2},
]


@pytest.fixture
def run(plan, fake_model, fake_sandbox):
    async def run(*, model=None, sandbox=None, replies=LOOK_THEN_STOP, requests=None, **config):
        config = RunConfig(**config)
        recorder = Recorder(plan, time.monotonic, config, requests)
        with Controller(ScriptedReader(), law=Uncontrolled(), background=False) as controller:
            return await run_agent(
                recorder,
                model=model or fake_model(),
                controller=controller,
                sandbox=sandbox or fake_sandbox(),
                replies=replies,
                config=config,
            )

    return run


@pytest.fixture
def plan(make_task):
    return AgentPlan("001-a", make_task("a"), 1)


async def test_a_scripted_agent_runs_its_commands_and_completes(run, fake_sandbox):
    sandbox = fake_sandbox()
    record = await run(sandbox=sandbox)
    assert (record.outcome, record.error, record.commands, record.commands_failed) == ("completed", None, 1, 0)
    assert sandbox.commands == ["ls"]


async def test_the_model_sees_what_a_command_printed(run, fake_model):
    model = fake_model()
    await run(model=model)
    assert model.prompts[1][-1].content == "a.py\n[exit code 0]"
    assert model.prompts[1][-2].content == "I look."


async def test_each_step_is_recorded_with_its_tokens(run):
    first, second = (await run()).steps
    assert (first.prompt_tokens, first.cached_tokens, first.output_tokens) == (100, 30, 7)
    assert (first.tool_s, second.tool_s) == (0.25, None)
    assert first.wait_s >= 0
    assert first.generation_s >= 0


async def test_a_failing_command_is_the_agents_business(run, fake_sandbox):
    record = await run(sandbox=fake_sandbox(exit_code=1))
    assert (record.outcome, record.commands_failed) == ("completed", 1)


async def test_a_failing_model_is_recorded_and_not_blamed_on_concur(run, fake_model):
    async def fail():
        raise ValueError("context too long")

    record = await run(model=fake_model(before=fail))
    assert (record.outcome, record.error, record.by_concur) == ("failed", "ValueError: context too long", False)
    assert record.steps[0].generation_s is None


async def test_a_failing_sandbox_is_recorded_and_not_blamed_on_concur(run, fake_sandbox):
    class Broken(fake_sandbox):
        async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
            raise OSError("disk full")

    record = await run(sandbox=Broken())
    assert (record.outcome, record.error, record.by_concur) == ("failed", "OSError: disk full", False)


async def test_what_concur_raises_is_blamed_on_concur(run, monkeypatch):
    code = "async def broken(self, request, handler): raise RuntimeError('a bug of ours')"
    namespace = {"__name__": "concur_agents_langgraph.middleware"}
    exec(code, namespace)
    monkeypatch.setattr(ConcurMiddleware, "awrap_model_call", namespace["broken"])
    record = await run()
    assert (record.outcome, record.by_concur) == ("failed", True)


async def test_an_agent_that_never_stops_is_stopped(run):
    record = await run(replies=[LOOK_THEN_STOP[0]] * 10, max_steps=3)
    assert record.error == "StepLimitError: still not done after 3 generations"
    assert len(record.steps) == 3


async def test_an_engine_that_never_answers_ends_its_agent(run, fake_model):
    record = await run(model=fake_model(before=asyncio.Event().wait), generation_timeout_s=0.01)
    assert (record.outcome, record.by_concur) == ("failed", False)
    assert record.error == "EngineHungError: no reply within 0.01 s"


async def test_a_timeout_of_the_models_own_is_its_own(run, fake_model):
    async def gave_up():
        raise TimeoutError("read")

    record = await run(model=fake_model(before=gave_up))
    assert record.error == "TimeoutError: read"


async def test_no_more_requests_are_open_than_may_be(run, fake_model):
    """Of three agents that would all generate at once, two do."""
    open_now, most, requests = 0, [], CapacityLimiter(2)

    async def count():
        nonlocal open_now
        open_now += 1
        most.append(open_now)
        for _ in range(10):
            await asyncio.sleep(0)
        open_now -= 1

    await asyncio.gather(*(run(model=fake_model(before=count), requests=requests) for _ in range(3)))
    assert max(most) == 2


async def test_an_agent_whose_script_ends_too_soon_is_recorded(run):
    record = await run(replies=LOOK_THEN_STOP[:1])
    assert "the script has 1 replies" in record.error


async def test_a_model_speaks_for_itself_without_a_script(run):
    record = await run(replies=None)
    assert (record.outcome, record.commands) == ("completed", 0)


async def test_a_cancelled_agent_leaves_its_record_to_the_runner(run, fake_model):
    reached = asyncio.Event()

    async def hang():
        reached.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run(model=fake_model(before=hang)))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_waiting_for_a_seat_is_no_generating(plan, fake_model, fake_sandbox):
    """The second of two agents waits 5 seconds while the first generates, and then generates in no time."""
    release, reached, clock = asyncio.Event(), asyncio.Event(), ManualClock()

    async def hold():
        reached.set()
        await release.wait()

    async def agent(controller, name, model):
        recorder = Recorder(AgentPlan(name, plan.task, 1), clock, RunConfig(max_steps=9))
        common = {"controller": controller, "sandbox": fake_sandbox(), "replies": None, "config": RunConfig()}
        return await run_agent(recorder, model=model, **common)

    with Controller(ScriptedReader(), law=FixedWindow(1), background=False) as controller:
        first = asyncio.create_task(agent(controller, "first", fake_model(before=hold)))
        await reached.wait()
        second = asyncio.create_task(agent(controller, "second", fake_model()))
        while AgentState.WAITING not in {view.state for view in controller.agents()}:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        clock.advance(5.0)
        release.set()
        steps = [(await task).steps[0] for task in (first, second)]
    assert [(step.wait_s, step.generation_s) for step in steps] == [(0.0, 5.0), (5.0, 0.0)]


def result(**fields):
    return CommandResult(
        **{"exit_code": 0, "output": "", "timed_out": False, "truncated": False, "seconds": 0.1, **fields}
    )


def test_a_long_output_is_cut_in_the_middle():
    text = observation(result(output="head" + "x" * 50_000 + "tail"))
    assert len(text) < OUTPUT_CHARS + 100
    assert text.startswith("head")
    assert text.endswith("tail\n[exit code 0]")
    assert "38008 characters left out" in text


def test_a_killed_command_says_so():
    assert observation(result(exit_code=None, timed_out=True)).endswith("[killed: it ran too long]")


def test_output_the_sandbox_cut_says_so():
    assert observation(result(truncated=True)).endswith("[exit code 0, output cut off]")
