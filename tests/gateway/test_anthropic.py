"""Anthropic's client as it is released, unmodified: through a gateway and with `wrap_client`, against the real wire."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anthropic
import httpx
import pytest
import yaml

from concur_agents import AgentState, Controller, FixedWindow
from concur_agents.emulator.scripts import ScriptedReply
from concur_agents.engines import AnyEngine

CASSETTE = Path(__file__).parents[1] / "emulator" / "cassettes" / "sglang-0.5.23-messages-responses.yaml"
SCRIPTED = "Look into the folder."
TOOL = {"name": "bash", "input_schema": {"type": "object", "properties": {}}}
REPLIES = [
    {"content": "I look.", "reasoning": "Hm.", "tool_calls": [{"name": "bash", "arguments": {"cmd": "ls"}}]},
    {"content": "Done."},
]
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
def _ways(wire: Any) -> Iterator[Any]:
    with wire.emulator() as alone, wire.emulator() as behind, wire.serve(behind.url) as served:
        for engine in alone, behind:
            replies = [ScriptedReply.parse(reply, "reply") for reply in REPLIES]
            engine.service.scripts.register(SCRIPTED, replies, SCRIPTED)
        yield SimpleNamespace(urls=(alone.url, served.url), through=served.url, served=served)


@pytest.fixture
def ways(_ways: Any) -> Any:
    """Two engines that answer alike, one of them behind a gateway: what is cached is the same on both ways."""
    for url in _ways.urls:
        assert httpx.post(url + "/flush_cache").status_code == 200
    for member in list(_ways.served.gateway.roster):
        httpx.delete(f"{_ways.through}/concur/v1/agents/{member.agent_id}")
    return _ways


@pytest.fixture(scope="module")
def sglang(wire: Any) -> Iterator[Any]:
    """An engine that says what it is told to, again and again, and a gateway before it."""
    now = SimpleNamespace(answers=[])
    with (
        wire.RawEngine(lambda *_: now.answers.pop(0) if now.answers[1:] else now.answers[0]) as engine,
        wire.serve(engine.url) as served,
    ):
        now.engine, now.served, now.urls = engine, served, (engine.url, served.url)
        yield now


def idle(ways: Any) -> bool:
    return all(member.open == 0 for member in ways.served.gateway.roster)


def kept(value: Any) -> Any:
    """Without ids, which are each reply's own, at any depth."""
    if isinstance(value, dict):
        return {name: kept(each) for name, each in value.items() if name != "id"}
    return [kept(each) for each in value] if isinstance(value, list) else value


def joined(events: list[Any]) -> Any:
    """What a stream says, however its text is cut: that is the engine's speed at the moment."""
    said: list[Any] = []
    for event in (kept(event.model_dump(warnings=False)) for event in events):
        delta = event.get("delta") or {}
        text = next((delta[name] for name in ("text", "partial_json", "thinking") if name in delta), None)
        if text is None:
            said.append(event)
        elif isinstance(said[-1], str):
            said[-1] += text
        else:
            said.append(text)
    return said


def sync_call(url: str, call: Callable[[Any], Any]) -> Any:
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        reply = call(client)
        if isinstance(reply, anthropic.Stream):
            return joined(list(reply))
        return kept(reply.model_dump(warnings=False))


async def async_call(url: str, call: Callable[[Any], Any]) -> Any:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
        reply = await call(client)
        if isinstance(reply, anthropic.AsyncStream):
            return joined([event async for event in reply])
        return kept(reply.model_dump(warnings=False))


@pytest.mark.parametrize("name", ASKED)
def test_the_client_gets_what_the_engine_says(ways: Any, name: str) -> None:
    direct, through = (sync_call(url, lambda client: client.messages.create(**ASKED[name])) for url in ways.urls)
    assert direct == through
    assert idle(ways)
    if name == "tools":
        assert [block["type"] for block in direct["content"]] == ["thinking", "text", "tool_use"]


@pytest.mark.parametrize("name", ASKED)
async def test_the_async_client_gets_what_the_engine_says(ways: Any, name: str) -> None:
    direct, through = [await async_call(url, lambda client: client.messages.create(**ASKED[name])) for url in ways.urls]
    assert direct == through
    assert idle(ways)


def test_the_stream_helper_puts_the_same_message_together(ways: Any) -> None:
    said = []
    for url in ways.urls:
        with (
            anthropic.Anthropic(base_url=url, api_key="none") as client,
            client.messages.stream(**ACT) as stream,
        ):
            message = kept(stream.get_final_message().model_dump(warnings=False))
        said.append(message)
    assert said[0] == said[1]
    assert [block["type"] for block in said[0]["content"]] == ["thinking", "text", "tool_use"]
    assert said[0]["usage"]["input_tokens"] > 0
    assert said[0]["usage"]["output_tokens"] > 0


def test_tokens_are_counted_without_a_seat(ways: Any) -> None:
    counted = {name: ACT[name] for name in ("model", "messages", "system", "tools")}
    said = {str(sync_call(url, lambda client: client.messages.count_tokens(**counted))) for url in ways.urls}
    assert len(said) == 1
    assert len(ways.served.gateway.roster) == 0


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_of_many_turns_is_one_agent_and_finds_its_own_cache(ways: Any, stream: bool) -> None:
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
def test_the_gateway_sees_the_usage_on_its_way(ways: Any, stream: bool) -> None:
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
def test_an_error_of_the_engine_is_the_same_exception(ways: Any, name: str) -> None:
    kind, asked = ERRORS[name]
    raised = []
    for url in ways.urls:
        with pytest.raises(kind) as caught:
            sync_call(url, lambda client: client.messages.create(**asked))
        error = caught.value
        raised.append((type(error), str(error), kept(error.body), error.status_code))
    assert raised[0] == raised[1]
    assert idle(ways)


def test_a_request_that_failed_in_its_stream_is_asked_again_by_the_same_agent(ways: Any) -> None:
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


def recorded() -> list[Any]:
    played = yaml.safe_load(CASSETTE.read_text())["interactions"]
    return [each for each in played if each["request"]["uri"].startswith("http://engine/v1/messages?")]


def as_sent(interaction: Any) -> bytes:
    """A recorded reply, on the wire again."""
    response = interaction["response"]
    body = response["body"]["string"].encode()
    head = f"HTTP/1.1 {response['status']['code']} Said\r\nContent-Type: {response['headers']['content-type'][0]}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


RECORDED = recorded()


@pytest.mark.parametrize("index", range(len(RECORDED)))
def test_what_sglang_really_said_arrives_byte_for_byte(sglang: Any, index: int) -> None:
    interaction = RECORDED[index]
    sglang.answers = [as_sent(interaction)]
    asked = (interaction["request"]["body"] or "{}").encode()
    method, path = interaction["request"]["method"], interaction["request"]["uri"].removeprefix("http://engine")
    said = []
    for url in sglang.urls:
        reply = httpx.request(method, url + path, content=asked, headers={"content-type": "application/json"})
        said.append((reply.status_code, reply.content))
    assert said[0] == said[1]
    assert said[0][1] == interaction["response"]["body"]["string"].encode()
    assert idle(sglang)


# --- wrapped, without a gateway ---


@pytest.fixture
def engine(wire: Any) -> Iterator[Any]:
    with wire.emulator() as engine:
        replies = [ScriptedReply.parse(reply, "reply") for reply in REPLIES]
        engine.service.scripts.register(SCRIPTED, replies, SCRIPTED)
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
