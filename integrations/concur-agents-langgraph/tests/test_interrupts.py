"""While a person thinks the agent has no seat; it gets one again before agents that have not begun."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from concur_agents import AgentEventKind, Outcome

HELLO: Any = {"messages": [("user", "hello")]}


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@tool
def ask_person(text: str) -> str:
    """Ask."""
    return str(interrupt(text))


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


APPROVE = {"decisions": [{"type": "approve"}]}
ASKING = [
    pytest.param({"tools": [ask_person]}, "yes", id="interrupt in a tool"),
    pytest.param(
        {"tools": [echo], "middleware": (HumanInTheLoopMiddleware(interrupt_on={"echo": True}),)},
        APPROVE,
        id="HumanInTheLoopMiddleware",
    ),
]


def build(make_agent: Any, world: Any, tools: Any, **options: Any) -> Any:
    return make_agent(world, *tools, checkpointer=InMemorySaver(), **options)


@pytest.mark.parametrize(("options", "answer"), ASKING)
async def test_seat_is_free_while_a_person_thinks(
    world: Any, engine: Any, make_agent: Any, options: Any, answer: Any
) -> None:
    agent = build(make_agent, world, **options)
    engine.script("t", [(options["tools"][0].name, {"text": "may I?"})], "done")
    assert "__interrupt__" in await agent.ainvoke(HELLO, on("t"))
    assert (world.left(), world.seated) == ({"t": "parked"}, 0)
    await make_agent(world).ainvoke(HELLO, on("other"))
    result = await agent.ainvoke(Command(resume=answer), on("t"))
    assert result["messages"][-1].content == "done"
    assert world.lives()["t"] == ["admitted", "paused", "parked", "resumed", "paused", "completed"]


@pytest.mark.parametrize(("options", "answer"), ASKING)
def test_sync_run_is_parked_too(world: Any, engine: Any, make_agent: Any, options: Any, answer: Any) -> None:
    agent = build(make_agent, world, **options)
    engine.script("t", [(options["tools"][0].name, {"text": "may I?"})], "done")
    agent.invoke(HELLO, on("t"))
    assert (world.left(), world.seated) == ({"t": "parked"}, 0)
    agent.invoke(Command(resume=answer), on("t"))
    assert world.lives()["t"][-1] == "completed"


async def test_breakpoint_before_the_tools_parks(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    agent = build(make_agent, world, [echo], interrupt_before=["tools"])
    await agent.ainvoke(HELLO, on("t"))
    assert world.left() == {"t": "parked"}
    await agent.ainvoke(None, on("t"))
    assert world.finished == {Outcome.COMPLETED: 1}


async def test_resumed_agent_goes_before_new_ones(world: Any, engine: Any, make_agent: Any) -> None:
    agent = build(make_agent, world, [ask_person])
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    await agent.ainvoke(HELLO, on("t"))
    await world.controller.admit("holder")
    new = asyncio.create_task(make_agent(world).ainvoke(HELLO, on("new")))
    while world.left().get("new") != "waiting":  # noqa: ASYNC110 - queueing is no event
        await asyncio.sleep(0)
    resumed = asyncio.create_task(agent.ainvoke(Command(resume="yes"), on("t")))
    while world.left()["t"] != "returning":  # noqa: ASYNC110 - queueing is no event
        await asyncio.sleep(0)
    world.controller.finish("holder")
    await asyncio.gather(new, resumed)
    await world.seen("t", AgentEventKind.FINISHED)
    await world.seen("new", AgentEventKind.ADMITTED)


async def test_interrupt_in_a_sub_agent_parks_the_family(world: Any, engine: Any, make_agent: Any) -> None:
    helper = make_agent(world, ask_person, session="helper")

    @tool
    async def ask(text: str) -> str:
        """Ask the helper."""
        return str((await helper.ainvoke(HELLO))["messages"][-1].content)

    agent = build(make_agent, world, [ask])
    engine.script("boss", [("ask", {"text": "one"})], "done")
    engine.script("helper", [("ask_person", {"text": "may I?"})], "helper done")
    await agent.ainvoke(HELLO, on("boss"))
    assert (list(world.left().values()), world.seated) == (["parked", "parked"], 0)
    result = await agent.ainvoke(Command(resume="yes"), on("boss"))
    assert [message.content for message in result["messages"][-2:]] == ["helper done", "done"]
    assert world.finished == {Outcome.COMPLETED: 2}


async def test_helper_that_asks_in_a_thread_of_its_own_does_not_park_the_boss(
    world: Any, engine: Any, make_agent: Any
) -> None:
    """Its interrupt ends its own run only; the boss's tool gets the unfinished state and goes on."""
    helper = build(make_agent, world, [ask_person])

    @tool
    async def ask(text: str) -> str:
        """Ask the helper."""
        return str("__interrupt__" in await helper.ainvoke(HELLO, on("helper")))

    engine.script("boss", [("ask", {"text": "one"})], "done")
    engine.script("helper", [("ask_person", {"text": "may I?"})], "helper done")
    result = await make_agent(world, ask).ainvoke(HELLO, on("boss"))
    assert [message.content for message in result["messages"][-2:]] == ["True", "done"]
    assert world.lives()["boss"] == ["admitted", "paused", "resumed", "paused", "completed"]


