"""Model calls as steps: usage, names, and the calls that are not reasoning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg
from agentscope.model import OpenAIChatModel
from agentscope.token import CharTokenCounter
from pydantic import BaseModel

HELLO = Msg("user", "hello", "user")
WORK = [("work", {"text": "x"})]
ONE_STEP = ["admitted", "paused", "completed"]
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]
THREE_STEPS = ["admitted", *["paused", "resumed"] * 2, "paused", "completed"]


@pytest.mark.parametrize("stream", [True, False])
async def test_usage_and_name_come_from_every_kind_of_reply(engine, world, make_agent, make_model, stream):
    engine.script("a", WORK, "done")
    assert (await make_agent("a", world, model=make_model(stream=stream))(HELLO)).get_text_content() == "done"
    stats = world.controller.stats()
    assert world.lives() == {"a": TWO_STEPS}
    assert stats.output_tokens > 0
    assert 0 < (stats.cached_tokens or 0) < stats.prompt_tokens


@pytest.mark.parametrize(
    "options",
    [
        {"client": {"default_headers": {"x-session-id": "mine"}}},
        {"generate_kwargs": {"extra_headers": {"x-session-id": "mine"}}},
    ],
)
async def test_users_own_header_wins(engine, world, make_agent, make_model, options):
    engine.script("mine", "found by the user's header")
    agent = make_agent("a", world, model=make_model(**options))
    assert (await agent(HELLO)).get_text_content() == "found by the user's header"


async def test_users_other_headers_go_along(engine, world, make_agent, make_model):
    engine.script("a", "done")
    model = make_model(generate_kwargs={"extra_headers": {"X-Other": "1"}})
    assert (await make_agent("a", world, model=model)(HELLO)).get_text_content() == "done"
    assert model.generate_kwargs == {"extra_headers": {"X-Other": "1"}}


async def test_the_model_stays_the_users_object(engine, world, make_agent, make_model):
    engine.script("a", "done")
    model = make_model()
    attributes = dict(vars(model))
    agent = make_agent("a", world, model=model)
    await agent(HELLO)
    assert agent.model is model
    assert isinstance(model, OpenAIChatModel)
    assert type(model).__name__ == "OpenAIChatModel"
    assert vars(model) == attributes


async def test_at_the_limit_the_summary_is_a_step_too(engine, world, make_agent):
    engine.script("a", WORK, WORK, "summary")
    assert (await make_agent("a", world, max_iters=2)(HELLO)).get_text_content() == "summary"
    assert world.lives() == {"a": THREE_STEPS}


async def test_structured_output(engine, world, make_agent):
    class Answer(BaseModel):
        number: int

    engine.script("a", [("generate_response", {"number": 7})], "seven")
    reply = await make_agent("a", world)(HELLO, structured_model=Answer)
    assert reply.metadata == {"number": 7}
    assert world.lives() == {"a": TWO_STEPS}


@pytest.mark.parametrize("own_model", [True, False])
async def test_compression_is_a_step_and_not_held_against_the_engine(engine, world, make_agent, make_model, own_model):
    summary = dict.fromkeys(
        ("task_overview", "current_state", "important_discoveries", "next_steps", "context_to_preserve"), "brief"
    )
    compression = ReActAgent.CompressionConfig(
        enable=True,
        agent_token_counter=CharTokenCounter(),
        trigger_threshold=100,
        keep_recent=1,
        **(_other(make_model) if own_model else {}),
    )

    engine.script("a", json.dumps(summary), "done")
    agent = make_agent("a", world, compression_config=compression)
    await agent.memory.add(Msg("user", "word " * 500, "user"))
    await agent(HELLO)
    assert "brief" in str(await agent.memory.get_memory())
    assert world.lives() == {"a": TWO_STEPS}
    assert world.controller.stats().recomputed_tokens in (0, None)


def _other(make_model) -> dict[str, Any]:
    return {"compression_model": make_model(), "compression_formatter": OpenAIChatFormatter()}


async def test_a_model_called_in_a_tool_is_a_step_of_the_agent(engine, world, make_agent, make_model):
    model = make_model(stream=False)

    async def think() -> str:
        """Think about it."""
        return str(await model([{"role": "user", "content": "hm?"}]))

    engine.script("a", [("think", {})], "done")
    agent = make_agent("a", world, think, model=model)
    assert (await agent(HELLO)).get_text_content() == "done"
    assert world.lives() == {"a": THREE_STEPS}
