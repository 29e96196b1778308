"""Clients over HTTP with two engines: an agent's requests go to the engine it is on, and nothing else goes anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from concur_agents import AgentState, Controller, FixedWindow, steps
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.fleet.controller import FleetController
from concur_agents.routing import moved, route, unsent
from concur_agents.testing import ScriptedReader

CHAT: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
MESSAGE = (
    b'{"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "hi"}],'
    b' "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 3}}'
)
NOWHERE = "http://nowhere.invalid/v1"


def controller_of(*urls: str, window: float = 1) -> FleetController:
    readers = {url: ScriptedReader() for url in urls}
    return FleetController(readers, law=FixedWindow(window), background=False)


class Engine:
    """The embedded one, which notes the requests that it gets."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.requests: list[tuple[str, dict[str, str]]] = []

    def in_front(self, app: Any) -> Any:
        async def front(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.requests.append((scope["path"], headers))
                if scope["path"] == "/v1/messages":
                    head = [(b"content-type", b"application/json")]
                    await send({"type": "http.response.start", "status": 200, "headers": head})
                    await send({"type": "http.response.body", "body": MESSAGE})
                    return
            await app(scope, receive, send)

        return front

    def whose(self) -> list[str]:
        """Of its requests."""
        return [headers.get("x-session-id", "") for _, headers in self.requests]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Engine, Engine]]:
    with contextlib.ExitStack() as stack:
        engines = Engine(), Engine()
        for engine in engines:
            config = ServiceConfig.preset("laptop", speedup=10_000)
            engine.url = stack.enter_context(Emulator(config, middleware=engine.in_front)).url
        yield engines


@pytest.fixture
def engines(served: tuple[Engine, Engine]) -> tuple[Engine, Engine]:
    for engine in served:
        engine.requests.clear()
    return served


@pytest.fixture
def concur(engines: tuple[Engine, Engine]) -> Iterator[FleetController]:
    with contextlib.closing(controller_of(*(engine.url for engine in engines), window=8)) as controller:
        yield controller


@pytest.fixture
def dead() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


# --- every client ---

Ask = Callable[[FleetController, str], Awaitable[object]]


def _http(package: Any) -> Any:
    return package.AsyncClient(verify=False)


async def wrapped(concur: FleetController, base: str) -> None:
    async with openai.AsyncOpenAI(base_url=base, api_key="k", max_retries=0, http_client=_http(httpx)) as client:
        assert (await concur.wrap_client(client).chat.completions.create(**CHAT)).choices


async def streamed(concur: FleetController, base: str) -> None:
    async with openai.AsyncOpenAI(base_url=base, api_key="k", max_retries=0, http_client=_http(httpx)) as client:
        chunks = await concur.wrap_client(client).chat.completions.create(**CHAT, stream=True)
        assert [chunk async for chunk in chunks]


async def wrapped_in_a_thread(concur: FleetController, base: str) -> None:
    http = httpx.Client(verify=False)
    with openai.OpenAI(base_url=base, api_key="k", max_retries=0, http_client=http) as client:
        assert (await asyncio.to_thread(concur.wrap_client(client).chat.completions.create, **CHAT)).choices


async def of_anthropic(concur: FleetController, base: str) -> None:
    base = base.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(
        base_url=base, api_key="k", max_retries=0, http_client=anthropic.DefaultAsyncHttpxClient(verify=False)
    ) as client:
        message: Any = {"model": "m", "messages": CHAT["messages"], "max_tokens": 5}
        assert (await concur.wrap_client(client).messages.create(**message)).content


async def routed(concur: FleetController, base: str) -> None:
    agent = concur.current_agent()
    assert agent is not None
    async with (
        openai.AsyncOpenAI(base_url=base, api_key="k", max_retries=0, http_client=_http(httpx)) as client,
        agent.step(),
    ):
        llm = concur.route(client)
        assert isinstance(llm, openai.AsyncOpenAI)
        assert (await llm.with_options(timeout=60).chat.completions.create(**CHAT, extra_headers=agent.headers)).choices


def plain(package: Any) -> Ask:
    async def ask(concur: FleetController, base: str) -> None:
        agent = concur.current_agent()
        assert agent is not None
        async with concur.route(package.AsyncClient(base_url=base, verify=False)) as client, agent.step():
            reply = await client.post("/chat/completions", json=CHAT, headers=agent.headers)
            assert reply.json()["choices"]

    return ask


def plain_in_a_thread(package: Any) -> Ask:
    async def ask(concur: FleetController, base: str) -> None:
        agent = concur.current_agent()
        assert agent is not None
        headers = agent.headers

        def send() -> None:
            with concur.route(package.Client(base_url=base, verify=False)) as client:
                lines = client.stream("POST", "/chat/completions", json=CHAT | {"stream": True}, headers=headers)
                with lines as reply:
                    assert [line for line in reply.iter_lines() if line][-1] == "data: [DONE]"

        async with agent.step():
            await asyncio.to_thread(send)

    return ask


