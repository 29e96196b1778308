"""Which agents are controlled, and by whom."""

from __future__ import annotations

import asyncio

import pytest
from agentscope.agent import AgentBase, ReActAgent
from agentscope.message import Msg

from concur_agents_agentscope import disable, enable, install, uninstall

HELLO = Msg("user", "hello", "user")
WORK = [("work", {"text": "x"})]
ONE_STEP = ["admitted", "paused", "completed"]
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]


class Own(ReActAgent):
    """A user's class."""


class Further(Own):
    """One that calls itself in another way."""

    async def __call__(self, *args, **kwargs):
        reply = await super().__call__(*args, **kwargs)
        reply.metadata = {"further": True}
        return reply


@pytest.fixture(autouse=True)
def _undone():
    yield
    disable()
    for kind in (Own, Further, ReActAgent):
        uninstall(kind)


@pytest.fixture
def done(engine):
    for agent in "ab":
        engine.script(agent, WORK, "done")


async def test_one_agent_alone(done, world, make_agent):
    a = make_agent("a")
    b = make_agent("b", model=a.model)
    assert install(a, world.controller) is a
    assert type(a) is ReActAgent
    await a(HELLO)
    await b(HELLO)
    assert world.lives() == {"a": TWO_STEPS}


@pytest.mark.parametrize("kind", [Own, Further])
async def test_every_agent_of_a_class_and_of_its_subclasses(done, world, make_agent, kind):
    before = make_agent("a", kind=kind)
    assert install(Own, world.controller) is Own
    other = make_agent("b")
    await before(HELLO)
    await other(HELLO)
    assert world.lives() == {"a": TWO_STEPS}


async def test_a_class_that_calls_itself_otherwise(done, world, make_agent):
    install(Further, world.controller)
    assert (await make_agent("a", kind=Further)(HELLO)).metadata == {"further": True}
    assert world.lives() == {"a": TWO_STEPS}


async def test_installed_twice_is_as_once(done, world, make_agent):
    agent = install(make_agent("a", world), world.controller)
    install(ReActAgent, world.controller)
    call = AgentBase.__call__
    install(ReActAgent, world.controller)
    assert AgentBase.__call__ is call
    await agent(HELLO)
    assert world.lives() == {"a": TWO_STEPS}


async def test_the_last_controller_counts_and_the_agents_own_goes_first(done, make_world, make_agent):
    own, last, of_class = make_world(1), make_world(1), make_world(1)
    install(ReActAgent, of_class.controller)
    a, b = make_agent("a", own), make_agent("b")
    install(a, last.controller)
    await a(HELLO)
    await b(HELLO)
    assert (own.lives(), last.lives(), of_class.lives()) == ({}, {"a": TWO_STEPS}, {"b": TWO_STEPS})


async def test_uninstalled_agents_run_as_they_did(done, world, make_agent):
    agent = make_agent("a", world)
    await agent(HELLO)
    uninstall(agent)
    uninstall(agent)
    await agent(HELLO)
    install(Own, world.controller)
    uninstall(Own)
    await make_agent("b", kind=Own)(HELLO)
    assert world.lives() == {"a": TWO_STEPS}


@pytest.mark.parametrize("target", ["an agent", dict, None])
def test_only_agents_and_their_classes(target, world):
    with pytest.raises(TypeError, match="target must be an agent or a class of agents, got"):
        install(target, world.controller)


async def test_enabled_for_agents_made_before_and_after(done, make_world, make_agent):
    world = make_world(2)
    before = make_agent("a")
    assert enable(world.controller) is world.controller
    await asyncio.gather(before(HELLO), make_agent("b", kind=Further)(HELLO))
    disable()
    await before(HELLO)
    assert world.lives() == {"a": TWO_STEPS, "b": TWO_STEPS}


async def test_the_last_call_of_enable_counts(done, make_world, make_agent):
    first, last = make_world(1), make_world(1)
    agent = make_agent("a")
    enable(first.controller)
    enable(last.controller)
    await agent(HELLO)
    assert (first.lives(), last.lives()) == ({}, {"a": TWO_STEPS})


async def test_one_that_only_leads_others_can_be_left_out(done, make_world, make_agent):
    """Else they would all share its seat."""

    class Leader(AgentBase):
        async def reply(self, *args, **kwargs):
            return (await asyncio.gather(*(make_agent(name)(HELLO) for name in "ab")))[0]

    world = make_world(1)
    enable(world.controller)
    leader = install(Leader(), None)
    await leader(HELLO)
    lives = world.lives()
    assert lives == {"a": TWO_STEPS, "b": TWO_STEPS}


async def test_the_users_hooks_work_as_before(done, world, make_agent):
    agent, seen = make_agent("a", world), []
    agent.register_instance_hook("pre_reasoning", "mine", lambda agent, kwargs: seen.append("before"))
    agent.register_instance_hook("post_reasoning", "mine", lambda agent, kwargs, output: seen.append("after"))
    await agent(HELLO)
    assert seen == ["before", "after"] * 2
    assert world.lives() == {"a": TWO_STEPS}
