"""Clients as they are released, unmodified: what they get through a gateway is what they get from the engine."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
import yaml
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

CASSETTE = Path(__file__).parents[1] / "emulator" / "cassettes" / "sglang-0.5.23.yaml"
ITS_OWN = {"id", "created", "tool_call_id"}
"""What no two replies have in common."""
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
def _ways(wire: Any) -> Iterator[Any]:
    with wire.emulator() as alone, wire.emulator() as behind, wire.serve(behind.url) as served:
        for engine in alone, behind:
            replies = [{"content": "I look.", "tool_calls": [{"name": "bash", "arguments": {"cmd": "ls"}}]}]
            script(engine, SCRIPTED, *replies, {"content": "Done."})
        yield SimpleNamespace(direct=alone.url, through=served.url, urls=(alone.url, served.url), served=served)


@pytest.fixture
def ways(_ways: Any) -> Any:
    """Two engines that answer alike, one of them behind a gateway: what is cached is the same on both ways."""
    for url in _ways.urls:
        assert httpx.post(url + "/flush_cache").status_code == 200
    for member in list(_ways.served.gateway.roster):
        httpx.delete(f"{_ways.through}/concur/v1/agents/{member.agent_id}")
    return _ways


def idle(ways: Any) -> bool:
    return all(member.open == 0 for member in ways.served.gateway.roster)


@pytest.fixture(scope="module")
def sglang(wire: Any) -> Iterator[Any]:
    """An engine that says what it is told to, the last of it again and again, and a gateway before it."""
    now = SimpleNamespace(answers=[])
    with (
        wire.RawEngine(lambda *_: now.answers.pop(0) if now.answers[1:] else now.answers[0]) as engine,
        wire.serve(engine.url) as served,
    ):
        now.engine, now.served, now.urls = engine, served, (engine.url, served.url)
        yield now


def script(engine: Any, match: str, *replies: dict[str, Any]) -> None:
    from concur_agents.emulator.scripts import ScriptedReply

    engine.service.scripts.register(match, [ScriptedReply.parse(reply, "reply") for reply in replies], match)


def kept(value: Any) -> Any:
    """Without what is each reply's own, at any depth."""
    if isinstance(value, dict):
        return {name: kept(each) for name, each in value.items() if name not in ITS_OWN}
    return [kept(each) for each in value] if isinstance(value, list) else value


def joined(chunks: list[dict[str, Any]]) -> Any:
    """What a stream says, however its text is cut: that is the engine's speed at the moment."""
    text, reasons, calls, rest = "", [], [], []
    for chunk in map(kept, chunks):
        for choice in chunk["choices"]:
            delta = choice.get("delta", choice)
            text += delta.get("content") or delta.get("text") or ""
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
            calls += delta.get("tool_calls") or []
        rest.append(chunk.get("usage"))
    return text, reasons, calls, [usage for usage in rest if usage], {chunk["model"] for chunk in chunks}


def sync_call(url: str, call: Callable[[Any], Any]) -> Any:
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        reply = call(client)
        if isinstance(reply, openai.Stream):
            return joined([chunk.model_dump(warnings=False) for chunk in reply])
        return kept(reply.model_dump(warnings=False))


async def async_call(url: str, call: Callable[[Any], Any]) -> Any:
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        reply = await call(client)
        if isinstance(reply, openai.AsyncStream):
            return joined([chunk.model_dump(warnings=False) async for chunk in reply])
        return kept(reply.model_dump(warnings=False))


def asking(kind: str, name: str) -> Callable[[Any], Any]:
    if kind == "chat":
        return lambda client: client.chat.completions.create(**CHATS[name])
    return lambda client: client.completions.create(**COMPLETIONS[name])


@pytest.mark.parametrize(("kind", "name"), CALLS)
def test_the_openai_client_gets_what_the_engine_says(ways: Any, kind: str, name: str) -> None:
    direct, through = (sync_call(url, asking(kind, name)) for url in ways.urls)
    assert direct == through
    assert idle(ways)


@pytest.mark.parametrize(("kind", "name"), CALLS)
async def test_the_async_openai_client_gets_what_the_engine_says(ways: Any, kind: str, name: str) -> None:
    direct, through = [await async_call(url, asking(kind, name)) for url in ways.urls]
    assert direct == through
    assert idle(ways)


def test_a_client_without_names_is_one_agent_over_its_conversation(ways: Any) -> None:
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


