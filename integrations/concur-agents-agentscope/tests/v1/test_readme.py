"""The README's programs for 1.x."""

from __future__ import annotations

import asyncio

from agentscope.agent import ReActAgent
from agentscope.message import Msg
from agentscope.pipeline import fanout_pipeline

from concur_agents import Outcome
from concur_agents_agentscope import disable, uninstall

HELLO = Msg("user", "hello", "user")


async def test_every_agent_of_a_class(readme, make_agent):
    agents = [make_agent(name) for name in "ab"]
    names = {"ReActAgent": ReActAgent, "agents": agents, "fanout_pipeline": fanout_pipeline, "task": HELLO}
    try:
        await readme("install(ReActAgent", names)
    finally:
        uninstall(ReActAgent)
    assert len(names["replies"]) == 2
    assert names["concur"].stats().finished == {Outcome.COMPLETED: 2}


async def test_from_configuration_alone(readme, make_agent):
    names = {}
    before = make_agent("a")
    try:
        await readme("enable(", names)
        await asyncio.gather(*(agent(HELLO) for agent in (before, make_agent("b"))))
    finally:
        disable()
    assert names["concur"].stats().finished == {Outcome.COMPLETED: 2}
    await asyncio.to_thread(names["concur"].close)
