"""Anthropic's client in `wrap_client`'s hands, beside a gateway: against the same wire."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import anthropic
import pytest

from concur_agents import AgentState, Controller, FixedWindow
from concur_agents.engines import AnyEngine

SCRIPTED = "Look into the folder."
TOOL = {"name": "bash", "input_schema": {"type": "object", "properties": {}}}
ASK: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "List the files of this project."}],
}
ACT: dict[str, Any] = ASK | {
    "max_tokens": 99,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": SCRIPTED}],
    "tools": [TOOL],
}
LONG = ASK | {"messages": [{"role": "user", "content": "x" * 200_000}]}
ERRORS: dict[str, tuple[type[anthropic.APIStatusError], dict[str, Any]]] = {
    "empty": (anthropic.BadRequestError, ASK | {"messages": []}),
    "no-limit": (anthropic.BadRequestError, ASK | {"max_tokens": 0}),
    "too-much": (anthropic.BadRequestError, ASK | {"max_tokens": 10**9, "timeout": 60}),  # else it refuses by itself
    "too-long": (anthropic.BadRequestError, LONG),
    "no-such-tool": (anthropic.BadRequestError, ACT | {"tool_choice": {"type": "tool", "name": "look"}}),
    "in-a-stream": (anthropic.APIStatusError, LONG | {"stream": True}),
}


@pytest.fixture
def engine(kit: Any, wire: Any) -> Iterator[Any]:
    with wire.emulator() as engine:
        kit.script(engine)
        yield engine


@pytest.fixture
async def wrapped(engine: Any) -> AsyncIterator[Any]:
    """A client in a controller's hands, and the controller."""
    async with (
        Controller(AnyEngine(engine.url), law=FixedWindow(8), tick=0.05) as concur,
        anthropic.AsyncAnthropic(base_url=engine.url, api_key="none", max_retries=0) as plain,
    ):
        yield SimpleNamespace(concur=concur, client=concur.wrap_client(plain))


@pytest.mark.parametrize("way", ["whole", "stream", "helper", "raw"])
async def test_a_wrapped_client_s_generation_is_a_step_with_its_usage(wrapped: Any, way: str) -> None:
    told = []
    async with wrapped.concur.agent("one"):
        for number in range(1, 3):
            told.append(await used(wrapped.client, way))
            view = wrapped.concur.view("one")
            assert (view.steps, view.state) == (number, AgentState.IN_TOOL)
    stats = wrapped.concur.stats()
    assert stats.output_tokens == sum(each[2] for each in told)
    # Of a reply that found nothing cached, SGLang does not say so: its prompt is all that is known of it.
    assert stats.prompt_tokens == sum(each[0] + each[1] for each in told)
    assert stats.cached_tokens == sum(each[1] for each in told) > 0


async def used(client: Any, way: str) -> tuple[int, int, int]:
    """Tokens of a generation: prompt beside the cached ones, cached, output."""
    if way == "stream":
        events = [event async for event in await client.messages.create(**ACT, stream=True)]
        first, last = events[0].message.usage, events[-2].usage
        return first.input_tokens, first.cache_read_input_tokens or 0, last.output_tokens
    if way == "helper":
        async with client.messages.stream(**ACT) as stream:
            usage = (await stream.get_final_message()).usage
    elif way == "raw":
        raw = await client.messages.with_raw_response.create(**ACT)
        parsed = raw.parse()
        usage = (await parsed if inspect.isawaitable(parsed) else parsed).usage
    else:
        usage = (await client.messages.create(**ACT)).usage
    return usage.input_tokens, usage.cache_read_input_tokens or 0, usage.output_tokens


async def test_a_wrapped_client_s_stream_that_is_left_ends_its_step(wrapped: Any, wire: Any) -> None:
    async with wrapped.concur.agent("one"):
        stream = await wrapped.client.messages.create(**ASK | {"max_tokens": 5000}, stream=True)
        await anext(stream)
        assert wrapped.concur.view("one").state is AgentState.GENERATING
        await stream.close()
        assert wrapped.concur.view("one").state is AgentState.IN_TOOL


@pytest.mark.parametrize("name", ERRORS)
async def test_a_wrapped_client_raises_the_engine_s_errors_and_is_at_its_boundary(wrapped: Any, name: str) -> None:
    kind, asked = ERRORS[name]
    async with wrapped.concur.agent("one"):
        with pytest.raises(kind):
            async for _ in await wrapped.client.messages.create(**asked):
                pass
        assert wrapped.concur.view("one").state is AgentState.IN_TOOL
