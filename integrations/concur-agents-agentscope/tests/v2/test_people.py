"""Replies that end with a question to a person, or to whoever runs an external tool."""

from __future__ import annotations

from typing import ClassVar

import pytest
from agentscope.event import (
    ConfirmResult,
    ExternalExecutionResultEvent,
    RequireUserConfirmEvent,
    UserConfirmResultEvent,
    UserInterruptEvent,
)
from agentscope.message import ToolResultBlock, ToolResultState, UserMsg
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import ToolBase

HELLO = UserMsg(name="user", content="hello")
WORK = [("work", {"text": "x"})]
LATER = ["admitted", "paused", "parked", "resumed", "paused", "completed"]


def answer(agent, *confirmed: bool) -> UserConfirmResultEvent:
    calls = agent.state.get_awaiting_tool_calls(agent.name)
    results = [ConfirmResult(confirmed=yes, tool_call=call) for yes, call in zip(confirmed, calls, strict=False)]
    return UserConfirmResultEvent(reply_id=agent.state.reply_id, confirm_results=results)


@pytest.mark.parametrize("yes", [True, False])
async def test_an_answer_resumes_the_same_agent(engine, world, make_agent, yes):
    engine.script("s", WORK, "done")
    agent = make_agent("s", world, asks=True)
    await agent.reply(HELLO)
    assert world.left() == {"s": "parked"}
    assert world.seated == 0
    assert (await agent.reply(answer(agent, yes))).get_text_content() == "done"
    assert world.lives() == {"s": LATER}


async def test_an_answer_may_come_to_another_object(engine, world, make_agent):
    """As in a service, which builds the agent anew from its stored state for each turn."""
    engine.script("s", WORK, "done")
    agent = make_agent("s", world, asks=True)
    await agent.reply(HELLO)
    stored = agent.state.model_dump_json()
    again = make_agent("s", world, asks=True, state=AgentState.model_validate_json(stored))
    await again.reply(answer(again, True))
    assert world.lives() == {"s": LATER}


async def test_nothing_is_held_while_the_reader_itself_asks(engine, world, make_agent):
    """In the loop over the events, with the reply still open."""
    engine.script("s", WORK, "done")
    agent = make_agent("s", world, asks=True)
    asked = 0
    async for event in agent.reply_stream(HELLO):
        if isinstance(event, RequireUserConfirmEvent):
            asked += 1
            assert world.seated == 0
    assert asked == 1
    await agent.reply(answer(agent, True))
    assert world.lives() == {"s": LATER}


async def test_a_reader_that_stops_at_the_question_has_not_ended_it(engine, world, make_agent):
    engine.script("s", WORK, "done")
    agent = make_agent("s", world, asks=True)
    events = agent.reply_stream(HELLO)
    async for event in events:
        if isinstance(event, RequireUserConfirmEvent):
            break
    await events.aclose()
    assert world.left() == {"s": "parked"}
    await agent.reply(answer(agent, True))
    assert world.lives() == {"s": LATER}


async def test_half_an_answer_parks_again(engine, world, make_agent):
    engine.script("s", WORK * 2, "done")
    agent = make_agent("s", world, asks=True)
    await agent.reply(HELLO)
    await agent.reply(answer(agent, True))
    assert world.left() == {"s": "parked"}
    await agent.reply(answer(agent, True))
    assert world.lives() == {"s": LATER}


async def test_taking_the_question_back_cancels(engine, world, make_agent):
    engine.script("s", WORK, "never")
    agent = make_agent("s", world, asks=True)
    await agent.reply(HELLO)
    await agent.reply(UserInterruptEvent(reply_id=agent.state.reply_id))
    assert world.left() == {}
    assert world.lives() == {"s": ["admitted", "paused", "parked", "cancelled"]}


async def test_external_execution_holds_nothing(engine, world, make_agent):
    class Outside(ToolBase):
        name = "work"
        description = "runs elsewhere"
        input_schema: ClassVar = {"type": "object", "properties": {"text": {"type": "string"}}}
        is_concurrency_safe = True
        is_read_only = True
        is_external_tool = True

        async def check_permissions(self, *args, **kwargs):
            return PermissionDecision(behavior=PermissionBehavior.ALLOW, message="ok")

    engine.script("s", WORK, "done")
    agent = make_agent("s", world, Outside())
    await agent.reply(HELLO)
    assert world.left() == {"s": "parked"}
    (call,) = agent.state.get_awaiting_tool_calls(agent.name)
    result = ToolResultBlock(id=call.id, name=call.name, output="did it", state=ToolResultState.SUCCESS)
    reply = await agent.reply(ExternalExecutionResultEvent(reply_id=agent.state.reply_id, execution_results=[result]))
    assert reply.get_text_content() == "done"
    assert world.lives() == {"s": LATER}
