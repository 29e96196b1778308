"""What one run is: handed off, streamed, in a session, with hooks, interrupted, and with other agents inside."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelRetrySettings,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    SQLiteSession,
    UserError,
    function_tool,
    handoff,
    input_guardrail,
    retry_policies,
)
from openai import APIConnectionError, AsyncOpenAI

from concur_agents import AgentEventKind, Controller

SEAT = ["admitted", "paused"]
AGAIN = ["resumed", "paused"]


def config(**options: Any) -> RunConfig:
    return RunConfig(tracing_disabled=True, **options)


@function_tool
async def work(text: str) -> str:
    """Do some work."""
    return f"did {text}"


# --- handoffs, agents as tools, guardrails ---


async def test_a_run_that_hands_off_is_one_agent(world: Any) -> None:
    world.script("T", [("transfer_to_b", {})], [("work", {"text": "x"})], "done")
    b = world.agent("B", tools=[work])
    result = await world.runner("T").run(world.agent(handoffs=[handoff(b)]), "hello", run_config=config())
    assert (result.final_output, result.last_agent.name) == ("done", "B")
    assert world.lives() == {"T": [*SEAT, *AGAIN, *AGAIN, "completed"]}


async def test_agents_as_tools_are_sub_agents_that_share_the_seat(default: Any) -> None:
    world = default
    helper = world.agent("H", model_settings=ModelSettings(extra_headers={"X-Session-ID": "H"}))
    tool = helper.as_tool("help", "Helps.")
    world.script("T", [("help", {"input": "a"}), ("help", {"input": "b"})], "done")
    world.script("H", "one", "two")
    result = await Runner.run(world.agent(tools=[tool]), "hello", run_config=config(group_id="T"))
    assert result.final_output == "done"
    lives = world.lives()
    assert lives.pop("T") == [*SEAT, *AGAIN, "completed"]
    assert list(lives.values()) == [[*SEAT, "completed"]] * 2
    assert all(name.startswith("T~") for name in lives), "they have the run's configuration, and so its group"


async def test_a_runner_that_is_not_the_default_lets_agents_as_tools_go_through_on_its_seat(world: Any) -> None:
    world.script("T", [("help", {"input": "a"})], "done")
    world.script("H", "one")
    helper = world.agent("H", model_settings=ModelSettings(extra_headers={"X-Session-ID": "H"}))
    agent = world.agent(tools=[helper.as_tool("help", "Helps.")])
    assert (await world.runner("T").run(agent, "hello", run_config=config())).final_output == "done"
    assert world.lives() == {"T": [*SEAT, *AGAIN, "completed"]}


@pytest.mark.parametrize("in_parallel", [True, False])
@pytest.mark.parametrize("trips", [True, False])
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_guardrail_that_asks_a_model_shares_the_seat(
    default: Any, *, in_parallel: bool, trips: bool, streamed: bool
) -> None:
    world = default
    judge = world.agent("J")

    @input_guardrail(run_in_parallel=in_parallel)
    async def judged(context: Any, agent: Any, question: Any) -> GuardrailFunctionOutput:
        world.script("J", "bad" if trips else "good")
        result = await Runner.run(judge, "well?", run_config=config(group_id="J"))
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=result.final_output == "bad")

    world.script("T", "done")
    agent = world.agent(input_guardrails=[judged])
    try:
        if streamed:
            result = Runner.run_streamed(agent, "hello", run_config=config(group_id="T"))
            async for _ in result.stream_events():
                pass
        else:
            await Runner.run(agent, "hello", run_config=config(group_id="T"))
        assert not trips
    except InputGuardrailTripwireTriggered:
        assert trips
    lives = world.lives()
    assert lives.pop("J") == [*SEAT, "completed"]
    assert world.left() == {}
    outcome = "failed" if trips else "completed"
    if in_parallel or not trips:
        assert lives.get("T", [outcome])[-1] == outcome
    else:
        assert lives == {}, "it was stopped before its first model call"


# --- streams ---


async def test_a_stream_is_one_agent_with_its_usage(world: Any) -> None:
    world.script("T", [("work", {"text": "x"}), ("work", {"text": "y"})], "done")
    result = world.runner("T").run_streamed(world.agent(tools=[work]), "hello", run_config=config())
    kinds = [event.type async for event in result.stream_events()]
    assert result.final_output == "done"
    assert "raw_response_event" in kinds
    stats = world.controller.stats()
    assert stats.prompt_tokens > 0
    assert stats.cached_tokens > 0
    assert world.lives() == {"T": [*SEAT, *AGAIN, "completed"]}


async def test_a_stream_leaves_no_agent_in_its_callers_context(world: Any) -> None:
    world.script("T", "done")
    result = world.runner("T").run_streamed(world.agent(), "hello", run_config=config())
    assert world.controller.agent("other").parent is None
    async for _ in result.stream_events():
        pass


async def test_a_stream_that_is_not_read_goes_on(world: Any) -> None:
    world.script("T", [("work", {"text": "x"})], "done")
    result = world.runner("T").run_streamed(world.agent(tools=[work]), "hello", run_config=config())
    async for _ in result.stream_events():
        break
    await result.run_loop_task
    assert result.final_output == "done"
    assert world.lives() == {"T": [*SEAT, *AGAIN, "completed"]}


async def test_a_cancelled_stream_is_cancelled(world: Any) -> None:
    world.hang()
    try:
        result = world.runner("T").run_streamed(world.agent(), "hello", run_config=config())
        await world.seen("T", AgentEventKind.ADMITTED)
        result.cancel()
        async for _ in result.stream_events():
            pass
    finally:
        world.go_on()
    assert world.lives() == {"T": [*SEAT, "cancelled"]}


async def test_a_stream_cancelled_after_its_turn_ends_there(world: Any) -> None:
    world.script("T", [("work", {"text": "x"})], "never said")
    result = world.runner("T").run_streamed(world.agent(tools=[work]), "hello", run_config=config())
    async for event in result.stream_events():
        if event.type == "run_item_stream_event":
            result.cancel(mode="after_turn")
    assert result.final_output is None
    assert world.lives() == {"T": [*SEAT, "completed"]}


@pytest.mark.parametrize("streamed", [True, False])
async def test_too_many_turns_are_a_failure(world: Any, *, streamed: bool) -> None:
    world.script("T", *[[("work", {"text": "x"})]] * 5)
    agent, runner = world.agent(tools=[work]), world.runner("T")

    async def run() -> None:
        if not streamed:
            await runner.run(agent, "hello", run_config=config(), max_turns=2)
            return
        async for _ in runner.run_streamed(agent, "hello", run_config=config(), max_turns=2).stream_events():
            pass

    with pytest.raises(MaxTurnsExceeded):
        await run()
    assert world.lives() == {"T": [*SEAT, *AGAIN, "failed"]}


async def test_a_stream_that_cannot_begin_leaves_no_agent(world: Any) -> None:
    session = SQLiteSession("S")
    with pytest.raises(UserError):
        world.runner("T").run_streamed(
            world.agent(), "hello", session=session, conversation_id="C", run_config=config()
        )
    session.close()
    assert world.controller.agent("other").parent is None
    assert world.left() == {}
    world.script("T", "done")
    assert (await world.runner("T").run(world.agent(), "hello", run_config=config())).final_output == "done"
    assert set(world.lives()) == {"T"}


# --- who it is ---


async def test_the_id_is_the_sessions_or_the_groups_or_the_runners(world: Any) -> None:
    runner, session = world.runner(), SQLiteSession("S")
    for name in ("S", "G", "R"):
        world.script(name, "done")
    await runner.run(world.agent(), "hello", session=session, run_config=config(group_id="G"))
    await runner.run(world.agent(), "hello", run_config={"tracing_disabled": True, "group_id": "G"})
    await world.runner("R").run(world.agent(), "hello", session=session, run_config=config(group_id="G"))
    await runner.run(world.agent(), "hello", run_config=config())
    session.close()
    lives = list(world.lives())
    assert lives[:3] == ["S", "G", "R"]
    assert len(lives) == 4, "the last one's was made up"


@pytest.mark.parametrize("by_run", [True, False])
async def test_a_users_own_header_wins(world: Any, *, by_run: bool) -> None:
    world.script("mine", "said to mine")
    mine = ModelSettings(extra_headers={"x-session-id": "mine"})
    agent = world.agent() if by_run else world.agent(model_settings=mine)
    options = config(model_settings=mine) if by_run else config()
    assert (await world.runner("T").run(agent, "hello", run_config=options)).final_output == "said to mine"


# --- the user's hooks ---


async def test_the_users_hooks_are_called(world: Any) -> None:
    seen: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Agent[Any]) -> None:
            seen.append("agent")

        async def on_llm_start(self, *_: Any) -> None:
            seen.append(f"call {list(world.left().values())}")

        async def on_llm_end(self, *_: Any) -> None:
            seen.append(f"reply {list(world.left().values())}")

        async def on_tool_start(self, *_: Any) -> None:
            seen.append("tool")

    world.script("T", [("work", {"text": "x"})], "done")
    await world.runner("T").run(world.agent(tools=[work]), "hello", hooks=Hooks(), run_config=config())
    reply = "reply ['in_tool']"
    assert seen == ["agent", "call []", reply, "tool", "call ['in_tool']", reply]


# --- a person is asked ---


@function_tool(needs_approval=True)
async def risky(text: str) -> str:
    """Do something that a person must allow."""
    return f"did {text}"


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_run_that_ends_with_a_question_goes_on_as_the_same_agent(world: Any, *, streamed: bool) -> None:
    async def run(question: Any) -> Any:
        if not streamed:
            return await world.runner().run(agent, question, run_config=config())
        result = world.runner().run_streamed(agent, question, run_config=config())
        async for _ in result.stream_events():
            pass
        return result

    agent = world.agent(tools=[risky], model_settings=ModelSettings(extra_headers={"X-Session-ID": "T"}))
    world.script("T", [("risky", {"text": "x"})], "done")
    asked = await run("hello")
    assert list(world.left().values()) == ["parked"]
    assert world.controller.stats().population.seated == 0
    state = asked.to_state()
    state.approve(asked.interruptions[0])
    assert (await run(state)).final_output == "done"
    (life,) = world.lives().values()
    assert life == [*SEAT, "parked", *AGAIN, "completed"], "its name was made up, and is the same"


async def test_a_sub_agent_that_asks_goes_on_too(default: Any) -> None:
    world = default
    helper = world.agent("H", tools=[risky], model_settings=ModelSettings(extra_headers={"X-Session-ID": "H"}))
    agent = world.agent(tools=[helper.as_tool("help", "Helps.")])
    world.script("T", [("help", {"input": "a"})], "done")
    world.script("H", [("risky", {"text": "x"})], "helped")
    asked = await Runner.run(agent, "hello", run_config=config(group_id="T"))
    assert set(world.left().values()) == {"parked"}
    state = asked.to_state()
    state.approve(asked.interruptions[0])
    assert (await Runner.run(agent, state, run_config=config(group_id="T"))).final_output == "done"
    lives = world.lives()
    assert lives.pop("T")[-1] == "completed"
    (helpers,) = lives.values()
    assert helpers[-1] == "completed"
    assert helpers.count("admitted") == 1


# --- tools ---


async def test_a_tool_that_fails_is_told_to_the_model(world: Any) -> None:
    @function_tool
    async def broken() -> str:
        """Fails."""
        raise ArithmeticError("no")

    world.script("T", [("broken", {})], "done")
    assert (await world.runner("T").run(world.agent(tools=[broken]), "x", run_config=config())).final_output == "done"
    assert world.lives() == {"T": [*SEAT, *AGAIN, "completed"]}


async def test_a_tool_that_raises_ends_the_run(world: Any) -> None:
    @function_tool(failure_error_function=None)
    async def broken() -> str:
        """Fails."""
        raise ArithmeticError("no")

    world.script("T", [("broken", {})], "done")
    with pytest.raises(Exception, match="no"):
        await world.runner("T").run(world.agent(tools=[broken]), "x", run_config=config())
    assert world.lives() == {"T": [*SEAT, "failed"]}


async def test_a_tool_in_a_thread_begins_sub_agents(world: Any) -> None:
    parents: list[str | None] = []

    @function_tool
    def threaded(context: RunContextWrapper[Controller]) -> str:
        """Begins an agent."""
        parents.append(context.context.sync.agent("other").parent)
        return "x"

    world.script("T", [("threaded", {})], "done")
    await world.runner("T").run(world.agent(tools=[threaded]), "x", context=world.controller, run_config=config())
    assert parents == ["T"]


# --- model errors ---


async def test_retries_of_one_call_are_one_step(world: Any) -> None:
    seen: list[str] = []

    def again(_: Any) -> bool:
        seen.append(world.left()["T"])
        return True

    retry = ModelRetrySettings(max_retries=2, policy=retry_policies.any(again), backoff={"initial_delay": 0.0})
    async with AsyncOpenAI(base_url="http://127.0.0.1:9", api_key="none", max_retries=0) as nobody:
        model = OpenAIChatCompletionsModel(model="m", openai_client=nobody)
        agent = world.agent(model=model, model_settings=ModelSettings(retry=retry))
        with pytest.raises(APIConnectionError):
            await world.runner("T").run(agent, "hello", run_config=config())
    assert seen == ["generating"] * 2
    assert world.lives() == {"T": [*SEAT, "failed"]}


async def test_a_streams_result_does_not_outlive_it(world: Any) -> None:
    """The runner keeps nothing of a run."""
    world.script("T", "done")
    result = world.runner("T").run_streamed(world.agent(), "hello", run_config=config())
    async for _ in result.stream_events():
        pass
    gone = weakref.ref(result)
    del result
    await asyncio.sleep(0)
    gc.collect()
    assert gone() is None
