"""OpenAI's client, unmodified: what it gets through a gateway is what it gets from the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest

ASKED = "List the files of this project."
SCRIPTED = "Look into the folder."
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("bash", "look")
]
FORCED: Any = {"type": "function", "function": {"name": "bash"}}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": ASKED}], "max_tokens": 9}
TOOL: dict[str, Any] = CHAT | {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": SCRIPTED}],
    "max_tokens": 99,
    "tools": TOOLS,
}
USAGE = {"include_usage": True}
CHATS: dict[str, dict[str, Any]] = {
    "whole": CHAT,
    "stream": CHAT | {"stream": True},
    "stream-usage": CHAT | {"stream": True, "stream_options": USAGE},
    "no-limit": {name: CHAT[name] for name in ("model", "messages")},
    "parts": CHAT | {"messages": [{"role": "user", "content": [{"type": "text", "text": "héllo"}]}]},
    "named-user": CHAT | {"user": "u"},
    "tools": TOOL,
    "tools-forced": TOOL | {"tool_choice": FORCED, "parallel_tool_calls": True},
    "tools-none": TOOL | {"tool_choice": "none"},
    "tools-stream": TOOL | {"stream": True, "stream_options": USAGE},
    "tools-stream-forced": TOOL | {"stream": True, "tool_choice": FORCED},
    "unknown-fields": CHAT | {"extra_body": {"ignore_eos": True, "custom": [None, 1.5]}, "extra_query": {"a": "/ ?"}},
}
COMPLETIONS: dict[str, dict[str, Any]] = {
    "whole": {"model": "m", "prompt": "Once upon a time", "max_tokens": 7},
    "tokens": {"model": "m", "prompt": [5, 6, 7], "max_tokens": 7},
    "long": {"model": "m", "prompt": "Once upon a time " * 300, "max_tokens": 7},
    "stream": {"model": "m", "prompt": "Once upon a time", "max_tokens": 7, "stream": True},
    "stream-usage": {"model": "m", "prompt": "Once", "max_tokens": 7, "stream": True, "stream_options": USAGE},
}
CALLS = [("chat", name) for name in CHATS] + [("completion", name) for name in COMPLETIONS]


@pytest.fixture(scope="module")
def talk(kit: Any) -> Any:
    return kit.Talk(openai.OpenAI, openai.AsyncOpenAI, "/v1", joined)


def joined(chunks: list[dict[str, Any]]) -> Any:
    """What a stream says, however its text is cut: that is the engine's speed at the moment."""
    text, reasons, calls, rest = "", [], [], []
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice.get("delta", choice)
            text += delta.get("content") or delta.get("text") or ""
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
            calls += delta.get("tool_calls") or []
        rest.append(chunk.get("usage"))
    return text, reasons, calls, [usage for usage in rest if usage], {chunk["model"] for chunk in chunks}


def asking(kind: str, name: str) -> Callable[[Any], Any]:
    if kind == "chat":
        return lambda client: client.chat.completions.create(**CHATS[name])
    return lambda client: client.completions.create(**COMPLETIONS[name])


@pytest.mark.parametrize(("kind", "name"), CALLS)
def test_the_openai_client_gets_what_the_engine_says(talk: Any, kit: Any, ways: Any, kind: str, name: str) -> None:
    direct, through = (talk.sync(url, asking(kind, name)) for url in ways.urls)
    assert direct == through
    assert kit.idle(ways)


@pytest.mark.parametrize(("kind", "name"), CALLS)
async def test_the_async_openai_client_gets_what_the_engine_says(
    talk: Any, kit: Any, ways: Any, kind: str, name: str
) -> None:
    direct, through = [await talk.later(url, asking(kind, name)) for url in ways.urls]
    assert direct == through
    assert kit.idle(ways)


def test_a_client_without_names_is_one_agent_over_its_conversation(talk: Any, kit: Any, ways: Any) -> None:
    """Also where its replies are streamed, and its cache is hit as the engine's own client's is."""
    for url in ways.urls:
        with openai.OpenAI(base_url=url + "/v1", api_key="none") as client:
            messages: list[Any] = list(CHAT["messages"])
            for turn in range(4):
                whole = client.chat.completions.create(model="m", messages=messages, max_tokens=5)
                messages.append(whole.choices[0].message.model_dump(exclude_none=True, warnings=False))
                messages.append({"role": "user", "content": f"And then? {turn}"})
            if url == ways.through:
                (member,) = ways.served.gateway.roster
                assert ways.served.controller.view(member.agent_id).steps == 4
                assert ways.served.controller.stats().cached_tokens > 0


def test_models_and_what_else_an_engine_offers_go_through(talk: Any, kit: Any, ways: Any) -> None:
    assert len({str(talk.sync(url, lambda client: client.models.list())) for url in ways.urls}) == 1
    assert len(ways.served.gateway.roster) == 0


# --- errors, as the client raises them ---

TOO_LONG = CHAT | {"max_tokens": 10**9}
ERRORS: dict[str, tuple[type[openai.APIStatusError], Callable[[Any], Any]]] = {
    "empty": (openai.BadRequestError, lambda client: client.chat.completions.create(model="m", messages=[])),
    "too-long": (openai.BadRequestError, lambda client: client.chat.completions.create(**TOO_LONG)),
    "too-long-stream": (
        openai.BadRequestError,
        lambda client: client.chat.completions.create(**TOO_LONG, stream=True),
    ),
    "no-such-path": (openai.NotFoundError, lambda client: client.embeddings.create(model="m", input="x")),
    "no-such-model": (openai.NotFoundError, lambda client: client.models.retrieve("nobody/has this")),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_of_the_engine_is_the_same_exception(talk: Any, kit: Any, ways: Any, name: str) -> None:
    kind, call = ERRORS[name]
    raised = []
    for url in ways.urls:
        with pytest.raises(kind) as caught:
            talk.sync(url, call)
        error = caught.value
        raised.append((type(error), str(error), error.body, error.status_code, error.response.content))
    assert raised[0] == raised[1]
    assert kit.idle(ways)


def test_a_body_that_is_too_large_is_an_error_that_the_client_does_not_retry(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, max_body=100) as served:
        with (
            openai.OpenAI(base_url=served.url + "/v1", api_key="none") as client,
            pytest.raises(openai.APIStatusError, match="more than 100 bytes") as caught,
        ):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x" * 200}])
        assert caught.value.status_code == 413
        assert engine.requests == []
