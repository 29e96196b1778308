"""LangChain's chat model of OpenAI, unmodified: what it gets through a gateway is what it gets from the engine."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

SCRIPTED = "Look into the folder."


@tool
def bash(cmd: str) -> str:
    """Run a command."""
    return cmd


@pytest.fixture
async def chats(ways: Any) -> AsyncIterator[list[ChatOpenAI]]:
    """Its chat model on both ways, as a user writes it but for clients that can be closed."""
    models, close = [], []
    for url in ways.urls:
        http, ahttp = openai.DefaultHttpxClient(verify=False), openai.DefaultAsyncHttpxClient(verify=False)
        close.append((http, ahttp))
        options: Any = {"base_url": url + "/v1", "api_key": "none", "http_client": http, "http_async_client": ahttp}
        models.append(ChatOpenAI(model="m", **options))
    yield models
    for http, ahttp in close:
        http.close()
        await ahttp.aclose()


def told(message: Any, kit: Any) -> Any:
    """What a message says, but for ids and times."""
    calls = [{**call, "id": None} for call in message.tool_calls]
    return (
        message.content,
        calls,
        message.usage_metadata,
        *map(kit.kept, (message.response_metadata, message.additional_kwargs)),
    )


ASK: list[Any] = [SystemMessage("Be brief."), HumanMessage(SCRIPTED)]
MODELS: dict[str, Callable[[ChatOpenAI], Any]] = {
    "plain": lambda chat: chat,
    "tools": lambda chat: chat.bind_tools([bash]),
    "forced": lambda chat: chat.bind_tools([bash], tool_choice="bash", parallel_tool_calls=True),
    "usage": lambda chat: chat.model_copy(update={"stream_usage": True}),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_langchain_gets_what_the_engine_says(
    kit: Any, chats: list[ChatOpenAI], ways: Any, name: str, way: str
) -> None:
    said = []
    for chat in chats:
        model = MODELS[name](chat)
        if way in ("invoke", "stream"):
            got: Any = getattr(model, way)(ASK)
            message = got if way == "invoke" else added(list(got))
        else:
            got = getattr(model, way)(ASK)
            message = await got if inspect.isawaitable(got) else added([chunk async for chunk in got])
        said.append(told(message, kit))
    assert said[0] == said[1]
    content, calls, usage, _, _ = said[0]
    assert content == "I look."
    assert [call["name"] for call in calls] == ["bash"]
    if name == "usage" or "invoke" in way:
        assert usage["input_tokens"] > 0
    assert kit.idle(ways)


def added(chunks: list[Any]) -> Any:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return whole


async def test_langchain_s_cached_tokens_are_the_engine_s(chats: list[ChatOpenAI]) -> None:
    cached = []
    for chat in chats:
        await chat.ainvoke(ASK)
        again = await chat.ainvoke([*ASK, AIMessage("I look."), HumanMessage("And?")])
        cached.append((again.usage_metadata or {})["input_token_details"]["cache_read"])
    assert cached[0] == cached[1] > 0
