"""An agent inside an agent shares its seat, so one seat is enough for any tree of them."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from concur_agents import AgentEventKind, Outcome
from concur_agents_langgraph import ConcurMiddleware, wrap

HELLO: Any = {"messages": [("user", "hello")]}
WHOLE = ["admitted", "paused", "completed"]


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def asker(helper: Any, config: Any = None) -> Any:
    @tool
    async def ask(text: str) -> str:
        """Ask the helper."""
        return str((await helper.ainvoke({"messages": [("user", text)]}, config))["messages"][-1].content)

    return ask


def parents(world: Any) -> dict[str, str | None]:
    return {agent.agent_id: agent.parent for agent in world.controller.agents()}


async def test_wrapped_agents_in_tools_share_the_seat(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("boss", [("ask", {"text": "one"}), ("ask", {"text": "two"})], "done")
    result = await make_agent(world, asker(make_agent(world))).ainvoke(HELLO, on("boss"))
    lives = world.lives()
    assert result["messages"][-1].content == "done"
    assert lives.pop("boss") == ["admitted", "paused", "resumed", "paused", "completed"]
    assert list(lives.values()) == [WHOLE, WHOLE]
    assert all(name.startswith("boss/tools:") for name in lives)


def test_sync_agent_in_a_tool_shares_the_seat(world: Any, engine: Any, make_agent: Any) -> None:
    helper = make_agent(world)

    @tool
    def ask(text: str) -> str:
        """Ask the helper."""
        return str(helper.invoke(HELLO)["messages"][-1].content)

    engine.script("boss", [("ask", {"text": "one"}), ("ask", {"text": "two"})], "done")
    make_agent(world, ask).invoke(HELLO, on("boss"))
    assert world.finished == {Outcome.COMPLETED: 3}


async def test_helper_with_a_thread_of_its_own_is_a_sub_agent(world: Any, engine: Any, make_agent: Any) -> None:
    seen = {}

    @tool
    async def look(text: str) -> str:
        """Look around."""
        seen.update(parents(world))
        return text

    engine.script("helper", [("look", {"text": "hi"})], "done")
    engine.script("boss", [("ask", {"text": "one"})], "done")
    await make_agent(world, asker(make_agent(world, look), on("helper"))).ainvoke(HELLO, on("boss"))
    assert seen == {"boss": None, "helper": "boss"}


async def test_helpers_started_together_in_one_tool_are_different(world: Any, engine: Any, make_agent: Any) -> None:
    helper = make_agent(world)

    @tool
    async def ask(text: str) -> str:
        """Ask three helpers."""
        await asyncio.gather(*(helper.ainvoke(HELLO) for _ in range(3)))
        return text

    engine.script("boss", [("ask", {"text": "one"})], "done")
    await make_agent(world, ask).ainvoke(HELLO, on("boss"))
    assert world.finished == {Outcome.COMPLETED: 4}


@pytest.mark.parametrize("wrapped", [True, False])
async def test_failed_helper_fails_alone(world: Any, engine: Any, make_agent: Any, model: Any, wrapped: bool) -> None:
    helper: Any = create_agent(model, middleware=[ConcurMiddleware(world.controller)])
    helper = wrap(helper, world.controller) if wrapped else helper

    @tool
    async def ask(text: str) -> str:
        """Ask the helper for too much."""
        try:
            await helper.ainvoke({"messages": [("user", "word " * 40_000)]})
        except openai.BadRequestError:
            return "too much"
        return text

    engine.script("boss", [("ask", {"text": "one"})], "done")
    await make_agent(world, ask).ainvoke(HELLO, on("boss"))
    assert world.finished == {Outcome.FAILED: 1, Outcome.COMPLETED: 1}
    assert world.left() == {}


@pytest.mark.parametrize("wrapped", [True, False])
async def test_graph_that_leads_others_shares_its_seat_among_them(world: Any, model: Any, wrapped: bool) -> None:
    """It never calls a model itself; wrapped or not, its agents run side by side on its one seat."""
    member: Any = create_agent(model, middleware=[ConcurMiddleware(world.controller)])
    member = wrap(member, world.controller) if wrapped else member
    graph = StateGraph(MessagesState)
    for name in ("left", "right"):
        graph.add_node(name, member)
        graph.add_edge(START, name)
    await wrap(graph.compile(), world.controller).ainvoke(HELLO, on("team"))
    lives = world.lives()
    assert lives.pop("team") == WHOLE
    assert list(lives.values()) == [WHOLE, WHOLE]
    assert sorted(name.partition(":")[0] for name in lives) == ["team/left", "team/right"]


async def test_wrapped_agents_in_a_plain_graph_have_a_seat_each(make_world: Any, make_agent: Any) -> None:
    world = make_world(2)
    graph = StateGraph(MessagesState)
    seats = []
    for name in ("left", "right"):
        graph.add_node(name, make_agent(world))
        graph.add_edge(START, name)
    async for _ in graph.compile().astream(HELLO, on("team"), stream_mode="messages", subgraphs=True):
        seats.append(world.seated)
    assert max(seats) == 2
    assert list(world.lives().values()) == [WHOLE, WHOLE]


async def test_handoff_to_the_graph_around_is_a_good_end(world: Any, engine: Any, make_agent: Any) -> None:
    @tool
    def hand_over(text: str) -> Any:
        """Let the other one go on."""
        return Command(goto="right", graph=Command.PARENT)

    engine.script("left", [("hand_over", {"text": "hi"})])
    graph = StateGraph(MessagesState)
    graph.add_node("left", make_agent(world, hand_over, session="left"))
    graph.add_node("right", make_agent(world))
    graph.add_edge(START, "left")
    await graph.compile().ainvoke(HELLO, on("team"))
    assert list(world.lives().values()) == [WHOLE, WHOLE]


async def test_sub_agents_of_a_cancelled_run_end_with_it(world: Any, engine: Any, make_agent: Any, model: Any) -> None:
    helper = create_agent(model, middleware=[ConcurMiddleware(world.controller)])
    engine.script("boss", [("ask", {"text": "one"})], "done")
    agent = make_agent(world, asker(helper))
    stuck = asyncio.Event()

    async def run() -> None:
        async for _ in agent.astream(HELLO, on("boss"), stream_mode="updates"):
            engine.hang()
            stuck.set()

    task = asyncio.create_task(run())
    await stuck.wait()
    while len(world.left()) < 2:  # noqa: ASYNC110 - its id is not known before
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    engine.go_on()
    assert world.left() == {}
    assert world.finished == {Outcome.CANCELLED: 2}


@pytest.mark.parametrize("wrapped", [True, False])
async def test_background_helper_outlives_its_boss(
    world: Any, engine: Any, make_agent: Any, model: Any, wrapped: bool
) -> None:
    """Wrapped it is an agent of its own from then on; else it goes on without Concur. Nothing is left of either."""
    boss_done = asyncio.Event()
    tasks = []
    name = "helper" if wrapped else "boss/helper"

    @tool
    async def wait(text: str) -> str:
        """Wait for the boss."""
        await boss_done.wait()
        return text

    helper: Any = create_agent(model, [wait], middleware=[ConcurMiddleware(world.controller)])
    helper = wrap(helper, world.controller) if wrapped else helper

    @tool
    async def start(text: str) -> str:
        """Start the helper."""
        tasks.append(asyncio.create_task(helper.ainvoke(HELLO, on("helper"))))
        await world.seen(name, AgentEventKind.PAUSED)
        return text

    engine.script(name, [("wait", {"text": "hi"})], "helped")
    engine.script("boss", [("start", {"text": "hi"})], "done")
    await make_agent(world, start).ainvoke(HELLO, on("boss"))
    boss_done.set()
    assert (await tasks[0])["messages"][-1].content == "helped"
    assert world.left() == {}
