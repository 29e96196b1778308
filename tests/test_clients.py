"""Wrapped clients over HTTP: each generation is one step of the agent around it, and nothing else changes."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import openai
import pydantic
import pytest

from concur_agents import AgentEvent, AgentEventKind, AgentState, Controller, TokenUsage
from concur_agents.emulator import Emulator, ServiceConfig

ADMITTED, PAUSED, RESUMED = AgentEventKind.ADMITTED, AgentEventKind.PAUSED, AgentEventKind.RESUMED
MESSAGES: Any = [{"role": "user", "content": "hello"}]
CHAT: Any = {"model": "m", "messages": MESSAGES, "max_tokens": 50}
COMPLETION: Any = {"model": "m", "prompt": "hello", "max_tokens": 5}
RESPONSE: Any = {"model": "m", "input": "hello"}
MESSAGE: Any = {"model": "m", "messages": MESSAGES, "max_tokens": 5}


class Answer(pydantic.BaseModel):
    text: str


# Replies of two protocols that the embedded engine does not speak: 20 tokens asked, 12 cached, 3 generated.


def _responses(stream: bool) -> tuple[str, bytes]:
    usage = {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 12},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 23,
    }
    text = {"type": "output_text", "text": '{"text": "hi"}', "annotations": []}
    message = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [text]}
    reply: dict[str, Any] = {
        "id": "r", "object": "response", "created_at": 0, "model": "m", "output": [message], "usage": usage,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed",
    }  # fmt: skip
    if not stream:
        return "application/json", json.dumps(reply).encode()
    begun = reply | {"output": [], "usage": None, "status": "in_progress"}
    events = [
        {"type": "response.created", "sequence_number": 0, "response": begun},
        {"type": "response.completed", "sequence_number": 1, "response": reply},
    ]
    return "text/event-stream", _events(events)


def _messages(stream: bool) -> tuple[str, bytes]:
    reply: dict[str, Any] = {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {
            "input_tokens": 3, "cache_read_input_tokens": 12, "cache_creation_input_tokens": 5, "output_tokens": 3,
        },
    }  # fmt: skip
    if not stream:
        return "application/json", json.dumps(reply).encode()
    begun = reply | {"content": [], "stop_reason": None, "usage": reply["usage"] | {"output_tokens": 1}}
    events = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    return "text/event-stream", _events(events)


def _events(events: list[dict[str, Any]]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


class Engine:
    """The embedded engine with something in front that notes requests, fails them, and speaks two more protocols."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.on_request: Callable[[], object] = lambda: None
        self.failures: list[int] = []
        self.url = ""

    def in_front(self, app: Any) -> Any:
        async def front(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["method"] != "POST":
                await app(scope, receive, send)
                return
            body = b""
            while (part := await receive()).get("more_body"):
                body += part["body"]
            body += part["body"]
            request = json.loads(body)
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.requests.append((scope["path"], headers, request))
            self.on_request()
            if self.failures:
                head = [(b"retry-after-ms", b"1"), (b"content-type", b"application/json")]
                await send({"type": "http.response.start", "status": self.failures.pop(0), "headers": head})
                await send({"type": "http.response.body", "body": b'{"error": {"message": "no"}}'})
                return
            canned = {"/v1/responses": _responses, "/v1/messages": _messages}.get(scope["path"])
            if canned is not None:
                kind, reply = canned(bool(request.get("stream")))
                head = [(b"content-type", kind.encode())]
                await send({"type": "http.response.start", "status": 200, "headers": head})
                await send({"type": "http.response.body", "body": reply})
                return
            given = False

            async def again() -> Any:
                nonlocal given
                if given:
                    return await receive()
                given = True
                return {"type": "http.request", "body": body, "more_body": False}

            path = scope["path"].replace("/openai/deployments/m/", "/v1/")
            await app(scope | {"path": path, "raw_path": path.encode()}, again, send)

        return front

    def script(self, agent: str, text: str, *, output_tokens: int) -> None:
        """What the model says to an agent, turn by turn the same."""
        body = json.dumps({"session_id": agent, "replies": [{"content": text, "output_tokens": output_tokens}]})
        request = urllib.request.Request(f"{self.url}/emulator/scripts", body.encode())
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request).close()
        self.requests.clear()

    def headers(self) -> dict[str, str]:
        return self.requests[-1][1]

    def body(self) -> dict[str, Any]:
        return self.requests[-1][2]


