"""Who an agent is: its thread, or a name of its own; never somebody else by accident."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from concur_agents_langgraph import ConcurMiddleware, NotWrappedError, wrap

HELLO: Any = {"messages": [("user", "hello")]}


def on(thread: Any) -> Any:
    return {"configurable": {"thread_id": thread}}


class Recorder(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.roots: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, parent_run_id: Any = None, **_: Any) -> None:
        if parent_run_id is None:
            self.roots.append(run_id)


@pytest.mark.parametrize("thread", ["task-17", 17, uuid.UUID(int=17)])
async def test_thread_is_the_agent(world: Any, make_agent: Any, thread: Any) -> None:
    await make_agent(world).ainvoke(HELLO, on(thread))
    assert list(world.lives()) == [str(thread)]


async def test_runs_without_a_thread_are_different_agents(world: Any, make_agent: Any) -> None:
    agent = make_agent(world)
    await asyncio.gather(*(agent.ainvoke(HELLO) for _ in range(3)))
    assert list(world.lives().values()) == [["admitted", "paused", "completed"]] * 3


async def test_two_runs_of_one_thread_at_a_time_are_two_agents(make_world: Any, make_agent: Any, model: Any) -> None:
    """Also when they are runs of two graphs, of which one may end before the other."""
    world = make_world(2)
    await asyncio.gather(make_agent(world).ainvoke(HELLO, on("t")), make_agent(world).ainvoke(HELLO, on("t")))
    lives = world.lives()
    assert sorted(name.partition("~")[0] for name in lives) == ["t", "t"]
    assert list(lives.values()) == [["admitted", "paused", "completed"]] * 2


async def test_runs_of_one_thread_in_turn_are_one_agent_in_turn(world: Any, make_agent: Any) -> None:
    agent = make_agent(world, checkpointer=InMemorySaver())
    for _ in range(2):
        await agent.ainvoke(HELLO, on("t"))
    assert world.lives() == {"t": ["admitted", "paused", "completed"] * 2}


async def test_run_inside_an_agent_of_the_controller_shares_its_seat(world: Any, make_agent: Any) -> None:
    async with world.controller.agent("outer") as outer, outer.step():
        await make_agent(world).ainvoke(HELLO, on("t"))
    assert world.lives() == {
        "outer": ["admitted", "paused", "completed"],
        "t": ["admitted", "paused", "completed"],
    }


async def test_agent_that_a_tool_begins_on_the_controller_shares_the_seat(
    world: Any, engine: Any, make_agent: Any
) -> None:
    @tool
    async def think(text: str) -> str:
        """Call some model without LangChain."""
        async with world.controller.agent("helper") as helper, helper.step():
            return text

    engine.script("t", [("think", {"text": "hi"})], "done")
    await make_agent(world, think).ainvoke(HELLO, on("t"))
    assert world.lives()["helper"] == ["admitted", "paused", "completed"]


async def test_what_a_streams_consumer_begins_is_no_sub_agent(world: Any, make_agent: Any) -> None:
    parents = [
        world.controller.agent("other").parent
        async for _ in make_agent(world).astream(HELLO, on("t"), stream_mode="updates")
    ]
    parents += [
        world.controller.agent("other").parent for _ in make_agent(world).stream(HELLO, on("t"), stream_mode="updates")
    ]
    assert parents == [None, None]


async def test_users_callbacks_and_run_id_stay(world: Any, make_agent: Any) -> None:
    recorders, run_id = [Recorder() for _ in range(3)], uuid.uuid4()
    agent = make_agent(world).with_config(callbacks=[recorders[0]])
    await agent.ainvoke(HELLO, {**on("t"), "callbacks": [recorders[1]], "run_id": run_id})
    manager = AsyncCallbackManager([], inheritable_handlers=[])
    manager.add_handler(recorders[2])
    await agent.ainvoke(HELLO, {**on("t"), "callbacks": manager})
    assert recorders[1].roots == [run_id]
    assert recorders[0].roots[0] == run_id
    assert (len(recorders[0].roots), len(recorders[2].roots)) == (2, 1)
    assert len(manager.handlers) == 1


async def test_wrapped_graph_is_still_its_graph(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", "done")
    agent = make_agent(world, checkpointer=InMemorySaver(), name="solver").with_config(tags=["x"])
    assert isinstance(agent, CompiledStateGraph)
    assert (agent.name, wrap(agent, world.controller)) == ("solver", agent)
    await (RunnableLambda(lambda text: {"messages": [("user", text)]}) | agent).ainvoke("hello", on("t"))
    assert (await agent.aget_state(on("t"))).values["messages"][-1].content == "done"
    assert world.lives() == {"t": ["admitted", "paused", "completed"]}


async def test_forgotten_wrap_shows_in_the_first_run(world: Any, model: Any) -> None:
    agent = create_agent(model, middleware=[ConcurMiddleware(world.controller)])
    with pytest.raises(NotWrappedError, match=r"agent = wrap\(agent, controller\)"):
        await agent.ainvoke(HELLO)
    with pytest.raises(NotWrappedError):
        agent.invoke(HELLO)
    assert world.lives() == {}


async def test_two_controllers_in_one_graph_are_refused(make_world: Any, model: Any) -> None:
    one, other = make_world(), make_world()
    agent = wrap(create_agent(model, middleware=[ConcurMiddleware(one.controller)]), other.controller)
    with pytest.raises(ValueError, match="different controllers"):
        await agent.ainvoke(HELLO)
    with pytest.raises(ValueError, match="another controller already"):
        wrap(agent, one.controller)


def test_only_compiled_graphs_can_be_wrapped(world: Any, make_agent: Any) -> None:
    with pytest.raises(TypeError, match="got RunnableRetry: wrap the graph first"):
        wrap(make_agent(world).with_retry(), world.controller)
