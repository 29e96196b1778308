"""Model calls as steps: retries, fallbacks, limits, other middlewares, headers and usage."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from agentscope.agent import ModelConfig, ReActConfig
from agentscope.event import ModelCallEndEvent, ReplyEndEvent
from agentscope.message import TextBlock, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatResponse, ChatUsage

from concur_agents_agentscope import ConcurMiddleware

HELLO = UserMsg(name="user", content="hello")
WORK = [("work", {"text": "x"})]
ONE_STEP = ["admitted", "paused", "completed"]
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]
NOWHERE = "http://127.0.0.1:9/v1"


async def test_retries_and_fallback_are_one_step(engine, world, make_agent, make_model):
    engine.script("s", "done")
    fallback = ModelConfig(max_retries=1, fallback_model=make_model())
    agent = make_agent("s", world, model=make_model(url=NOWHERE), model_config=fallback)
    assert (await agent.reply(HELLO)).get_text_content() == "done"
    assert world.lives() == {"s": ONE_STEP}


@pytest.mark.parametrize("stream", [True, False])
async def test_usage_and_name_come_from_every_kind_of_reply(engine, world, make_agent, make_model, stream):
    engine.script("s", WORK, "done")
    assert (await make_agent("s", world, model=make_model(stream=stream)).reply(HELLO)).get_text_content() == "done"
    stats = world.controller.stats()
    assert world.lives() == {"s": TWO_STEPS}
    assert stats.prompt_tokens > 0
    assert stats.output_tokens > 0
    assert 0 < (stats.cached_tokens or 0) < stats.prompt_tokens


async def test_users_own_header_wins(engine, world, make_agent, make_model):
    engine.script("mine", "found by the user's header")
    model = make_model(client={"default_headers": {"x-session-id": "mine"}})
    assert (await make_agent("s", world, model=model).reply(HELLO)).get_text_content() == "found by the user's header"


async def test_users_model_stays_as_it_is(engine, world, make_agent, make_model):
    engine.script("s", "done")
    model = make_model()
    client, attributes = model.client, dict(vars(model))
    agent = make_agent("s", world, model=model)
    await agent.reply(HELLO)
    assert agent.model is model
    assert model.client is client
    assert vars(model) == attributes
    assert "X-Session-ID" not in client.default_headers


async def test_max_iterations_complete_the_agent(engine, world, make_agent):
    engine.script("s", *[WORK] * 9)
    reply = await make_agent("s", world, react_config=ReActConfig(max_iters=2)).reply(HELLO)
    assert str(reply.finished_reason) == "exceed_max_iters"
    assert world.lives() == {"s": ["admitted", *["paused", "resumed"] * 2, "paused", "completed"]}


class Again(MiddlewareBase):
    """Forces one more round by swallowing the reply's end."""

    def __init__(self) -> None:
        self.swallowed = False

    async def on_reply(self, agent, input_kwargs, next_handler):
        async for event in next_handler(**input_kwargs):
            if isinstance(event, ReplyEndEvent) and not self.swallowed:
                self.swallowed = True
            else:
                yield event


class Twice(MiddlewareBase):
    """Reasons twice, and takes the second."""

    async def on_reasoning(self, agent, input_kwargs, next_handler):
        async for _ in next_handler(**input_kwargs):
            pass
        agent.state.context.pop()
        async for event in next_handler(**input_kwargs):
            yield event


class Canned(MiddlewareBase):
    """Answers without the model."""

    async def on_model_call(self, agent, input_kwargs, next_handler):
        return ChatResponse(content=[TextBlock(text="canned")], is_last=True, usage=ChatUsage(0, 0, 0.0))


class Bound(MiddlewareBase):
    """Hands on another callable than a model."""

    async def on_model_call(self, agent, input_kwargs, next_handler):
        model = functools.partial(input_kwargs["current_model"], extra_headers={"X-Session-ID": "theirs"})
        return await next_handler(**{**input_kwargs, "current_model": model})


@pytest.mark.parametrize("place", ["around", "within"])
async def test_one_more_round_is_the_same_run(engine, world, make_agent, place):
    engine.script("s", "one", "two")
    reply = await make_agent("s", world, **{place: (Again(),)}).reply(HELLO)
    assert reply.get_text_content() == "two"
    assert world.lives() == {"s": TWO_STEPS}


@pytest.mark.parametrize(("place", "life"), [("around", TWO_STEPS), ("within", ONE_STEP)])
async def test_another_middleware_may_reason_again(engine, world, make_agent, place, life):
    engine.script("s", "one", "two")
    await make_agent("s", world, **{place: (Twice(),)}).reply(HELLO)
    assert world.lives() == {"s": life}


@pytest.mark.parametrize("place", ["around", "within"])
async def test_another_middleware_may_answer_itself(world, make_agent, place):
    assert (await make_agent("s", world, **{place: (Canned(),)}).reply(HELLO)).get_text_content() == "canned"
    assert world.lives() == {"s": ONE_STEP}
    assert world.controller.stats().prompt_tokens == 0


@pytest.mark.parametrize("place", ["around", "within"])
async def test_another_middleware_may_bind_the_model(engine, world, make_agent, place):
    engine.script("theirs", "found by their header")
    assert (
        await make_agent("s", world, **{place: (Bound(),)}).reply(HELLO)
    ).get_text_content() == "found by their header"
    assert world.lives() == {"s": ONE_STEP}


async def test_listed_twice_is_as_once(engine, world, make_agent):
    engine.script("s", WORK, "done")
    agent = make_agent("s", world, within=(ConcurMiddleware(world.controller),))
    assert (await agent.reply(HELLO)).get_text_content() == "done"
    assert world.lives() == {"s": TWO_STEPS}


async def test_two_controllers_each_see_the_run(engine, make_world, make_agent):
    outer, inner = make_world(1), make_world(1)
    engine.script("s", WORK, "done")
    agent = make_agent("s", inner, around=(ConcurMiddleware(outer.controller),))
    assert (await agent.reply(HELLO)).get_text_content() == "done"
    assert outer.lives() == inner.lives() == {"s": TWO_STEPS}


def test_no_cached_tokens_are_unknown_until_the_engine_said_some(world):
    """AgentScope says 0 for an engine that reports none."""
    middleware = ConcurMiddleware(world.controller)

    def cached(said: int) -> Any:
        event = ModelCallEndEvent(reply_id="r", input_tokens=9, output_tokens=1, cache_input_tokens=said)
        return middleware._usage(event).cached

    assert [cached(0), cached(4), cached(0)] == [None, 4, 0]
    assert (
        ConcurMiddleware(world.controller)
        ._usage(ModelCallEndEvent(reply_id="r", input_tokens=9, output_tokens=1))
        .cached
        == 0
    ), "it is the engine's, not the middleware's"
    nothing = middleware._usage(ModelCallEndEvent(reply_id="r", input_tokens=0, output_tokens=0))
    assert (nothing.prompt, nothing.output) == (None, None)
