"""Every way a reply ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest
from agentscope.agent import ReActConfig
from agentscope.event import ModelCallEndEvent, ReplyEndEvent, ToolResultEndEvent
from agentscope.message import UserMsg

from concur_agents import AgentEventKind

HELLO = UserMsg(name="user", content="hello")
WORK = [("work", {"text": "x"})]
CANCELLED = ["admitted", "paused", "cancelled"]


class Stuck:
    """A tool that does not return."""

    def __init__(self) -> None:
        self.calls = 0
        self.called = asyncio.Event()

    async def work(self, text: str) -> str:
        """Do some work.

        Args:
            text (str): what to do
        """
        self.calls += 1
        self.called.set()
        await asyncio.get_running_loop().create_future()
        return text


async def test_cancelled_in_parallel_tools_returns_a_message(engine, world, make_agent):
    engine.script("s", WORK * 3, "never")
    stuck = Stuck()
    running = asyncio.create_task(make_agent("s", world, stuck.work).reply(HELLO))
    await stuck.called.wait()
    running.cancel()
    assert str((await running).finished_reason) == "interrupted"
    assert world.lives() == {"s": CANCELLED}
    assert stuck.calls == 3


async def test_cancelled_in_a_tool_may_raise(engine, world, make_agent):
    engine.script("s", WORK, "never")
    stuck = Stuck()
    raises = ReActConfig(interruption_raise_cancelled_error=True)
    running = asyncio.create_task(make_agent("s", world, stuck.work, react_config=raises).reply(HELLO))
    await stuck.called.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert world.lives() == {"s": CANCELLED}


async def test_cancelled_while_generating_goes_on_later(engine, world, make_agent):
    engine.script("s", "never", "done")
    agent = make_agent("s", world)
    engine.hang()
    try:
        running = asyncio.create_task(agent.reply(HELLO))
        await world.seen("s", AgentEventKind.ADMITTED)
        running.cancel()
        assert str((await running).finished_reason) == "interrupted"
        assert world.left() == {}
    finally:
        engine.go_on()
    await agent.reply(HELLO)
    assert world.lives() == {"s": [*CANCELLED, "admitted", "paused", "completed"]}


async def test_cancelled_while_queued_was_never_here(engine, world, make_agent):
    await world.controller.admit("holder")
    running = asyncio.create_task(make_agent("s", world).reply(HELLO))
    await world.until(lambda: world.left().get("s") == "waiting")
    running.cancel()
    assert str((await running).finished_reason) == "interrupted"
    assert world.left() == {"holder": "generating"}
    world.controller.finish("holder")
    assert "s" not in world.lives()


async def test_a_reader_that_stops_at_the_end_has_seen_it_complete(engine, world, make_agent):
    engine.script("s", "done")
    events = make_agent("s", world).reply_stream(HELLO)
    async for event in events:
        if isinstance(event, ReplyEndEvent):
            break
    await events.aclose()
    await world.until(lambda: not world.left())
    assert world.lives() == {"s": ["admitted", "paused", "completed"]}


@pytest.mark.parametrize("at", [ModelCallEndEvent, ToolResultEndEvent])
@pytest.mark.parametrize("closes", [True, False])
async def test_a_reader_that_stops_before_has_cancelled_it(engine, world, make_agent, at, closes):
    engine.script("s", WORK, "never")
    events = make_agent("s", world).reply_stream(HELLO)
    async for event in events:
        if isinstance(event, at):
            assert world.left() == {"s": "in_tool"}, "the boundary is behind, whoever reads"
            break
    if closes:
        await events.aclose()
    del events
    gc.collect()
    await world.until(lambda: not world.left())
    assert world.lives() == {"s": CANCELLED}


async def test_streams_read_by_turns_are_two_agents(engine, make_world, make_agent):
    """An async generator shares its caller's context: neither must be taken for the other's sub-agent."""
    world = make_world(2)
    for session in ("a", "b"):
        engine.script(session, WORK, "done")
    streams = [make_agent(session, world).reply_stream(HELLO) for session in ("a", "b")]
    while streams:
        for stream in list(streams):
            if await anext(stream, None) is None:
                streams.remove(stream)
            assert {agent.parent for agent in world.controller.agents()} <= {None}
            assert world.controller.agent("new").parent is None, "the reader is in neither"
    life = ["admitted", "paused", "resumed", "paused", "completed"]
    assert world.lives() == {"a": life, "b": life}


async def test_a_refused_input_fails_what_never_began(world, make_agent):
    with pytest.raises(ValueError, match="Invalid message"):
        await make_agent("s", world).reply("no message")
    assert world.lives() == {}


async def test_a_model_that_cannot_be_reached_fails_the_agent(world, make_agent, make_model):
    agent = make_agent("s", world, model=make_model(url="http://127.0.0.1:9/v1"))
    with pytest.raises(Exception, match="Connection error"):
        await agent.reply(HELLO)
    assert world.lives() == {"s": ["admitted", "paused", "failed"]}


async def test_a_model_that_breaks_off_fails_the_agent(engine, world, make_agent, make_model):
    """In the middle of a stream, which no retry covers."""
    engine.script("s", "word " * 50)
    events = make_agent("s", world, model=make_model()).reply_stream(HELLO)
    with contextlib.suppress(RuntimeError):
        async for event in events:
            if event.type == "TEXT_BLOCK_DELTA":
                await events.athrow(RuntimeError("broken"))
    await world.until(lambda: not world.left())
    assert world.left() == {}
