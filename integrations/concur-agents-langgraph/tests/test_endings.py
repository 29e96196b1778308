"""Ends that are LangGraph's own (the shipped contract has the others): one finish, the right outcome, nothing held."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import interrupt

from concur_agents import AgentEventKind, Outcome
from concur_agents_langgraph import ConcurMiddleware, add_concur, wrap

HELLO: Any = {"messages": [("user", "hello")]}
TOO_LONG: Any = {"messages": [("user", "word " * 40_000)]}  # beyond the emulated pool: HTTP 400


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def ask_person(text: str) -> str:
    """Ask."""
    return str(interrupt(text))


@tool
def broken(text: str) -> str:
    """Raise."""
    raise ArithmeticError(text)


class RaisesAfterTheModel(AgentMiddleware):
    def after_model(self, state: Any, runtime: Any) -> None:
        raise ArithmeticError("another middleware")


# Each agent is called "t" and says what its script says.


async def test_error_of_another_middleware_fails_the_agent(world: Any, make_agent: Any) -> None:
    agent = make_agent(world, middleware=(RaisesAfterTheModel(),))
    with pytest.raises(ArithmeticError, match="another middleware"):
        await agent.ainvoke(HELLO, on("t"))
    assert (world.left(), world.seated) == ({}, 0)
    assert world.lives() == {"t": ["admitted", "paused", "failed"]}


async def test_recursion_limit_fails_the_agent(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", *[[("echo", {"text": "again"})]] * 9)
    with pytest.raises(GraphRecursionError):
        await make_agent(world, echo).ainvoke(HELLO, {**on("t"), "recursion_limit": 4})
    assert (world.left(), world.seated) == ({}, 0)
    assert world.lives()["t"][-1] == "failed"


async def test_interrupt_parks_the_agent_and_keeps_it_known(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    result = await make_agent(world, ask_person, checkpointer=InMemorySaver()).ainvoke(HELLO, on("t"))
    assert "__interrupt__" in result
    assert (world.left(), world.seated) == ({"t": "parked"}, 0)


async def test_closed_stream_cancels_the_agent(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    stream = make_agent(world, echo).astream(HELLO, on("t"), stream_mode="updates")
    await anext(stream)
    assert world.left() == {"t": "in_tool"}
    await stream.aclose()
    assert world.lives() == {"t": ["admitted", "paused", "cancelled"]}


@pytest.mark.parametrize("cycle", [False, True])
async def test_dropped_stream_cancels_the_agent(world: Any, engine: Any, make_agent: Any, cycle: bool) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    problems: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    held: list[Any] = [make_agent(world, echo).astream(HELLO, on("t"), stream_mode="updates")]
    await anext(held[0])
    if cycle:  # the collector then closes our generator and LangGraph's, in any order
        held.append(held)
    del held
    gc.collect()
    await world.seen("t", AgentEventKind.FINISHED)
    assert (world.left(), world.finished, problems) == ({}, {Outcome.CANCELLED: 1}, [])


def test_stream_left_open_when_the_loop_ends_cancels_the_agent(world: Any, engine: Any, caplog: Any) -> None:
    """The loop then closes our generator and LangGraph's side by side, and the second to come finds it done."""
    engine.script("t", [("echo", {"text": "hi"})], "done")
    held = []

    async def main() -> None:
        async with engine.model() as model:
            middleware = [ConcurMiddleware(world.controller)]
            agent = wrap(create_agent(model, [echo], middleware=middleware), world.controller)
            held.append(agent.astream(HELLO, on("t"), stream_mode="updates"))
            await anext(held[0])

    asyncio.run(main())
    assert not [record for record in caplog.records if "_Wrapped" in record.getMessage()]
    assert world.lives() == {"t": ["admitted", "paused", "cancelled"]}


async def test_stream_that_is_never_begun_is_nobody(world: Any, make_agent: Any) -> None:
    await make_agent(world).astream(HELLO, on("t")).aclose()
    assert world.lives() == {}