@pytest.fixture(scope="module")
def served() -> Iterator[Engine]:
    engine = Engine()
    with Emulator(ServiceConfig.preset("laptop", speedup=10_000), middleware=engine.in_front) as emulator:
        engine.url = emulator.url
        yield engine


@pytest.fixture
def engine(served: Engine) -> Engine:
    served.requests.clear()
    served.failures.clear()
    served.on_request = lambda: None
    served.script("a", "hi", output_tokens=5)
    return served


@pytest.fixture
def concur(make_controller: Callable[..., Controller]) -> Controller:
    """One seat."""
    return make_controller(1)


@pytest.fixture
async def plain(engine: Engine) -> AsyncIterator[openai.AsyncOpenAI]:
    http = openai.DefaultAsyncHttpxClient(verify=False)
    options: Any = {"base_url": f"{engine.url}/v1", "api_key": "none", "http_client": http}
    async with openai.AsyncOpenAI(**options) as client:
        yield client


@pytest.fixture
def llm(concur: Controller, plain: openai.AsyncOpenAI) -> openai.AsyncOpenAI:
    return concur.wrap_client(plain)


@pytest.fixture
def blocking(engine: Engine, concur: Controller) -> Iterator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(verify=False)
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", http_client=http) as client:
        yield concur.wrap_client(client)


def state(concur: Controller, agent: str = "a") -> AgentState | None:
    return {view.agent_id: view.state for view in concur.agents()}.get(agent)


def told(concur: Controller) -> TokenUsage:
    stats = concur.stats()
    return TokenUsage(prompt=stats.prompt_tokens, cached=stats.cached_tokens, output=stats.output_tokens)


# --- every way to generate is one step ---


async def raw(llm: openai.AsyncOpenAI) -> None:
    reply = await llm.chat.completions.with_raw_response.create(**CHAT)
    assert reply.parse().choices


async def raw_stream(llm: openai.AsyncOpenAI) -> None:
    usage: Any = {"include_usage": True}
    reply = await llm.chat.completions.with_raw_response.create(**CHAT, stream=True, stream_options=usage)
    assert [chunk async for chunk in reply.parse()]


async def unread(llm: openai.AsyncOpenAI) -> None:
    async with llm.chat.completions.with_streaming_response.create(**CHAT) as reply:
        assert (await reply.parse()).choices


async def helper(llm: openai.AsyncOpenAI) -> None:
    async with llm.chat.completions.stream(**CHAT) as stream:
        assert [event async for event in stream]
        assert (await stream.get_final_completion()).choices


async def chunks(llm: openai.AsyncOpenAI) -> None:
    assert all([chunk.choices async for chunk in await llm.chat.completions.create(**CHAT, stream=True)])


async def text_chunks(llm: openai.AsyncOpenAI) -> None:
    assert all([chunk.choices async for chunk in await llm.completions.create(**COMPLETION, stream=True)])


async def response_events(llm: openai.AsyncOpenAI) -> None:
    events = [event.type async for event in await llm.responses.create(**RESPONSE, stream=True)]
    assert events == ["response.created", "response.completed"]


async def response_helper(llm: openai.AsyncOpenAI) -> None:
    async with llm.responses.stream(**RESPONSE) as stream:
        assert (await stream.get_final_response()).usage


async def response_parsed(llm: openai.AsyncOpenAI) -> None:
    assert (await llm.responses.parse(**RESPONSE, text_format=Answer)).output_parsed == Answer(text="hi")