def test_models_and_what_else_an_engine_offers_go_through(ways: Any) -> None:
    assert len({str(sync_call(url, lambda client: client.models.list())) for url in ways.urls}) == 1
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
def test_an_error_of_the_engine_is_the_same_exception(ways: Any, name: str) -> None:
    kind, call = ERRORS[name]
    raised = []
    for url in ways.urls:
        with pytest.raises(kind) as caught:
            sync_call(url, call)
        error = caught.value
        raised.append((type(error), str(error), error.body, error.status_code, error.response.content))
    assert raised[0] == raised[1]
    assert idle(ways)


def test_a_body_that_is_too_large_is_an_error_that_the_client_does_not_retry(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, max_body=100) as served:
        with (
            openai.OpenAI(base_url=served.url + "/v1", api_key="none") as client,
            pytest.raises(openai.APIStatusError, match="more than 100 bytes") as caught,
        ):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x" * 200}])
        assert caught.value.status_code == 413
        assert engine.requests == []


def reply_of(status: int, body: bytes, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


JSON = {"Content_Type": "application/json"}
WHOLE = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "at last"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
).encode()


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_retries_an_error_of_the_engine_as_without_a_gateway(sglang: Any, status: int, stream: bool) -> None:
    event = WHOLE.replace(b'"message"', b'"delta"').replace(b"chat.completion", b"chat.completion.chunk")
    good = reply_of(200, b"data: " + event + b"\n\ndata: [DONE]\n\n", Content_Type="text/event-stream")
    asked = CHAT | {"user": f"{status} {stream}"}
    known = len(sglang.served.gateway.roster)
    for url in sglang.urls:
        left = [reply_of(status, b'{"message": "busy"}', Retry_After_Ms="1", **JSON)] * 2
        left.append(good if stream else reply_of(200, WHOLE, **JSON))
        sglang.answers = left
        sglang.engine.requests.clear()
        with openai.OpenAI(base_url=url + "/v1", api_key="none") as client:
            reply = client.chat.completions.create(**asked, stream=stream)
            said = next(iter(reply)).choices[0].delta if stream else reply.choices[0].message
            assert said.content == "at last"
        assert [tried(request) for request in sglang.engine.requests] == [b"0", b"1", b"2"]
    assert len(sglang.served.gateway.roster) == known + 1  # each try is the same agent's


def tried(request: bytes) -> bytes:
    head = request.lower().partition(b"\r\n\r\n")[0]
    return head.partition(b"x-stainless-retry-count: ")[2].partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "error", [b'{"error": {"code": 503}}', b'{"object":"error","code":503}', b'{"type": "error", "error": {}}']
)
def test_a_conversation_after_an_error_inside_a_stream_is_still_the_same_agent_s(sglang: Any, error: bytes) -> None:
    """SGLang has begun a stream by the time it knows that its queue is full."""
    known = len(sglang.served.gateway.roster)
    body = b"data: " + error + b"\n\ndata: [DONE]\n\n"
    sglang.answers = [reply_of(200, body, Content_Type="text/event-stream")]
    with openai.OpenAI(base_url=sglang.served.url + "/v1", api_key="none") as client:
        for _ in range(3):
            with contextlib.suppress(openai.APIError):
                list(client.chat.completions.create(**CHAT | {"user": error.decode()}, stream=True))
    assert len(sglang.served.gateway.roster) == known + 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_that_stays_is_the_same_exception_after_as_many_tries(sglang: Any, stream: bool) -> None:
    message = b'{"message": "The request queue is full.", "code": 503}'
    sglang.answers = [reply_of(503, message, Retry_After_Ms="1", **JSON)]
    raised = []
    for url in sglang.urls:
        sglang.engine.requests.clear()
        with (
            openai.OpenAI(base_url=url + "/v1", api_key="none") as client,
            pytest.raises(openai.InternalServerError) as caught,
        ):
            client.chat.completions.create(**CHAT, stream=stream)
        raised.append((str(caught.value), caught.value.body))
        assert len(sglang.engine.requests) == 3
    assert raised[0] == raised[1]


# --- waiting: for a seat, and for an engine ---