async def test_streamed_interrupt_reaches_the_consumer(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    agent = build(make_agent, world, [ask_person])
    chunks = [chunk async for chunk in agent.astream(HELLO, on("t"), stream_mode="updates")]
    assert chunks[-1]["__interrupt__"][0].value == "may I?"
    assert world.left() == {"t": "parked"}


STREAMS: Any = [
    {"stream_mode": "updates"},
    {"stream_mode": ["messages", "updates"]},
    {"stream_mode": "updates", "subgraphs": True},
    {"stream_mode": ["values", "updates"], "subgraphs": True},
    {"stream_mode": "updates", "version": "v2"},
]


@pytest.mark.parametrize("options", STREAMS)
async def test_consumer_may_leave_at_the_interrupt(world: Any, engine: Any, make_agent: Any, options: Any) -> None:
    for thread in ("t", "s"):
        engine.script(thread, [("ask_person", {"text": "may I?"})], "done")
    agent = build(make_agent, world, [ask_person])
    async for chunk in (chunks := agent.astream(HELLO, on("t"), **options)):
        if "__interrupt__" in str(chunk):
            break
    await chunks.aclose()
    for chunk in (blocking := agent.stream(HELLO, on("s"), **options)):
        if "__interrupt__" in str(chunk):
            break
    blocking.close()
    assert world.left() == {"t": "parked", "s": "parked"}
    result = await agent.ainvoke(Command(resume="yes"), on("t"))
    assert result["messages"][-1].content == "done"


async def test_error_beside_an_interrupt_fails_the_agent(world: Any, engine: Any, make_agent: Any) -> None:
    asked = asyncio.Event()

    @tool
    async def broken(text: str) -> str:
        """Raise, once the other one has asked."""
        await asked.wait()
        raise ArithmeticError(text)

    engine.script("t", [("ask_person", {"text": "may I?"}), ("broken", {"text": "oh"})])
    agent = build(make_agent, world, [ask_person, broken])

    async def consume() -> None:
        async for chunk in agent.astream(HELLO, on("t"), stream_mode="updates"):
            if "__interrupt__" in chunk:
                asked.set()

    with pytest.raises(ArithmeticError):
        await consume()
    assert world.left() == {}
    assert world.finished == {Outcome.FAILED: 1}


async def test_agent_around_that_asks_nobody_keeps_its_seat(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    async with world.controller.agent("outer") as outer, outer.step():
        await build(make_agent, world, [ask_person]).ainvoke(HELLO, on("t"))
        assert world.seated == 1


async def test_agent_whose_person_never_answers_can_be_finished(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    agent = build(make_agent, world, [ask_person])
    await agent.ainvoke(HELLO, on("t"))
    assert world.controller.finish("t", Outcome.CANCELLED)
    result = await agent.ainvoke(Command(resume="after all"), on("t"))
    assert result["messages"][-1].content == "done"
    assert world.finished == {Outcome.CANCELLED: 1, Outcome.COMPLETED: 1}
