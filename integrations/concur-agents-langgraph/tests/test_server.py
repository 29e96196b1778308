"""As a LangGraph server runs agents: many threads at once, checkpoints on disk, any process may go on with a thread."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from concur_agents import AgentEventKind, Outcome
from concur_agents_langgraph import ConcurMiddleware, add_concur, wrap

HELLO: Any = {"messages": [("user", "hello")]}


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@tool
def ask_person(text: str) -> str:
    """Ask."""
    return str(interrupt(text))


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def test_many_threads_stream_at_once_on_one_loop(
    make_world: Any, engine: Any, make_agent: Any, tmp_path: Path
) -> None:
    world = make_world(3)
    threads = [f"thread-{i}" for i in range(20)]
    for thread in threads:
        engine.script(thread, [("echo", {"text": thread}), ("echo", {"text": "again"})], f"done {thread}")
    seats = []
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        agent = make_agent(world, echo, checkpointer=saver)

        async def run(thread: str) -> str:
            states = []
            async for state in agent.astream(HELLO, on(thread), stream_mode="values"):
                seats.append(world.seated)
                states.append(state)
            return str(states[-1]["messages"][-1].content)

        assert await asyncio.gather(*map(run, threads)) == [f"done {thread}" for thread in threads]
    assert max(seats) == 3
    lives = world.lives()
    assert set(lives) == set(threads)
    assert {tuple(life) for life in lives.values()} == {("admitted", "paused", "resumed", "paused", "completed")}


async def test_thread_goes_on_in_another_process(world: Any, engine: Any, make_agent: Any, tmp_path: Path) -> None:
    """The first process ends its agent at the interrupt; in the second it is a new agent of the same name."""
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    database = str(tmp_path / "checkpoints.sqlite")
    script = Path(__file__).with_name("interrupted_process.py")
    first = await asyncio.create_subprocess_exec(
        sys.executable, script, engine.url, database, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await first.communicate()
    assert json.loads(said) == {"question": "may I?", "left": [], "finished": {"completed": 1}}
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        agent = make_agent(world, ask_person, checkpointer=saver)
        result = await agent.ainvoke(Command(resume="yes"), on("t"))
    assert [message.content for message in result["messages"][-2:]] == ["yes", "done"]
    assert world.lives() == {"t": ["admitted", "paused", "completed"]}


@pytest.mark.parametrize("blocking", [True, False])
async def test_agent_of_an_interrupted_run_can_be_let_go(
    world: Any, engine: Any, make_agent: Any, model: Any, blocking: bool
) -> None:
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    middleware = [ConcurMiddleware(world.controller)]
    agent: Any = create_agent(model, [ask_person], middleware=middleware, checkpointer=InMemorySaver())
    agent = wrap(agent, world.controller, park_on_interrupt=False).with_config(tags=["a copy too"])
    for state in [HELLO, Command(resume="yes")]:
        result = agent.invoke(state, on("t")) if blocking else await agent.ainvoke(state, on("t"))
    assert result["messages"][-1].content == "done"
    assert world.lives() == {"t": ["admitted", "paused", "completed"] * 2}


async def test_hand_made_graph_can_let_go_too(world: Any) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {})
    graph.add_node("ask", lambda state: interrupt("may I?"))
    graph.add_edge(START, "model")
    graph.add_edge("model", "ask")
    options: Any = {"checkpointer": InMemorySaver(), "park_on_interrupt": False, "tool_node": ()}
    await add_concur(graph, world.controller, **options).ainvoke(HELLO, on("t"))
    assert world.lives() == {"t": ["admitted", "paused", "completed"]}


async def test_question_that_nobody_can_come_back_to_ends_the_agent(
    make_world: Any, engine: Any, make_agent: Any
) -> None:
    """A run under a name made up for it, beside another of its thread, is not what a later run goes on with."""
    world = make_world(2)
    agent = make_agent(world, ask_person, echo, checkpointer=InMemorySaver(), session="both")
    engine.script("both", [("ask_person", {"text": "may I?"})])
    engine.hang()
    first = asyncio.create_task(agent.ainvoke(HELLO, on("t")))
    await world.seen("t", AgentEventKind.ADMITTED)
    second = asyncio.create_task(agent.ainvoke(HELLO, on("t")))
    while len(world.left()) < 2:  # noqa: ASYNC110 - its name is not known before
        await asyncio.sleep(0)
    engine.go_on()
    await asyncio.gather(first, second)
    assert world.left() == {"t": "parked"}
    assert world.finished == {Outcome.COMPLETED: 1}


async def test_double_texting_cancels_the_first_run_and_begins_anew(world: Any, engine: Any, make_agent: Any) -> None:
    """A server's "interrupt" strategy. The second run begins before the first has gone, and is not held up by it."""
    agent = make_agent(world, echo, checkpointer=InMemorySaver(), session="t")
    engine.script("t", "first", "second")
    engine.hang()
    first = asyncio.create_task(agent.ainvoke(HELLO, on("t")))
    await world.seen("t", AgentEventKind.ADMITTED)
    first.cancel()
    second = asyncio.create_task(agent.ainvoke(HELLO, on("t")))
    with pytest.raises(asyncio.CancelledError):
        await first
    engine.go_on()
    await second
    assert world.left() == {}
    assert world.finished == {Outcome.CANCELLED: 1, Outcome.COMPLETED: 1}


async def test_double_texting_while_a_person_is_asked_goes_on_as_the_same_agent(
    world: Any, engine: Any, make_agent: Any
) -> None:
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    agent = make_agent(world, ask_person, checkpointer=InMemorySaver())
    await agent.ainvoke(HELLO, on("t"))
    assert world.left() == {"t": "parked"}
    await agent.ainvoke(HELLO, on("t"))  # no answer, but another message
    assert world.lives() == {"t": ["admitted", "paused", "parked", "resumed", "paused", "completed"]}
