"""A wrapped model is a model of its own class, whose calls are steps wherever they are made."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.func import entrypoint
from pydantic import BaseModel

from concur_agents_langgraph import ConcurMiddleware, NotWrappedError, wrap, wrap_model

HELLO: Any = {"messages": [("user", "hello")]}
WHOLE = ["admitted", "paused", "completed"]
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def test_it_stays_its_class_and_leaves_the_users_model_alone(world: Any, model: Any) -> None:
    wrapped = wrap_model(model, world.controller)
    assert isinstance(wrapped, ChatOpenAI)
    assert (type(wrapped).__name__, type(wrapped).__module__) == ("ChatOpenAI", "langchain_openai.chat_models.base")
    assert wrapped.lc_id() == model.lc_id()
    assert (type(model), model.stream_usage) == (ChatOpenAI, None)
    assert wrap_model(wrapped, world.controller) is wrapped
    assert isinstance(wrapped.model_copy(update={"temperature": 0.5}), type(wrapped))


def test_wrong_arguments_are_named(world: Any, make_world: Any, model: Any) -> None:
    with pytest.raises(TypeError, match=r"got \w*Binding: wrap the model first"):
        wrap_model(model.bind_tools([]), world.controller)
    with pytest.raises(ValueError, match="another controller already"):
        wrap_model(wrap_model(model, world.controller), make_world().controller)


async def test_outside_of_a_wrapped_run_it_says_so(world: Any, model: Any) -> None:
    wrapped = wrap_model(model, world.controller)
    with pytest.raises(NotWrappedError):
        await wrapped.ainvoke("hi")
    with pytest.raises(NotWrappedError):
        wrapped.invoke("hi")
    assert world.lives() == {}


async def test_alone_it_is_enough(world: Any, engine: Any, model: Any) -> None:
    """``create_agent`` without the middleware."""

    @tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    engine.script("t", [("echo", {"text": "hi"})], "done")
    agent = wrap(create_agent(wrap_model(model, world.controller), [echo]), world.controller)
    result = await agent.ainvoke(HELLO, on("t"))
    usages = [message.usage_metadata for message in result["messages"] if message.type == "ai"]
    assert world.controller.stats().prompt_tokens == sum(usage["input_tokens"] for usage in usages)
    assert world.lives() == {"t": TWO_STEPS}


async def test_beside_the_middleware_a_call_is_one_step(world: Any, engine: Any, model: Any) -> None:
    engine.script("t", "done")
    middleware = [ConcurMiddleware(world.controller)]
    agent = wrap(create_agent(wrap_model(model, world.controller), middleware=middleware), world.controller)
    result = await agent.ainvoke(HELLO, on("t"))
    assert world.controller.stats().prompt_tokens == result["messages"][-1].usage_metadata["input_tokens"]
    assert world.lives() == {"t": WHOLE}


async def test_summariser_of_another_middleware_takes_steps(world: Any, engine: Any, model: Any) -> None:
    engine.script("t", "the summary")
    summarise: Any = SummarizationMiddleware(
        wrap_model(model, world.controller), trigger=("messages", 3), keep=("messages", 1)
    )
    middleware = [summarise, ConcurMiddleware(world.controller)]
    agent = wrap(create_agent(model, middleware=middleware), world.controller)
    result = await agent.ainvoke({"messages": [("user", "hello")] * 4}, on("t"))
    assert "the summary" in result["messages"][0].content
    assert world.lives() == {"t": TWO_STEPS}


async def test_streamed_call_is_a_step_that_ends_with_the_stream(world: Any, engine: Any, model: Any) -> None:
    wrapped = wrap_model(model, world.controller)
    states = []

    @tool
    async def look(text: str) -> str:
        """Look at a stream, whole and then left half-way."""
        async for _ in wrapped.astream("hi"):
            states.append(world.left()["t"])
        states.append(world.left()["t"])
        async with contextlib.aclosing(wrapped.astream("hi")) as chunks:
            await anext(chunks)
        states.append(world.left()["t"])
        return text

    engine.script("t", [("look", {"text": "hi"})], "done")
    await wrap(create_agent(wrapped, [look]), world.controller).ainvoke(HELLO, on("t"))
    assert states == ["generating"] * (len(states) - 2) + ["in_tool"] * 2
    assert len(states) > 4
    assert world.lives()["t"] == ["admitted", "paused", *["resumed", "paused"] * 3, "completed"]
    assert world.controller.stats().output_tokens > 3


async def test_structured_output(world: Any, engine: Any, model: Any) -> None:
    class Answer(BaseModel):
        number: int

    model = wrap_model(model, world.controller).with_structured_output(Answer, method="function_calling")

    @entrypoint()
    async def agent(text: str) -> Any:
        return await model.ainvoke(text)

    engine.script("t", [("Answer", {"number": 42})])
    assert await wrap(agent, world.controller).ainvoke("hi", on("t")) == Answer(number=42)
    assert world.lives() == {"t": WHOLE}


async def test_any_chat_model_can_be_wrapped(world: Any) -> None:
    wrapped = wrap_model(FakeListChatModel(responses=["done"]), world.controller)
    result = await wrap(create_agent(wrapped), world.controller).ainvoke(HELLO, on("t"))
    assert result["messages"][-1].content == "done"
    assert world.lives() == {"t": WHOLE}


@pytest.mark.parametrize("header", [None, "X-Other-ID"])
async def test_session_header_can_be_left_out_and_renamed(
    world: Any, engine: Any, model_for: Any, header: str | None
) -> None:
    engine.script("fixed", "no header of Concur's")
    wrapped = wrap_model(model_for("fixed"), world.controller, session_header=header)
    result = await wrap(create_agent(wrapped), world.controller).ainvoke(HELLO, on("t"))
    assert result["messages"][-1].content == "no header of Concur's"