Way = Callable[[openai.AsyncOpenAI], Awaitable[object]]
WAYS: dict[str, Way] = {
    "create": lambda llm: llm.chat.completions.create(**CHAT),
    "stream": chunks,
    "stream helper": helper,
    "raw": raw,
    "raw stream": raw_stream,
    "streaming response": unread,
    "with_options": lambda llm: llm.with_options(timeout=60).chat.completions.create(**CHAT),
    "copy of a copy": lambda llm: llm.copy().copy(max_retries=0).chat.completions.create(**CHAT),
    "post": lambda llm: llm.post("/chat/completions", body=CHAT, cast_to=object),
    "completion": lambda llm: llm.completions.create(**COMPLETION),
    "completion stream": text_chunks,
    "response": lambda llm: llm.responses.create(**RESPONSE),
    "response stream": response_events,
    "response stream helper": response_helper,
    "response parsed": response_parsed,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_every_way_to_generate_is_one_step(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI, way: Way
) -> None:
    events, seen = concur.events(), []
    engine.on_request = lambda: seen.append(state(concur))
    async with concur.agent("a"):
        await way(llm)
        assert state(concur) is AgentState.IN_TOOL
        await way(llm)
        assert state(concur) is AgentState.IN_TOOL
    assert seen == [AgentState.GENERATING] * 2
    assert engine.headers()["x-session-id"] == "a"
    events.close()
    kinds = [event.kind for event in events if isinstance(event, AgentEvent)]
    assert kinds[:-1] == [ADMITTED, PAUSED, RESUMED, PAUSED]
    usage = told(concur)
    assert usage.prompt
    assert usage.output
    if engine.requests[0][0] == "/v1/responses":
        assert usage == TokenUsage(prompt=40, cached=24, output=6)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the SDK dumps a reply with SGLang's own fields
async def test_parse_gives_the_users_model(concur: Controller, llm: openai.AsyncOpenAI, engine: Engine) -> None:
    engine.script("a", '{"text": "hi"}', output_tokens=5)
    async with concur.agent("a"):
        reply = await llm.chat.completions.parse(**CHAT, response_format=Answer)
        assert reply.choices[0].message.parsed == Answer(text="hi")
        assert state(concur) is AgentState.IN_TOOL
    assert told(concur).output


async def test_blocking_client_in_threads(engine: Engine, concur: Controller, blocking: openai.OpenAI) -> None:
    seen: list[AgentState | None] = []
    engine.on_request = lambda: seen.append(state(concur))

    def solve() -> None:
        usage: Any = {"include_usage": True}
        assert blocking.chat.completions.create(**CHAT).choices
        assert state(concur) is AgentState.IN_TOOL
        assert list(blocking.chat.completions.create(**CHAT, stream=True))[-1].choices
        assert state(concur) is AgentState.IN_TOOL
        with blocking.chat.completions.with_streaming_response.create(**CHAT) as reply:
            assert reply.parse().choices
        assert state(concur) is AgentState.IN_TOOL
        with blocking.chat.completions.stream(**CHAT) as stream:
            assert list(stream)
        assert state(concur) is AgentState.IN_TOOL
        raw = blocking.chat.completions.with_raw_response.create(**CHAT, stream=True, stream_options=usage)
        assert not list(raw.parse())[-1].choices
        assert state(concur) is AgentState.IN_TOOL

    async with concur.agent("a"):
        await asyncio.to_thread(solve)
    assert seen == [AgentState.GENERATING] * 5
    assert told(concur).output == 5 * 5


async def test_waits_for_a_seat_before_the_request(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI, until: Any
) -> None:
    await concur.admit("holder")
    async with concur.agent("a"):
        task = asyncio.create_task(llm.chat.completions.create(**CHAT))
        await until(lambda: concur.stats().population.waiting == 1)
        assert engine.requests == []
        concur.finish("holder")
        assert (await task).choices


async def test_calls_at_once_are_one_generation_of_the_agent(concur: Controller, llm: openai.AsyncOpenAI) -> None:
    events = concur.events()
    async with concur.agent("a"):
        await asyncio.gather(*(llm.chat.completions.create(**CHAT) for _ in range(3)))
        assert state(concur) is AgentState.IN_TOOL
    events.close()
    kinds = [event.kind for event in events if isinstance(event, AgentEvent)]
    assert kinds[0] is ADMITTED
    assert kinds[-2] is PAUSED


async def test_an_explicit_step_round_it_counts_once(concur: Controller, llm: openai.AsyncOpenAI) -> None:
    async with concur.agent("a") as agent, agent.step():
        await llm.chat.completions.create(**CHAT)
        assert state(concur) is AgentState.GENERATING
        (view,) = concur.agents()
    assert view.steps == 1


# --- streams ---


async def test_usage_of_a_stream_is_asked_for_and_not_shown(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI
) -> None:
    async with concur.agent("a"):
        stream = await llm.chat.completions.create(**CHAT, stream=True)
        usages = [chunk.usage async for chunk in stream]
        assert usages
        assert not any(usages)
    assert engine.body()["stream_options"] == {"include_usage": True}
    assert told(concur).output == 5


@pytest.mark.parametrize("asked", [True, False])
async def test_what_the_user_says_of_usage_stays(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI, asked: bool
) -> None:
    options: Any = {"include_usage": asked}
    async with concur.agent("a"):
        stream = await llm.chat.completions.create(**CHAT, stream=True, stream_options=options)
        *_, last = [chunk async for chunk in stream]
    assert engine.body()["stream_options"] == options
    assert bool(last.usage) is asked
    assert told(concur).output == (5 if asked else 0)


async def test_a_raw_stream_is_left_as_it_is(engine: Engine, concur: Controller, llm: openai.AsyncOpenAI) -> None:
    async with (
        concur.agent("a"),
        llm.chat.completions.with_streaming_response.create(**CHAT, stream=True) as reply,
    ):
        assert state(concur) is AgentState.GENERATING
        lines = [line async for line in reply.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        assert state(concur) is AgentState.IN_TOOL
    assert "stream_options" not in engine.body()


async def test_generates_until_the_stream_has_ended(concur: Controller, llm: openai.AsyncOpenAI) -> None:
    async with concur.agent("a"):
        stream = await llm.chat.completions.create(**CHAT, stream=True)
        await anext(stream)
        assert state(concur) is AgentState.GENERATING
        async for _ in stream:
            pass
        assert state(concur) is AgentState.IN_TOOL


async def test_stream_closed_half_way(concur: Controller, llm: openai.AsyncOpenAI) -> None:
    async with concur.agent("a"):
        async with await llm.chat.completions.create(**CHAT, stream=True) as stream:
            await anext(stream)
        assert state(concur) is AgentState.IN_TOOL


@pytest.mark.parametrize("begun", [False, True])
async def test_stream_dropped(concur: Controller, llm: openai.AsyncOpenAI, until: Any, begun: bool) -> None:
    async with concur.agent("a"):
        stream = await llm.chat.completions.create(**CHAT, stream=True)
        if begun:
            await anext(stream)
        assert state(concur) is AgentState.GENERATING
        del stream
        gc.collect()
        await until(lambda: state(concur) is AgentState.IN_TOOL)


async def test_agent_that_ends_amid_a_stream(concur: Controller, llm: openai.AsyncOpenAI) -> None:
    async with concur.agent("a"):
        stream = await llm.chat.completions.create(**CHAT, stream=True)
        await anext(stream)
    assert [chunk async for chunk in stream]
    assert concur.agents() == ()
    assert concur.stats().population.seated == 0


# --- failures ---


async def test_retries_are_within_the_step(engine: Engine, concur: Controller, llm: openai.AsyncOpenAI) -> None:
    engine.failures += [503, 429]
    events = concur.events()
    async with concur.agent("a"):
        assert (await llm.chat.completions.create(**CHAT)).choices
    events.close()
    kinds = [event.kind for event in events if isinstance(event, AgentEvent)]
    assert kinds[:-1] == [ADMITTED, PAUSED]
    assert [headers["x-session-id"] for _, headers, _ in engine.requests] == ["a"] * 3


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_is_a_boundary(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI, stream: bool
) -> None:
    engine.failures.append(400)
    async with concur.agent("a"):
        with pytest.raises(openai.BadRequestError):
            await llm.chat.completions.create(**CHAT, stream=stream)
        assert state(concur) is AgentState.IN_TOOL


async def test_cancelled_while_queued_it_asks_for_nothing_and_keeps_its_place(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI, until: Any
) -> None:
    await concur.admit("holder")
    async with concur.agent("a"):
        task = asyncio.create_task(llm.chat.completions.create(**CHAT))
        await until(lambda: concur.stats().population.waiting == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert state(concur) is AgentState.PARKED
        assert concur.stats().population.waiting == 0
    assert state(concur) is None
    assert engine.requests == []


async def test_cancelled_while_generating_it_is_at_a_boundary(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI
) -> None:
    came, loop = asyncio.Event(), asyncio.get_running_loop()
    engine.script("a", "hi", output_tokens=1_000_000)
    engine.on_request = lambda: loop.call_soon_threadsafe(came.set)
    async with concur.agent("a"):
        task = asyncio.create_task(llm.chat.completions.create(**CHAT | {"max_tokens": None}))
        await came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert state(concur) is AgentState.IN_TOOL


async def test_a_closed_controller_stops_nobody(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    async with concur.agent("a"):
        concur.close()
        for _ in range(2):
            assert (await llm.chat.completions.create(**CHAT)).choices
    assert engine.headers()["x-session-id"] == "a"
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 1


# --- whose step it is ---


async def test_outside_of_any_agent_it_goes_through_with_one_warning(
    engine: Engine, concur: Controller, llm: openai.AsyncOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert (await llm.chat.completions.create(**CHAT)).choices
    assert "x-session-id" not in engine.headers()
    assert concur.agents() == ()
    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "outside of any agent" in warning.message


async def test_a_call_that_outlives_its_agent_is_uncounted(concur: Controller, llm: openai.AsyncOpenAI) -> None:
    over = asyncio.Event()

    async def later() -> Any:
        await over.wait()
        return await llm.chat.completions.create(**CHAT)

    async with concur.agent("a"):
        await llm.chat.completions.create(**CHAT)
        task = asyncio.create_task(later())
    over.set()
    assert (await task).choices
    assert concur.agents() == ()


async def test_the_innermost_agent_generates(engine: Engine, concur: Controller, llm: openai.AsyncOpenAI) -> None:
    async with concur.agent("outer"):
        await llm.chat.completions.create(**CHAT)
        async with concur.agent("inner"):
            await llm.chat.completions.create(**CHAT)
            assert engine.headers()["x-session-id"] == "inner"
            assert {view.agent_id: view.parent for view in concur.agents()} == {"outer": None, "inner": "outer"}
        await llm.chat.completions.create(**CHAT)
    assert engine.headers()["x-session-id"] == "outer"


async def test_two_controllers_see_their_own_clients(
    engine: Engine, concur: Controller, make_controller: Callable[..., Controller], plain: openai.AsyncOpenAI
) -> None:
    other = make_controller(1)
    mine, others = concur.wrap_client(plain), other.wrap_client(plain)
    async with concur.agent("a"), other.agent("b"):
        await mine.chat.completions.create(**CHAT)
        assert engine.headers()["x-session-id"] == "a"
        assert (state(concur), state(other, "b")) == (AgentState.IN_TOOL, None)
        await others.chat.completions.create(**CHAT)
        assert engine.headers()["x-session-id"] == "b"
        assert state(other, "b") is AgentState.IN_TOOL


async def test_a_blocking_client_never_waits_in_an_event_loop(
    concur: Controller, blocking: openai.OpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    await concur.admit("holder")
    async with concur.agent("a"):
        assert blocking.chat.completions.create(**CHAT).choices  # the holder could need this very loop
    assert "called in an event loop" in caplog.text


def test_a_thread_without_the_context_is_outside(concur: Controller, blocking: openai.OpenAI) -> None:
    with concur.sync.agent("a"):
        thread = threading.Thread(target=blocking.chat.completions.create, kwargs=CHAT)
        thread.start()
        thread.join()
        assert concur.agents() == ()


# --- on the request ---


async def test_the_users_own_header_wins(engine: Engine, concur: Controller, llm: openai.AsyncOpenAI) -> None:
    async with concur.agent("a"):
        await llm.chat.completions.create(**CHAT, extra_headers={"x-session-ID": "mine", "X-Other": "1"})
        assert (engine.headers()["x-session-id"], engine.headers()["x-other"]) == ("mine", "1")
        await llm.with_options(default_headers={"X-SESSION-ID": "ours"}).chat.completions.create(**CHAT)
        assert engine.headers()["x-session-id"] == "ours"
        await llm.chat.completions.create(**CHAT, extra_headers={"X-Other": "1"})
        assert (engine.headers()["x-session-id"], engine.headers()["x-other"]) == ("a", "1")


async def test_the_controllers_header_is_used(
    engine: Engine, make_controller: Callable[..., Controller], plain: openai.AsyncOpenAI
) -> None:
    for name in ("X-Agent", None):
        concur = make_controller(1, session_header=name)
        async with concur.agent("a b"):
            await concur.wrap_client(plain).chat.completions.create(**CHAT)
        assert engine.headers().get("x-agent") == (None if name is None else "a%20b")
        assert "x-session-id" not in engine.headers()


# --- the client ---


async def test_the_original_stays_as_it_was(engine: Engine, concur: Controller, plain: openai.AsyncOpenAI) -> None:
    assert plain.chat.completions is not None  # made before, and kept by the client
    wrapped = concur.wrap_client(plain)
    async with concur.agent("a"):
        await plain.chat.completions.create(**CHAT)
        assert concur.agents() == ()
    assert type(plain) is openai.AsyncOpenAI
    assert isinstance(wrapped, openai.AsyncOpenAI)
    assert type(wrapped).__qualname__ == "AsyncOpenAI"
    assert (wrapped.base_url, wrapped.api_key) == (plain.base_url, plain.api_key)


async def test_other_requests_are_no_steps(concur: Controller, llm: openai.AsyncOpenAI) -> None:
    async with concur.agent("a"):
        assert [model.id async for model in llm.models.list()]
        with pytest.raises(openai.NotFoundError):
            await llm.embeddings.create(model="m", input="x")
        assert concur.agents() == ()


async def test_azure(engine: Engine, concur: Controller) -> None:
    http = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=engine.url, api_key="none", api_version="2024-10-21", http_client=http
    ) as client:
        llm = concur.wrap_client(client)
        assert isinstance(llm, openai.AsyncAzureOpenAI)
        async with concur.agent("a"):
            assert (await llm.chat.completions.create(**CHAT)).choices
            await chunks(llm.with_options(timeout=60))
            assert state(concur) is AgentState.IN_TOOL
    assert engine.requests[-1][0] == "/openai/deployments/m/chat/completions"
    assert engine.headers()["x-session-id"] == "a"


async def test_anthropic(engine: Engine, concur: Controller) -> None:
    anthropic = pytest.importorskip("anthropic")
    async with anthropic.AsyncAnthropic(
        base_url=engine.url, api_key="none", http_client=anthropic.DefaultAsyncHttpxClient(verify=False)
    ) as client:
        llm = concur.wrap_client(client)
        assert isinstance(llm, anthropic.AsyncAnthropic)
        for number in range(4):
            async with concur.agent("a"):
                if number == 0:
                    assert (await llm.messages.create(**MESSAGE)).content
                elif number == 1:
                    assert [event async for event in await llm.messages.create(**MESSAGE, stream=True)]
                elif number == 2:
                    async with llm.messages.stream(**MESSAGE) as stream:
                        assert await stream.get_final_text() == "hi"
                else:
                    assert (await (await llm.messages.with_raw_response.create(**MESSAGE)).parse()).content
                assert state(concur) is AgentState.IN_TOOL
            assert engine.headers()["x-session-id"] == "a"
            times = number + 1
            assert told(concur) == TokenUsage(prompt=20 * times, cached=12 * times, output=3 * times)


@pytest.mark.parametrize("thing", [None, object(), "client", openai.AsyncOpenAI])
def test_only_such_clients_are_wrapped(concur: Controller, thing: object) -> None:
    with pytest.raises(TypeError, match="a client of the openai or anthropic package, got"):
        concur.wrap_client(thing)