WAYS: dict[str, Ask] = {
    "wrap_client": wrapped,
    "wrap_client, streamed": streamed,
    "wrap_client, blocking": wrapped_in_a_thread,
    "wrap_client, anthropic": of_anthropic,
    "route": routed,
    "route, httpx": plain(httpx),
    "route, httpx2": plain(httpx2),
    "route, httpx, blocking": plain_in_a_thread(httpx),
    "route, httpx2, blocking": plain_in_a_thread(httpx2),
}
each_way = pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)


@each_way
@pytest.mark.parametrize("base", ["first", NOWHERE])
async def test_each_agents_requests_go_to_its_engine(
    engines: tuple[Engine, Engine], concur: FleetController, ask: Ask, base: str
) -> None:
    base = f"{engines[0].url}/v1" if base == "first" else base
    for agent_id, engine in zip("abab", engines * 2, strict=True):
        async with concur.agent(agent_id):
            concur.pin(agent_id, engine.url)
            await ask(concur, base)
    assert [engine.whose() for engine in engines] == [["a", "a"], ["b", "b"]]
    for engine in engines:
        for _, headers in engine.requests:
            assert f"http://{headers['host']}" == engine.url


@each_way
async def test_an_engine_that_takes_no_connection_loses_no_agent(
    engines: tuple[Engine, Engine], dead: str, ask: Ask
) -> None:
    with contextlib.closing(controller_of(dead, engines[1].url)) as concur:
        async with concur.agent("a") as agent:
            async with agent.step():
                assert agent.engine == dead
            await ask(concur, f"{dead}/v1")
            assert agent.engine == engines[1].url
            await ask(concur, f"{dead}/v1")
            assert concur.view("a") is not None
            assert concur.view("a").state is AgentState.IN_TOOL  # type: ignore[union-attr]
        assert engines[1].whose() == ["a", "a"]
        assert concur.agents() == ()


@each_way
async def test_where_no_engine_takes_connections_the_clients_own_error_is_raised(dead: str, ask: Ask) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        other = f"http://127.0.0.1:{held.getsockname()[1]}"
        with contextlib.closing(controller_of(dead, other)) as concur:
            async with concur.agent("a"):
                with pytest.raises(Exception, match=r"[Cc]onnect") as raised:
                    await ask(concur, f"{dead}/v1")
                assert raised.type.__name__ in ("APIConnectionError", "ConnectError")
            assert concur.agents() == ()


# --- what stays as it is ---


@pytest.fixture
async def client(engines: tuple[Engine, Engine]) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=engines[0].url, verify=False) as client:
        yield client


async def test_outside_of_agents_nothing_is_moved(
    engines: tuple[Engine, Engine], concur: FleetController, client: httpx.AsyncClient
) -> None:
    concur.route(client)
    async with concur.agent("b") as agent:
        concur.pin("b", engines[1].url)
        async with agent.step():
            pass
        assert agent.engine == engines[1].url
    await client.get("/health")
    assert [len(engine.requests) for engine in engines] == [1, 0]


async def test_requests_for_other_hosts_go_there_with_their_keys(
    engines: tuple[Engine, Engine], concur: FleetController, client: httpx.AsyncClient
) -> None:
    other = Engine()
    with Emulator(ServiceConfig.preset("laptop"), middleware=other.in_front) as emulator:
        concur.route(client)
        async with concur.agent("a"), concur.agent("b") as b, b.step():
            await client.get(f"{emulator.url}/health", headers={"Authorization": "Bearer secret"})
    assert [path for path, _ in other.requests] == ["/health"]
    assert [engine.requests for engine in engines] == [[], []]


async def test_a_client_that_nobody_vouched_for_is_moved_only_from_engine_to_engine(
    engines: tuple[Engine, Engine], concur: FleetController
) -> None:
    other = Engine()
    with Emulator(ServiceConfig.preset("laptop"), middleware=other.in_front) as emulator:
        for base in (emulator.url, engines[0].url):
            async with httpx.AsyncClient(base_url=base, verify=False) as client:
                route(client, concur, base=False)
                async with concur.agent(), concur.agent("b", parent=None) as b, b.step():
                    await client.get("/health")
    assert len(other.requests) == 1
    assert sum(len(engine.requests) for engine in engines) == 1


async def test_an_agent_of_another_controller_is_nobody_here(
    engines: tuple[Engine, Engine],
    concur: FleetController,
    client: httpx.AsyncClient,
    make_controller: Callable[..., Controller],
) -> None:
    concur.route(client)
    async with make_controller(1).agent("x") as agent, agent.step():
        await client.get("/health")
    assert [len(engine.requests) for engine in engines] == [1, 0]


