"""Every way a call ends."""

from __future__ import annotations

import asyncio

import pytest
from agentscope.agent import AgentBase, ReActAgent
from agentscope.message import Msg

from concur_agents import AgentEventKind
from concur_agents_agentscope import install

HELLO = Msg("user", "hello", "user")
WORK = [("work", {"text": "x"})]
CANCELLED = ["admitted", "paused", "cancelled"]


class Stuck:
    """A tool that does not return."""

    def __init__(self) -> None:
        self.calls = 0
        self.called = asyncio.Event()

    async def work(self, text: str) -> str:
        self.calls += 1
        self.called.set()
        await asyncio.get_running_loop().create_future()
        return text

    def tool(self):
        async def work(text: str) -> str:
            """Do some work.

            Args:
                text (str): what to do
            """
            return await self.work(text)

        return work


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
@pytest.mark.parametrize("parallel", [True, False])
async def test_interrupted_in_tools_returns_a_message(engine, world, make_agent, how, parallel):
    calls = 3 if parallel else 1  # AgentScope leaves the others unawaited, and Python warns of them
    engine.script("a", WORK * calls, "never")
    stuck = Stuck()
    agent = make_agent("a", world, stuck.tool(), parallel_tool_calls=parallel)
    running = asyncio.create_task(agent(HELLO))
    await stuck.called.wait()
    if how == "interrupt":
        await agent.interrupt()
    else:
        running.cancel()
    assert "interrupted me" in (await running).get_text_content()
    assert stuck.calls == calls
    assert world.lives() == {"a": CANCELLED}


async def test_interrupted_while_generating_goes_on_later(engine, world, make_agent):
    engine.script("a", "never", "done")
    agent = make_agent("a", world)
    engine.hang()
    try:
        running = asyncio.create_task(agent(HELLO))
        await world.seen("a", AgentEventKind.ADMITTED)
        await asyncio.sleep(0)
        await agent.interrupt()
        await running
        assert world.left() == {}
    finally:
        engine.go_on()
    await agent(HELLO)
    assert world.lives() == {"a": [*CANCELLED, "admitted", "paused", "completed"]}


async def test_interrupted_while_queued_was_never_here(world, make_agent):
    await world.controller.admit("holder")
    agent = make_agent("a", world)
    running = asyncio.create_task(agent(HELLO))
    await world.until(lambda: world.left().get("a") == "waiting")
    await agent.interrupt()
    await running
    assert world.left() == {"holder": "generating"}
    world.controller.finish("holder")
    assert "a" not in world.lives()


async def test_a_tool_that_gives_up_interrupts(engine, world, make_agent):
    """A tool's own CancelledError, with nobody cancelling the task."""

    async def work(text: str) -> str:
        """Do some work.

        Args:
            text (str): what to do
        """
        raise asyncio.CancelledError

    engine.script("a", WORK, "never")
    assert "interrupted me" in (await make_agent("a", world, work)(HELLO)).get_text_content()
    assert world.lives() == {"a": CANCELLED}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_error_fails_the_agent(world, make_agent, make_model, stream):
    """No post hook of AgentScope fires then."""
    agent = make_agent("a", world, model=make_model(url="http://127.0.0.1:9/v1", stream=stream))
    with pytest.raises(Exception, match="Connection error"):
        await agent(HELLO)
    assert world.lives() == {"a": ["admitted", "paused", "failed"]}


async def test_a_tools_error_is_told_to_the_model(engine, world, make_agent):
    async def work(text: str) -> str:
        """Do some work.

        Args:
            text (str): what to do
        """
        raise ArithmeticError(text)

    engine.script("a", WORK, "done")
    assert (await make_agent("a", world, work)(HELLO)).get_text_content() == "done"
    assert world.lives() == {"a": ["admitted", "paused", "resumed", "paused", "completed"]}


async def test_interrupting_an_agent_in_a_tool_leaves_its_caller(engine, world, make_agent):
    """They run in one task, which is what AgentScope cancels."""
    stuck = Stuck()
    child = make_agent("child", world, stuck.tool())

    async def ask() -> str:
        """Ask a colleague."""
        return str((await child(HELLO)).get_text_content())

    engine.script("child", WORK, "never")
    engine.script("a", [("ask", {})], "done")
    running = asyncio.create_task(make_agent("a", world, ask, parallel_tool_calls=False)(HELLO))
    await stuck.called.wait()
    await child.interrupt()
    assert (await running).get_text_content() == "done"
    assert world.lives() == {"child": CANCELLED, "a": ["admitted", "paused", "resumed", "paused", "completed"]}


async def test_an_agent_of_ones_own_may_not_handle_it(engine, world, make_agent):
    class Own(ReActAgent):
        handle_interrupt = AgentBase.handle_interrupt

    stuck = Stuck()
    engine.script("a", WORK, "never")
    running = asyncio.create_task(make_agent("a", world, stuck.tool(), kind=Own)(HELLO))
    await stuck.called.wait()
    running.cancel()
    with pytest.raises(NotImplementedError):
        await running
    assert world.lives() == {"a": CANCELLED}


async def test_an_agent_of_ones_own_may_raise_anything(world):
    class Odd(AgentBase):
        async def reply(self, *args, **kwargs):
            raise SystemExit(3)

    agent = install(Odd(), world.controller)
    with pytest.raises(SystemExit):
        await agent()
    assert world.lives() == {}
