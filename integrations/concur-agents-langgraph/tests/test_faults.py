"""When Concur itself fails the agent goes on without it, and that is said once."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from concur_agents import Controller, Step
from concur_agents_langgraph import wrap

HELLO: Any = {"messages": [("user", "hello")]}


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


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a bug of Concur's")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.fixture
def scripted(engine: Any) -> None:
    for thread in ("t0", "t1"):
        engine.script(thread, [("echo", {"text": "hi"})], "done")


@pytest.mark.usefixtures("scripted")
async def test_closed_controller_lets_agents_go_on(world: Any, make_agent: Any, caplog: Any) -> None:
    world.controller.close()
    agent = make_agent(world, echo)
    for thread in ("t0", "t1"):
        assert (await agent.ainvoke(HELLO, on(thread)))["messages"][-1].content == "done"
    assert warnings_of(caplog) == ["Concur could not give an agent its seat; the agent goes on without"]


@pytest.mark.usefixtures("scripted")
def test_closed_controller_lets_sync_agents_go_on(world: Any, make_agent: Any, caplog: Any) -> None:
    world.controller.close()
    assert make_agent(world, echo).invoke(HELLO, on("t0"))["messages"][-1].content == "done"
    assert len(warnings_of(caplog)) == 1


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(
    ("owner", "method", "words"),
    [
        (Step, "observe", "observe usage"),
        (Step, "__aenter__", "give an agent its seat"),
        (Step, "__aexit__", "pause an agent"),
        (Controller, "finish", "finish an agent"),
    ],
)
async def test_bug_of_concur_costs_no_agent_its_reply(
    make_world: Any, make_agent: Any, caplog: Any, monkeypatch: Any, owner: Any, method: str, words: str
) -> None:
    world = make_world(2)
    monkeypatch.setattr(owner, method, fail)
    agent = make_agent(world, echo)
    for thread in ("t0", "t1"):
        assert (await agent.ainvoke(HELLO, on(thread)))["messages"][-1].content == "done"
    monkeypatch.undo()
    assert warnings_of(caplog) == [f"Concur could not {words}; the agent goes on without"]


async def test_bug_in_finish_does_not_hide_the_runs_own_error(world: Any, make_agent: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(Controller, "finish", fail)
    with pytest.raises(Exception, match=r"400"):
        await make_agent(world).ainvoke({"messages": [("user", "word " * 40_000)]}, on("t"))
    monkeypatch.undo()


async def test_bug_in_park_does_not_stop_an_interrupt(
    world: Any, engine: Any, make_agent: Any, caplog: Any, monkeypatch: Any
) -> None:
    engine.script("t", [("ask_person", {"text": "may I?"})], "done")
    monkeypatch.setattr(Controller, "park", fail)
    agent = make_agent(world, ask_person, checkpointer=InMemorySaver())
    assert "__interrupt__" in await agent.ainvoke(HELLO, on("t"))
    assert warnings_of(caplog) == ["Concur could not park an agent; the agent goes on without"]


async def test_agent_finished_from_outside_while_queued_goes_on(
    world: Any, engine: Any, make_agent: Any, caplog: Any
) -> None:
    import asyncio

    engine.script("t", "done")
    world.controller.sync.admit("holder")
    run = asyncio.create_task(make_agent(world).ainvoke(HELLO, on("t")))
    while "t" not in world.left():  # noqa: ASYNC110 - queueing is no event
        await asyncio.sleep(0)
    world.controller.finish("t")
    assert (await run)["messages"][-1].content == "done"
    assert len(warnings_of(caplog)) == 1


async def test_run_without_any_controlled_call_is_said_once(world: Any, model: Any, caplog: Any) -> None:
    agent = wrap(create_agent(model, name="bare"), world.controller)
    for _ in range(2):
        await agent.ainvoke(HELLO)
    assert len(warnings_of(caplog)) == 1
    assert "'bare' called no model through Concur: give create_agent(middleware=" in warnings_of(caplog)[0]
