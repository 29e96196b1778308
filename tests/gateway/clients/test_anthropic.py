"""Anthropic's client, unmodified: what it gets through a gateway is what it gets from the engine."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx
import pytest

RECORDED = ("sglang-0.5.23-messages-responses.yaml", "/v1/messages?")
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
PARTS = [{"type": "text", "text": "héllo", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "there"}]
ASKED: dict[str, dict[str, Any]] = {
    "whole": ASK,
    "stream": ASK | {"stream": True},
    "parts": ASK | {"messages": [{"role": "user", "content": PARTS}]},
    "tools": ACT,
    "tools-stream": ACT | {"stream": True},
    "tools-forced": ACT | {"tool_choice": {"type": "tool", "name": "bash"}},
    "tools-none": ACT | {"tool_choice": {"type": "none"}},
    "unknown-fields": ASK | {"extra_body": {"custom": [None, 1.5]}, "extra_query": {"a": "/ ?"}},
    "metadata": ASK | {"metadata": {"user_id": "u"}, "stop_sequences": ["###"], "extra_body": {"temperature": 0.5}},
}


@pytest.fixture(scope="module")
def talk(kit: Any) -> Any:
    return kit.Talk(anthropic.Anthropic, anthropic.AsyncAnthropic, "", joined)


def joined(events: list[Any]) -> Any:
    """What a stream says, however its text is cut: that is the engine's speed at the moment."""
    said: list[Any] = []
    for event in events:
        delta = event.get("delta") or {}
        text = next((delta[name] for name in ("text", "partial_json", "thinking") if name in delta), None)
        if text is None:
            said.append(event)
        elif isinstance(said[-1], str):
            said[-1] += text
        else:
            said.append(text)
    return said


@pytest.mark.parametrize("name", ASKED)
def test_the_client_gets_what_the_engine_says(kit: Any, talk: Any, ways: Any, name: str) -> None:
    direct, through = (talk.sync(url, lambda client: client.messages.create(**ASKED[name])) for url in ways.urls)
    assert direct == through
    assert kit.idle(ways)
    if name == "tools":
        assert [block["type"] for block in direct["content"]] == ["thinking", "text", "tool_use"]


@pytest.mark.parametrize("name", ASKED)
async def test_the_async_client_gets_what_the_engine_says(kit: Any, talk: Any, ways: Any, name: str) -> None:
    direct, through = [await talk.later(url, lambda client: client.messages.create(**ASKED[name])) for url in ways.urls]
    assert direct == through
    assert kit.idle(ways)


def test_the_stream_helper_puts_the_same_message_together(kit: Any, talk: Any, ways: Any) -> None:
    said = []
    for url in ways.urls:
        with (
            anthropic.Anthropic(base_url=url, api_key="none") as client,
            client.messages.stream(**ACT) as stream,
        ):
            message = kit.kept(stream.get_final_message().model_dump(warnings=False))
        said.append(message)
    assert said[0] == said[1]
    assert [block["type"] for block in said[0]["content"]] == ["thinking", "text", "tool_use"]
    assert said[0]["usage"]["input_tokens"] > 0
    assert said[0]["usage"]["output_tokens"] > 0


def test_tokens_are_counted_without_a_seat(kit: Any, talk: Any, ways: Any) -> None:
    counted = {name: ACT[name] for name in ("model", "messages", "system", "tools")}
    said = {str(talk.sync(url, lambda client: client.messages.count_tokens(**counted))) for url in ways.urls}
    assert len(said) == 1
    assert len(ways.served.gateway.roster) == 0


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_of_many_turns_is_one_agent_and_finds_its_own_cache(
    kit: Any, talk: Any, ways: Any, stream: bool
) -> None:
    for url in ways.urls:
        with anthropic.Anthropic(base_url=url, api_key="none") as client:
            messages: list[Any] = list(ACT["messages"])
            usage = []
            for _ in range(2):
                asked = ACT | {"messages": messages}
                if stream:
                    with client.messages.stream(**asked) as events:
                        reply = events.get_final_message()
                else:
                    reply = client.messages.create(**asked)
                usage.append(reply.usage)
                messages.append({"role": "assistant", "content": reply.model_dump(warnings=False)["content"]})
                results = [
                    {"type": "tool_result", "tool_use_id": block.id, "content": "a.txt"}
                    for block in reply.content
                    if block.type == "tool_use"
                ]
                messages.append({"role": "user", "content": results or "And?"})
        assert usage[1].cache_read_input_tokens > 0
    (member,) = ways.served.gateway.roster
    assert ways.served.controller.view(member.agent_id).steps == 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_sees_the_usage_on_its_way(kit: Any, talk: Any, ways: Any, stream: bool) -> None:
    before = ways.served.controller.stats()
    said = []
    for _ in range(2):
        with anthropic.Anthropic(base_url=ways.through, api_key="none") as client:
            if stream:
                with client.messages.stream(**ASK) as events:
                    said.append(events.get_final_message().usage)
            else:
                said.append(client.messages.create(**ASK).usage)
    after = ways.served.controller.stats()
    cached = sum(usage.cache_read_input_tokens or 0 for usage in said)
    assert cached > 0
    assert after.cached_tokens - before.cached_tokens == cached
    assert after.prompt_tokens - before.prompt_tokens == sum(usage.input_tokens for usage in said) + cached
    assert after.output_tokens - before.output_tokens == sum(usage.output_tokens for usage in said)