async def test_cancel_between_two_chunks_cancels_the_agent(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    got = asyncio.Event()

    async def consume() -> None:
        async for _ in make_agent(world, echo).astream(HELLO, on("t"), stream_mode="updates"):
            got.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await got.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.seen("t", AgentEventKind.FINISHED)
    assert world.finished == {Outcome.CANCELLED: 1}


async def test_cancel_of_a_batch_ends_the_queued_and_the_running(world: Any, engine: Any, make_agent: Any) -> None:
    engine.hang()
    batch = asyncio.create_task(make_agent(world).abatch([HELLO] * 5, [on(f"t{i}") for i in range(5)]))
    await world.seen("t0", AgentEventKind.ADMITTED)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch  # as soon as the first of them is gone
    await world.seen("t0", AgentEventKind.FINISHED)
    engine.go_on()
    assert (world.left(), world.seated) == ({}, 0)
    assert world.lives() == {"t0": ["admitted", "paused", "cancelled"]}


async def test_drained_run_cancels_the_agent(world: Any, engine: Any, make_agent: Any) -> None:
    control = RunControl()

    @tool
    async def shut_down(text: str) -> str:
        """Ask the run to stop at its next boundary."""
        control.request_drain()
        return text

    engine.script("t", [("shut_down", {"text": "hi"})], "done")
    with pytest.raises(GraphDrained):
        await make_agent(world, shut_down).ainvoke(HELLO, on("t"), control=control)
    assert world.lives() == {"t": ["admitted", "paused", "cancelled"]}


def test_sync_success(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"}), ("echo", {"text": "ho"})], "done")
    result = make_agent(world, echo).invoke(HELLO, on("t"))
    assert result["messages"][-1].content == "done"
    assert world.lives() == {"t": ["admitted", "paused", "resumed", "paused", "completed"]}


def test_sync_model_error(world: Any, make_agent: Any) -> None:
    with pytest.raises(Exception, match=r"400"):
        make_agent(world).invoke(TOO_LONG, on("t"))
    assert world.lives() == {"t": ["admitted", "paused", "failed"]}


def test_sync_tool_error(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("broken", {"text": "oh"})], "done")
    with pytest.raises(ArithmeticError):
        make_agent(world, broken).invoke(HELLO, on("t"))
    assert world.lives() == {"t": ["admitted", "paused", "failed"]}


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Programs in the background are started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_sync_run_interrupted_in_a_tool(world: Any, engine: Any, make_agent: Any) -> None:
    """LangGraph waits for the tool's thread; the run, and with it the agent, ends when that returns."""

    @tool
    def interrupted(text: str) -> str:
        """Work until somebody presses Ctrl-C."""
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return text

    engine.script("t", [("interrupted", {"text": "hi"})], *[[("interrupted", {"text": "again"})]] * 5)
    with pytest.raises(KeyboardInterrupt):
        make_agent(world, interrupted).invoke(HELLO, on("t"))
    assert world.lives()["t"][-1] == "cancelled"


def test_sync_closed_stream(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    stream = make_agent(world, echo).stream(HELLO, on("t"), stream_mode="updates")
    next(stream)
    stream.close()
    assert world.lives() == {"t": ["admitted", "paused", "cancelled"]}


def test_sync_stream_closed_while_a_thread_of_it_is_queued(world: Any) -> None:
    """Closing waits for the graph's threads, so it must not wait for the seat that one of them waits for."""
    world.controller.sync.admit("holder")
    called = []
    graph = StateGraph(MessagesState)
    graph.add_node("quick", lambda state: {})
    graph.add_node("model", lambda state: called.append("model") or {})
    graph.add_edge(START, "quick")
    graph.add_edge(START, "model")
    stream = add_concur(graph, world.controller, tool_node=()).stream(HELLO, on("t"), stream_mode="updates")
    assert list(next(stream)) == ["quick"]
    while world.controller.stats().population.waiting == 0:
        pass
    stream.close()
    assert called == []
    assert world.left() == {"holder": "generating"}
