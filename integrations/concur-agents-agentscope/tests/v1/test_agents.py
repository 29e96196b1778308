"""Several agents: pipelines, hubs, agents as tools, and one agent called twice at a time."""

from __future__ import annotations

import asyncio

import pytest
from agentscope.agent import UserAgent, UserInputBase
from agentscope.agent._user_input import UserInputData
from agentscope.message import Msg, TextBlock
from agentscope.pipeline import MsgHub, fanout_pipeline, sequential_pipeline

from concur_agents import AgentEventKind

HELLO = Msg("user", "hello", "user")
WORK = [("work", {"text": "x"})]
ONE_STEP = ["admitted", "paused", "completed"]
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]


@pytest.fixture
def done(engine):
    for agent in "abc":
        engine.script(agent, "done")


async def test_agents_in_sequence_take_turns(done, world, make_agent):
    await sequential_pipeline([make_agent(name, world) for name in "abc"], HELLO)
    assert world.lives() == dict.fromkeys("abc", ONE_STEP)


@pytest.mark.parametrize("gather", [True, False])
async def test_a_fanout_is_as_wide_as_the_window(done, make_world, make_agent, gather):
    world = make_world(2)
    replies = await fanout_pipeline([make_agent(name, world) for name in "abc"], HELLO, enable_gather=gather)
    assert [reply.get_text_content() for reply in replies] == ["done"] * 3
    assert world.lives() == dict.fromkeys("abc", ONE_STEP)


async def test_a_hub(done, world, make_agent):
    agents = [make_agent(name, world) for name in "abc"]
    async with MsgHub(agents, announcement=HELLO):
        for agent in agents:
            await agent()
    assert len(await agents[0].memory.get_memory()) == 4
    assert world.lives() == dict.fromkeys("abc", ONE_STEP)


async def test_agents_as_tools_share_their_callers_seat(done, engine, world, make_agent):
    parents = set()

    async def ask(whom: str) -> str:
        """Ask a colleague.

        Args:
            whom (str): who
        """

        async def look() -> str:
            """Look who is there."""
            parents.update((agent.agent_id, agent.parent) for agent in world.controller.agents())
            return "nobody"

        engine.script(whom, [("look", {})], "done")
        return str((await make_agent(whom, world, look)(HELLO)).get_text_content())

    engine.script("lead", [("ask", {"whom": "a"}), ("ask", {"whom": "b"})], "done")
    await make_agent("lead", world, ask)(HELLO)
    assert world.lives() == {"lead": TWO_STEPS, "a": TWO_STEPS, "b": TWO_STEPS}
    assert {("a", "lead"), ("b", "lead")} <= parents


async def test_an_agent_that_is_not_installed_runs_on_its_callers_seat(engine, world, make_agent, make_model):
    helper = make_agent("helper", model=make_model(client={"default_headers": {"X-Session-ID": "own"}}))

    async def ask() -> str:
        """Ask a colleague."""
        return str((await helper(HELLO)).get_text_content())

    engine.script("own", "done")
    engine.script("lead", [("ask", {})], "done")
    await make_agent("lead", world, ask)(HELLO)
    assert world.lives() == {"lead": TWO_STEPS}


async def test_one_agent_called_twice_at_a_time_is_two(engine, make_world, make_agent):
    world = make_world(2)
    engine.script("a", "done")
    agent = make_agent("a", world)
    engine.hang()
    first = asyncio.create_task(agent(HELLO))
    await world.seen("a", AgentEventKind.ADMITTED)
    second = asyncio.create_task(agent(HELLO))
    await world.until(lambda: len(world.left()) == 2)
    engine.go_on()
    await asyncio.gather(first, second)
    lives = world.lives()
    assert lives.pop("a") == ONE_STEP
    assert [(name[:2], life) for name, life in lives.items()] == [("a~", ONE_STEP)]


async def test_a_person_asked_outside_of_any_agent_is_nothing_to_it(world, make_agent):
    class Says(UserInputBase):
        async def __call__(self, *args, **kwargs):
            return UserInputData(blocks_input=[TextBlock(type="text", text="yes")])

    person = UserAgent("person")
    person.override_instance_input_method(Says())
    person.set_console_output_enabled(False)
    assert (await person()).get_text_content() == "yes"
    assert world.lives() == {}
