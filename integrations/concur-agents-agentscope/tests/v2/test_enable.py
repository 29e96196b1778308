"""Control without code per agent."""

from __future__ import annotations

import asyncio

import pytest
from agentscope.agent import Agent
from agentscope.message import UserMsg

from concur_agents_agentscope import ConcurMiddleware, disable, enable

HELLO = UserMsg(name="user", content="hello")
WORK = [("work", {"text": "x"})]
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]


@pytest.fixture(autouse=True)
def _undone():
    before = Agent._reply, Agent.compress_context
    yield
    disable()
    assert before == (Agent._reply, Agent.compress_context)


async def test_agents_made_before_and_after_are_controlled(engine, make_world, make_agent):
    world = make_world(2)
    before = make_agent("before")
    assert enable(world.controller) is world.controller
    after = make_agent("after")
    for agent in (before, after):
        engine.script(agent.name, WORK, "done")
    await asyncio.gather(before.reply(HELLO), anext(after.reply_stream(HELLO)))
    await before.reply(HELLO)
    assert world.lives()["before"] == [*TWO_STEPS, "admitted", "paused", "completed"]


async def test_an_agents_own_middleware_goes_first(engine, make_world, make_agent):
    world, own = make_world(1), make_world(1)
    enable(world.controller)
    engine.script("s", WORK, "done")
    await make_agent("s", own).reply(HELLO)
    assert (own.lives(), world.lives()) == ({"s": TWO_STEPS}, {})


async def test_the_last_call_counts(engine, make_world, make_agent):
    first, last = make_world(1), make_world(1)
    agent = make_agent("s")
    engine.script("s", WORK, "done")
    enable(first.controller)
    await agent.reply(HELLO)
    enable(last.controller)
    enable(last.controller)
    engine.script("s", *[WORK] * 2, "done")
    await agent.reply(HELLO)
    assert (first.lives(), len(last.lives())) == ({"s": TWO_STEPS}, 1)


async def test_disabling_leaves_agents_as_they_were(engine, world, make_agent):
    agent = make_agent("s")
    enable(world.controller)
    engine.script("s", "done")
    await agent.reply(HELLO)
    assert isinstance(agent._reply_middlewares[0], ConcurMiddleware)
    disable()
    disable()
    assert agent._reply_middlewares == agent._model_call_middlewares == []
    await agent.reply(HELLO)
    assert world.lives() == {"s": ["admitted", "paused", "completed"]}


async def test_compressing_between_replies_is_controlled(engine, world, make_agent):
    agent = make_agent("s")
    enable(world.controller)
    await agent.compress_context()
    assert isinstance(agent._compress_context_middlewares[0], ConcurMiddleware)


async def test_sub_agents_share_their_parents_seat(engine, world, make_agent):
    enable(world.controller)
    child = make_agent("child")

    async def ask() -> str:
        """Ask a colleague."""
        return str((await child.reply(HELLO)).get_text_content())

    engine.script("child", "done")
    engine.script("parent", [("ask", {})], "done")
    await make_agent("parent", None, ask).reply(HELLO)
    assert world.lives() == {"parent": TWO_STEPS, "child": ["admitted", "paused", "completed"]}