async def test_one_engine_changes_nothing(
    engines: tuple[Engine, Engine], make_controller: Callable[..., Controller], client: httpx.AsyncClient
) -> None:
    concur = make_controller(1)
    assert concur.all_engines == ()
    concur.route(client)
    async with concur.agent("a") as agent, agent.step():
        assert agent.engine is None
        await client.get("/health")
    assert [len(engine.requests) for engine in engines] == [1, 0]


async def test_routing_twice_is_routing_once(concur: FleetController, client: httpx.AsyncClient) -> None:
    kind = type(concur.route(client))
    assert type(concur.route(client)) is kind
    assert isinstance(client, httpx.AsyncClient)
    assert kind.__qualname__ == "AsyncClient"
    async with openai.AsyncOpenAI(base_url=NOWHERE, api_key="k") as sdk:
        once = concur.route(sdk)
        assert once is not sdk
        assert type(sdk) is openai.AsyncOpenAI
        assert concur.route(once) is once


@pytest.mark.parametrize("thing", [None, object(), "client", openai.AsyncOpenAI, httpx.AsyncClient])
def test_only_such_clients_are_routed(concur: FleetController, thing: object) -> None:
    with pytest.raises(TypeError, match="a client of the openai, anthropic, httpx or httpx2 package, got"):
        concur.route(thing)


# --- steps that begin anew ---


async def test_a_step_that_begins_anew_waits_for_its_seat(engines: tuple[Engine, Engine], dead: str) -> None:
    with contextlib.closing(controller_of(dead, engines[1].url)) as concur:
        async with concur.agent("holder") as holder:
            concur.pin("holder", engines[1].url)
            async with holder.step():
                task = asyncio.create_task(_alone(concur))
                await asyncio.to_thread(_wait, lambda: concur.engine("a") == engines[1].url)
                view = concur.view("a")
                assert view is not None
                assert view.state is AgentState.RETURNING
                assert engines[1].requests == []
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert [view.agent_id for view in concur.agents()] == ["holder"]


async def _alone(concur: FleetController) -> None:
    async with concur.agent("a", parent=None):
        await wrapped(concur, NOWHERE)


def _wait(true: Callable[[], bool]) -> None:
    never = threading.Event()
    for _ in range(3000):
        if true():
            return
        never.wait(0.01)
    raise AssertionError("waited in vain")


async def test_all_of_an_agents_generations_go_on_elsewhere(engines: tuple[Engine, Engine], dead: str) -> None:
    with contextlib.closing(controller_of(dead, engines[1].url)) as concur:
        async with concur.agent("a") as agent:
            async with agent.step():
                assert agent.engine == dead
                await asyncio.gather(*(wrapped(concur, NOWHERE) for _ in range(3)))
                assert agent.engine == engines[1].url
            view = concur.view("a")
            assert view is not None
            assert view.state is AgentState.IN_TOOL
    assert engines[1].whose() == ["a"] * 3


async def test_nothing_is_remembered_of_steps_that_have_ended_or_were_dropped(
    engines: tuple[Engine, Engine], concur: FleetController
) -> None:
    for number in range(3):
        async with concur.agent(f"agent-{number}"):
            await wrapped(concur, f"{engines[0].url}/v1")
    await concur.agent("dropped").step().__aenter__()  # and never left
    gc.collect()
    assert not any(steps._open.values())
    concur.finish("dropped")


# --- addresses ---


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("http://a:1/v1/chat", "http://b:2/v1/chat"),
        ("http://A:1/v1/chat?x=1&y", "http://b:2/v1/chat?x=1&y"),
        ("http://a:1", "http://b:2"),
        ("http://a:2/v1", None),
        ("https://a:1/v1", None),
        ("http://a.evil:1/v1", None),
        ("http://a:1@evil/v1", None),
        ("http://c/one/v1", "http://b:2/v1"),
        ("http://c:80/one/v1", "http://b:2/v1"),
        ("http://c/one-more/v1", None),
        ("http://c/v1", None),
        ("http://localhost:5/v1", "http://b:2/v1"),
    ],
)
def test_addresses_of_engines_are_told_from_others(url: str, there: str | None) -> None:
    engines = ["http://a:1", "http://c/one", "http://c/two", "http://127.0.0.1:5"]
    assert moved(url, "http://b:2/", engines) == there


def test_only_what_was_never_sent_counts_as_unsent() -> None:
    assert unsent(httpx.ConnectError("no"))
    assert unsent(httpx2.ConnectError("no"))
    assert not unsent(httpx.ReadError("broken"))
    late = httpx.ReadTimeout("late")
    late.__context__ = httpx.ConnectError("of an earlier request, while which was handled this one was made")
    assert not unsent(late)
