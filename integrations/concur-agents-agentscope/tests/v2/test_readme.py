"""The README's programs for 2.x."""

from __future__ import annotations

import asyncio

from agentscope.agent import Agent
from agentscope.message import UserMsg

from concur_agents import Outcome
from concur_agents_agentscope import disable

HELLO = UserMsg(name="user", content="hello")


async def test_agent_by_agent(readme, make_model):
    names = {
        "asyncio": asyncio,
        "Agent": Agent,
        "names": ["a", "b"],
        "prompt": "You work.",
        "model": make_model(),
        "task": HELLO,
    }
    await readme("Agent(name, prompt, model, middlewares=", names)
    assert len(names["replies"]) == 2
    assert names["concur"].stats().finished == {Outcome.COMPLETED: 2}


async def test_from_configuration_alone(readme, make_agent):
    names = {}
    before = make_agent("a")
    try:
        await readme("enable(", names)
        await asyncio.gather(*(agent.reply(HELLO) for agent in (before, make_agent("b"))))
    finally:
        disable()
    assert names["concur"].stats().finished == {Outcome.COMPLETED: 2}
    await asyncio.to_thread(names["concur"].close)