@pytest.mark.parametrize("stream", [False, True])
def test_a_wait_that_is_longer_than_all_tries_ends_in_the_reply(wire: Any, ways: Any, stream: bool) -> None:
    """Two tries are answered with 503; the last one is held, with signs of life that the client does not see."""
    statuses: list[int] = []

    def finish(response: Any) -> None:
        statuses.append(response.status_code)
        if response.status_code == 200:
            served.gateway.roster.finish("first")

    with wire.emulator() as engine, wire.serve(engine.url, window=1, hold=0.01, heartbeat=0.01) as served:
        with openai.OpenAI(base_url=served.url + "/v1", api_key="none") as client:
            client.chat.completions.create(**CHAT, extra_headers={"X-Session-ID": "first"})
        http = openai.DefaultHttpxClient(event_hooks={"response": [finish]})
        with openai.OpenAI(base_url=served.url + "/v1", api_key="none", http_client=http) as client:
            reply = client.chat.completions.create(**CHAT | {"max_tokens": 7}, stream=stream)
            if stream:
                said: Any = joined([chunk.model_dump(warnings=False) for chunk in reply])
            else:
                said = kept(reply.model_dump(warnings=False))
    asked = CHAT | {"max_tokens": 7, "stream": stream}
    plain = sync_call(ways.direct, lambda client: client.chat.completions.create(**asked))
    assert statuses == [503, 503, 200]
    if stream:
        assert said == plain
    else:
        assert said["choices"] == plain["choices"]


def test_a_client_that_gives_up_on_the_engine_leaves_nothing_behind(wire: Any, ways: Any) -> None:
    with openai.OpenAI(base_url=ways.through, api_key="none") as control:
        control.post("/pause_generation", body={"mode": "in_place"}, cast_to=object)
        with (
            openai.OpenAI(base_url=ways.through + "/v1", api_key="none", timeout=0.2, max_retries=1) as client,
            pytest.raises(openai.APITimeoutError),
        ):
            client.chat.completions.create(**CHAT)
        # Both tries were one agent's, which is at its boundary now, and known still.
        wire.until(lambda: [member.open for member in ways.served.gateway.roster] == [0])
        control.post("/continue_generation", body={}, cast_to=object)
    sync_call(ways.through, asking("chat", "whole"))
    assert len(ways.served.gateway.roster) == 1


async def test_a_task_that_is_cancelled_leaves_nothing_behind(wire: Any, ways: Any) -> None:
    async with openai.AsyncOpenAI(base_url=ways.through + "/v1", api_key="none") as client:
        for cut in range(2):
            stream = await client.chat.completions.create(**CHAT | {"max_tokens": 2000}, stream=True)
            if cut:
                await anext(stream)
            await stream.close()
        task = asyncio.create_task(client.chat.completions.create(**CHAT | {"max_tokens": 100_000}))
        await asyncio.to_thread(wire.until, lambda: any(member.open for member in ways.served.gateway.roster))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(wire.until, lambda: not any(member.open for member in ways.served.gateway.roster))
        assert (await client.chat.completions.create(**CHAT)).choices


# --- raw replies, and what a real engine said ---


def recorded() -> list[Any]:
    """What SGLang 0.5.23 answered on paths that clients of OpenAI use."""
    played = yaml.safe_load(CASSETTE.read_text())["interactions"]
    wanted = [each for each in played if each["request"]["uri"].startswith("http://engine/v1/")]
    return [each for each in wanted if each["request"]["method"] == "POST"]


RECORDED = recorded()


def as_sent(interaction: Any) -> bytes:
    """A recorded reply, on the wire again: a stream in chunks, one event each."""
    response = interaction["response"]
    kind = response["headers"]["content-type"][0]
    head = f"HTTP/1.1 {response['status']['code']} {response['status']['message']}\r\nContent-Type: {kind}\r\n"
    body = response["body"]["string"].encode()
    if not kind.startswith("text/event-stream"):
        return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events)
    return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def raw_call(url: str, interaction: Any) -> Any:
    """What the client makes of a recorded reply, to the same request."""
    body = json.loads(interaction["request"]["body"])
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        chat = interaction["request"]["uri"].endswith("/chat/completions")
        create: Any = client.chat.completions if chat else client.completions
        given: dict[str, Any] = {"model": "m", "messages" if chat else "prompt": [], "stream": bool(body.get("stream"))}
        try:
            with create.with_streaming_response.create(**given, extra_body=body) as streamed:
                raw = streamed.read()
            reply = create.create(**given, extra_body=body)
        except openai.APIStatusError as error:
            return type(error), str(error), error.body, error.response.content
        parsed = (
            [chunk.model_dump(warnings=False) for chunk in reply]
            if given["stream"]
            else reply.model_dump(warnings=False)
        )
        return raw, parsed


