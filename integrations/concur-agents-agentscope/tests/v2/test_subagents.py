"""Agents in agents, and two replies of one session at a time."""

from __future__ import annotations

import asyncio

from agentscope.message import UserMsg

from concur_agents import AgentEventKind

HELLO = UserMsg(name="user", content="hello")
WORK = [("work", {"text": "x"})]
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]


async def test_agents_called_in_parallel_tools_share_the_seat(engine, world, make_agent):
    children = [make_agent(name, world) for name in ("child-a", "child-b")]
    parents = set()

    async def ask(child: int) -> str:
        """Ask a colleague.

        Args:
            child (int): which
        """
        reply = await children[child].reply(HELLO)
        parents.update((agent.agent_id, agent.parent) for agent in world.controller.agents())
        return str(reply.get_text_content())

    for child in children:
        engine.script(child.name, WORK, "done")
    engine.script("parent", [("ask", {"child": 0}), ("ask", {"child": 1})], "done")
    await make_agent("parent", world, ask).reply(HELLO)
    assert world.lives() == {"parent": TWO_STEPS, "child-a": TWO_STEPS, "child-b": TWO_STEPS}
    assert {parent for agent, parent in parents if agent != "parent"} == {"parent"}


async def test_an_agent_without_the_middleware_runs_on_its_parents_seat(engine, world, make_agent, make_model):
    engine.script("own", "done")
    child = make_agent("child", model=make_model(client={"default_headers": {"X-Session-ID": "own"}}))

    async def ask() -> str:
        """Ask a colleague."""
        return str((await child.reply(HELLO)).get_text_content())

    engine.script("parent", [("ask", {})], "done")
    await make_agent("parent", world, ask).reply(HELLO)
    assert world.lives() == {"parent": TWO_STEPS}


async def test_two_replies_of_one_session_are_two_agents(engine, make_world, make_agent):
    world = make_world(2)
    engine.script("s", "done")
    first, second = make_agent("s", world), make_agent("s", world)
    engine.hang()
    running = asyncio.create_task(first.reply(HELLO))
    await world.seen("s", AgentEventKind.ADMITTED)
    other = asyncio.create_task(second.reply(HELLO))
    await world.until(lambda: len(world.left()) == 2)
    engine.go_on()
    await asyncio.gather(running, other)
    lives = world.lives()
    assert lives.pop("s") == ["admitted", "paused", "completed"]
    assert [(name[:2], life) for name, life in lives.items()] == [("s~", ["admitted", "paused", "completed"])]


async def test_what_a_tool_started_and_left_behind_is_no_sub_agent(engine, make_world, make_agent):
    """A tool that sends an agent off: it goes on after the reply that sent it has ended."""
    world = make_world(2)
    errand, begin = make_agent("errand", world), asyncio.Event()
    sent = []

    async def send() -> str:
        """Send somebody off."""

        async def go() -> None:
            await begin.wait()
            await errand.reply(HELLO)

        sent.append(asyncio.create_task(go()))
        return "sent"

    engine.script("errand", WORK, "done")
    engine.script("s", [("send", {})], "done")
    await make_agent("s", world, send).reply(HELLO)
    assert world.left() == {}
    begin.set()
    await sent[0]
    assert world.lives() == {"s": TWO_STEPS, "errand": TWO_STEPS}
