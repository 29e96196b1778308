"""What one run is: streamed, stepped through, retried, limited, interrupted, and with other agents inside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai import APIConnectionError, AsyncOpenAI
from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    Tool,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from concur_agents import AgentEventKind

SEAT = ["admitted", "paused"]
AGAIN = ["resumed", "paused"]


async def work(text: str) -> str:
    """Do some work."""
    return f"did {text}"


# --- streams ---


async def test_a_stream_is_one_agent_with_its_usage(world: Any) -> None:
    world.script("T", [("work", {"text": "x"}), ("work", {"text": "y"})], "done")
    async with world.agent(tools=[work]).run_stream("hello", conversation_id="T") as result:
        assert await result.get_output() == "done"
    stats = world.controller.stats()
    assert stats.prompt_tokens > 0
    assert stats.cached_tokens > 0
    assert world.lives() == {"T": [*SEAT, *AGAIN, "completed"]}


async def test_a_stream_left_half_way_is_cancelled(world: Any) -> None:
    world.script("T", "one two three four five")
    async with world.agent().run_stream("hello", conversation_id="T") as result:
        async for _ in result.stream_text(debounce_by=None):
            break
    assert world.lives() == {"T": [*SEAT, "cancelled"]}


async def test_a_stream_that_raises_where_it_is_read_has_failed(world: Any) -> None:
    world.script("T", "one two three four five")

    async def read() -> None:
        async with world.agent().run_stream("hello", conversation_id="T"):
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        await read()
    assert world.lives() == {"T": [*SEAT, "failed"]}


async def test_events_left_half_way_cancel_the_run(world: Any) -> None:
    world.script("T", [("work", {"text": "x"})], "done")
    async with world.agent(tools=[work]).run_stream_events("hello", conversation_id="T") as events:
        async for _ in events:
            break
    assert world.left() == {}
    assert world.lives()["T"][-1] == "cancelled"


@pytest.mark.parametrize("leave", [True, False])
async def test_a_run_that_is_stepped_through(world: Any, *, leave: bool) -> None:
    world.script("T", [("work", {"text": "x"})], "done")
    async with world.agent(tools=[work]).iter("hello", conversation_id="T") as run:
        async for node in run:
            if leave and type(node).__name__ == "CallToolsNode":
                assert world.left() == {"T": "in_tool"}
                break
    assert world.lives() == {"T": [*SEAT, "cancelled"] if leave else [*SEAT, *AGAIN, "completed"]}


async def test_a_cancelled_stream_is_cancelled(world: Any) -> None:
    async def read() -> None:
        async with world.agent().run_stream("hello", conversation_id="T") as result:
            await result.get_output()

    world.hang()
    try:
        task = asyncio.create_task(read())
        await world.seen("T", AgentEventKind.ADMITTED)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        world.go_on()
    assert world.lives() == {"T": [*SEAT, "cancelled"]}


# --- limits, retries, errors ---


async def test_a_usage_limit_is_a_failure(world: Any) -> None:
    world.script("T", *[[("work", {"text": "x"})]] * 4)
    with pytest.raises(UsageLimitExceeded):
        await world.agent(tools=[work]).run("x", conversation_id="T", usage_limits=UsageLimits(request_limit=2))
    assert world.lives()["T"][-1] == "failed"
    assert world.left() == {}


async def test_a_tool_that_wants_a_retry_gets_one_in_the_next_step(world: Any) -> None:
    tries: list[str] = []

    def again(text: str) -> str:
        """Works the second time."""
        tries.append(text)
        if len(tries) == 1:
            raise ModelRetry("again")
        return "did it"

    world.script("T", [("again", {"text": "x"})], [("again", {"text": "y"})], "done")
    assert (await world.agent(tools=[again]).run("x", conversation_id="T")).output == "done"
    assert world.lives() == {"T": [*SEAT, *AGAIN, *AGAIN, "completed"]}


async def test_too_many_retries_are_a_failure(world: Any) -> None:
    def never(text: str) -> str:
        """Never works."""
        raise ModelRetry("again")

    world.script("T", *[[("never", {"text": "x"})]] * 4)
    with pytest.raises(UnexpectedModelBehavior):
        await world.agent(tools=[never]).run("x", conversation_id="T")
    assert world.lives()["T"][-1] == "failed"


async def test_a_fallback_is_in_the_same_step(world: Any) -> None:
    world.script("T", "done")
    async with AsyncOpenAI(base_url="http://127.0.0.1:9", api_key="none", max_retries=0) as nobody:
        broken = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=nobody))
        agent = world.agent(model=FallbackModel(broken, world.model, fallback_on=(ModelAPIError, APIConnectionError)))
        assert (await agent.run("x", conversation_id="T")).output == "done"
    assert world.lives() == {"T": [*SEAT, "completed"]}


async def test_other_models_do_without_the_header(world: Any) -> None:
    assert (
        await world.agent(model=TestModel(custom_output_text="done")).run("x", conversation_id="T")
    ).output == "done"
    assert world.lives() == {"T": [*SEAT, "completed"]}


# --- who it is ---


async def test_the_id_is_the_conversations(world: Any) -> None:
    world.script("T", "one")
    first = await world.agent().run("x", conversation_id="T")
    world.script("T", "never said", "two")
    second = await world.agent().run("y", message_history=first.all_messages())
    await world.agent().run("z")
    assert second.output == "two"
    lives = world.lives()
    assert lives.pop("T") == [*SEAT, "completed", *SEAT, "completed"]
    assert len(lives) == 1, "the last one's was made up"


async def test_a_users_own_header_wins(world: Any) -> None:
    world.script("mine", "said to mine")
    agent = world.agent(model_settings={"extra_headers": {"x-session-id": "mine", "X-Other": "kept"}})
    assert (await agent.run("x", conversation_id="T")).output == "said to mine"


async def test_one_capability_serves_many_runs_at_once(world: Any) -> None:
    agent = world.agent(tools=[work])
    names = [f"many-{number}" for number in range(5)]
    for name in names:
        world.script(name, [("work", {"text": "x"})], "done")
    await asyncio.gather(*(agent.run("x", conversation_id=name) for name in names))
    assert world.lives() == {name: [*SEAT, *AGAIN, "completed"] for name in names}


# --- agents in agents ---


@pytest.mark.parametrize("same", [True, False])
async def test_an_agent_that_a_tool_delegates_to_shares_the_seat(world: Any, *, same: bool) -> None:
    """Even where it continues the same conversation, and so would have the same id."""
    helper = world.agent(model_settings={"extra_headers": {"X-Session-ID": "H"}})

    async def help_(context: RunContext[Any], text: str) -> str:
        """Have somebody help."""
        conversation = context.conversation_id if same else "H"
        return str((await helper.run(text, usage=context.usage, conversation_id=conversation)).output)

    world.script("T", [("help", {"text": "a"}), ("help", {"text": "b"})], "done")
    world.script("H", "helped")
    result = await world.agent(tools=[Tool(help_, name="help")]).run("x", conversation_id="T")
    assert result.output == "done"
    lives = world.lives()
    assert lives.pop("T") == [*SEAT, *AGAIN, "completed"]
    assert [life[-1] for life in lives.values()] == ["completed"] * len(lives)
    assert world.left() == {}


async def test_a_tool_in_a_thread_begins_sub_agents(world: Any) -> None:
    parents: list[str | None] = []

    def threaded() -> str:
        """Begins an agent."""
        parents.append(world.controller.sync.agent("other").parent)
        return "x"

    world.script("T", [("threaded", {})], "done")
    await world.agent(tools=[threaded]).run("x", conversation_id="T")
    assert parents == ["T"]
    assert world.controller.agent("other").parent is None, "the caller is no part of the run"


# --- a person is asked ---


async def test_a_run_that_ends_with_a_question_goes_on_as_the_same_agent(world: Any) -> None:
    agent = world.agent(
        tools=[Tool(work, requires_approval=True)],
        output_type=[str, DeferredToolRequests],
        model_settings={"extra_headers": {"X-Session-ID": "T"}},
    )
    world.script("T", [("work", {"text": "x"})], "done")
    asked = await agent.run("x")
    (name,) = world.left()
    assert world.left() == {name: "parked"}
    answers = DeferredToolResults(approvals={call.tool_call_id: True for call in asked.output.approvals})
    result = await agent.run(message_history=asked.all_messages(), deferred_tool_results=answers)
    assert result.output == "done"
    assert world.lives() == {name: [*SEAT, "parked", *AGAIN, "completed"]}


async def test_a_person_who_is_asked_during_the_run_is_waited_for_without_a_seat(world: Any) -> None:
    class Person(AbstractCapability[Any]):
        async def handle_deferred_tool_calls(self, ctx: Any, *, requests: Any) -> Any:
            assert world.left() == {"T": "parked"}
            return requests.build_results(approve_all=True)

    agent = world.agent(Person(), tools=[Tool(work, requires_approval=True)])
    world.script("T", [("work", {"text": "x"})], "done")
    assert (await agent.run("x", conversation_id="T")).output == "done"
    assert world.lives() == {"T": [*SEAT, "parked", *AGAIN, "completed"]}


# --- what the engine does not tell ---


async def test_cached_tokens_are_unknown_until_the_engine_has_told_of_some(world: Any) -> None:
    """For the framework they are 0 where the engine does not tell."""
    world.script("T", [("work", {"text": "x"})], "done")
    agent = world.agent(model=TestModel(call_tools=["work"]), tools=[work])
    await agent.run("x", conversation_id="T")
    stats = world.controller.stats()
    assert stats.prompt_tokens > 0
    assert (stats.cached_tokens, stats.recomputed_tokens) == (None, None)