@pytest.mark.parametrize("index", range(len(RECORDED)))
def test_what_sglang_really_said_arrives_byte_for_byte(sglang: Any, index: int) -> None:
    interaction = RECORDED[index]
    sglang.answers = [as_sent(interaction)]
    sglang.engine.requests.clear()
    direct, through = (raw_call(url, interaction) for url in sglang.urls)
    assert direct == through
    assert interaction["response"]["body"]["string"].encode() in direct
    asked = [request.partition(b"\r\n\r\n")[2] for request in sglang.engine.requests]
    assert len(asked) % 2 == 0
    assert asked[: len(asked) // 2] == asked[len(asked) // 2 :]
    assert idle(sglang)


def test_usage_that_sglang_reports_is_seen_on_the_way(sglang: Any) -> None:
    """Whole and streamed; of streams, where the client asked for it. Short prompts of completions are nobody's."""
    seen = 0
    for interaction in RECORDED:
        text, uri = interaction["response"]["body"]["string"], interaction["request"]["uri"]
        if interaction["response"]["status"]["code"] != 200 or '"usage":{' not in text or "/chat/" not in uri:
            continue
        prompt, output = last_usage(text)
        sglang.answers = [as_sent(interaction)]
        before = sglang.served.controller.stats()
        raw_call(sglang.served.url, interaction)
        after = sglang.served.controller.stats()
        assert after.prompt_tokens - before.prompt_tokens == 2 * prompt  # asked twice
        assert after.output_tokens - before.output_tokens == 2 * output
        seen += 1
    assert seen == 9


def last_usage(text: str) -> tuple[int, int]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n")] if text.startswith("data: ") else [text]
    usage = [said for line in lines if line.startswith("{") and (said := json.loads(line).get("usage"))][-1]
    return usage["prompt_tokens"], usage["completion_tokens"]


def test_a_raw_reply_has_the_engine_s_head_and_body(ways: Any) -> None:
    heads = []
    for url in ways.urls:
        with openai.OpenAI(base_url=url + "/v1", api_key="none") as client:
            raw = client.chat.completions.with_raw_response.create(**CHAT)
            assert raw.retries_taken == 0
            assert json.loads(raw.content)["usage"]
            heads.append({name: value for name, value in raw.headers.items() if name != "date"})
    assert heads[0] == heads[1]


def test_lines_of_a_stream_are_the_engine_s(sglang: Any) -> None:
    streamed = next(each for each in RECORDED if '"include_usage":true' in each["request"]["body"])
    sglang.answers = [as_sent(streamed)]
    lines = []
    for url in sglang.urls:
        with (
            openai.OpenAI(base_url=url + "/v1", api_key="none") as client,
            client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as reply,
        ):
            lines.append(list(reply.iter_lines()))
    assert lines[0] == lines[1]
    assert "data: [DONE]" in lines[0]


# --- langchain-openai ---


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


def told(message: Any) -> Any:
    """What a message says, but for ids and times."""
    metadata = {name: value for name, value in message.response_metadata.items() if name not in ITS_OWN}
    calls = [{**call, "id": None} for call in message.tool_calls]
    extra = kept(message.additional_kwargs)
    return message.content, calls, message.usage_metadata, metadata, extra


ASK: list[Any] = [SystemMessage("Be brief."), HumanMessage(SCRIPTED)]
MODELS: dict[str, Callable[[ChatOpenAI], Any]] = {
    "plain": lambda chat: chat,
    "tools": lambda chat: chat.bind_tools([bash]),
    "forced": lambda chat: chat.bind_tools([bash], tool_choice="bash", parallel_tool_calls=True),
    "usage": lambda chat: chat.model_copy(update={"stream_usage": True}),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_langchain_gets_what_the_engine_says(chats: list[ChatOpenAI], ways: Any, name: str, way: str) -> None:
    said = []
    for chat in chats:
        model = MODELS[name](chat)
        if way in ("invoke", "stream"):
            got: Any = getattr(model, way)(ASK)
            message = got if way == "invoke" else added(list(got))
        else:
            got = getattr(model, way)(ASK)
            message = await got if inspect.isawaitable(got) else added([chunk async for chunk in got])
        said.append(told(message))
    assert said[0] == said[1]
    content, calls, usage, _, _ = said[0]
    assert content == "I look."
    assert [call["name"] for call in calls] == ["bash"]
    if name == "usage" or "invoke" in way:
        assert usage["input_tokens"] > 0
    assert idle(ways)


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