# --- errors, as the client raises them ---

LONG = ASK | {"messages": [{"role": "user", "content": "x" * 200_000}]}
ERRORS: dict[str, tuple[type[anthropic.APIStatusError], dict[str, Any]]] = {
    "empty": (anthropic.BadRequestError, ASK | {"messages": []}),
    "no-limit": (anthropic.BadRequestError, ASK | {"max_tokens": 0}),
    "too-much": (anthropic.BadRequestError, ASK | {"max_tokens": 10**9, "timeout": 60}),  # else it refuses by itself
    "too-long": (anthropic.BadRequestError, LONG),
    "no-such-tool": (anthropic.BadRequestError, ACT | {"tool_choice": {"type": "tool", "name": "look"}}),
    "in-a-stream": (anthropic.APIStatusError, LONG | {"stream": True}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_of_the_engine_is_the_same_exception(kit: Any, talk: Any, ways: Any, name: str) -> None:
    kind, asked = ERRORS[name]
    raised = []
    for url in ways.urls:
        with pytest.raises(kind) as caught:
            talk.sync(url, lambda client: client.messages.create(**asked))
        error = caught.value
        raised.append((type(error), str(error), kit.kept(error.body), error.status_code))
    assert raised[0] == raised[1]
    assert kit.idle(ways)


def test_a_request_that_failed_in_its_stream_is_asked_again_by_the_same_agent(kit: Any, talk: Any, ways: Any) -> None:
    with anthropic.Anthropic(base_url=ways.through, api_key="none", max_retries=0) as client:
        for _ in range(3):
            with pytest.raises(anthropic.APIStatusError):
                list(client.messages.create(**LONG, stream=True))
    assert len(ways.served.gateway.roster) == 1


JSON = b"Content-Type: application/json\r\nRetry-After-Ms: 1\r\n"
OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","message":"Internal server error"}}'


def test_a_client_retries_a_full_engine_as_without_a_gateway(sglang: Any) -> None:
    whole = json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "at last"}],
            "model": "m",
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }
    ).encode()
    for url in sglang.urls:
        full = b"HTTP/1.1 503 Busy\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(OVERLOADED) + OVERLOADED
        good = b"HTTP/1.1 200 OK\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(whole) + whole
        sglang.answers = [full, full, good]
        sglang.engine.requests.clear()
        with anthropic.Anthropic(base_url=url, api_key="none") as client:
            assert client.messages.create(**ASK).content[0].text == "at last"  # type: ignore[union-attr]
        assert len(sglang.engine.requests) == 3
    assert len(sglang.served.gateway.roster) == 1  # each try is the same agent's


def test_a_turn_that_found_nothing_cached_is_counted_as_recomputed(sglang: Any) -> None:
    """SGLang leaves ``cache_read_input_tokens`` out where it is 0: where it was told before, that is no unknown."""
    talk: list[Any] = [{"role": "user", "content": "Go on, and on."}]
    for number, used in enumerate(({"input_tokens": 400, "cache_read_input_tokens": 600}, {"input_tokens": 1100})):
        said = {"type": "text", "text": f"I go on. {number}"}
        reply = {"type": "message", "role": "assistant", "content": [said], "usage": {**used, "output_tokens": 20}}
        body = json.dumps({"id": "m", "model": "m", "stop_reason": "end_turn", **reply}).encode()
        sglang.answers = [b"HTTP/1.1 200 OK\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body]
        with anthropic.Anthropic(base_url=sglang.served.url, api_key="none") as client:
            client.messages.create(model="m", max_tokens=20, messages=talk)
        talk += [{"role": "assistant", "content": [said]}, {"role": "user", "content": "And on."}]
    assert sglang.served.controller.stats().recomputed_tokens == 1020


# --- what a real engine said ---


def test_what_sglang_really_said_arrives_byte_for_byte(kit: Any, sglang: Any, interaction: Any) -> None:
    sglang.answers = [kit.as_sent(interaction)]
    asked = (interaction["request"]["body"] or "").encode()
    method, path = interaction["request"]["method"], interaction["request"]["uri"].removeprefix("http://engine")
    replies = [
        httpx.request(method, url + path, content=asked, headers={"content-type": "application/json"})
        for url in sglang.urls
    ]
    assert {reply.status_code for reply in replies} == {interaction["response"]["status"]["code"]}
    assert {reply.content for reply in replies} == {interaction["response"]["body"]["string"].encode()}
    assert kit.idle(sglang)
