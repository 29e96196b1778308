"""The real frameworks against the embedded engine over HTTP, with a real controller that nobody's clock drives."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import httpx2
import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI

from concur_agents import AgentEvent, AgentEventKind, Controller, EventStream, FixedWindow, Outcome
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.testing import ScriptedReader
from concur_agents_langgraph import ConcurMiddleware, wrap


class Engine:
    """The embedded engine, as the tests use it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def script(self, session: str, *replies: str | list[tuple[str, dict[str, Any]]]) -> None:
        """What the model says to one session: text, or tool calls. The engine finds it by the request's header."""
        self._post("/emulator/scripts", {"session_id": session, "replies": [_reply(each) for each in replies]})

    @contextlib.asynccontextmanager
    async def model(self) -> AsyncIterator[ChatOpenAI]:
        """A chat model of this loop that decides nothing about usage in streams, as users' models do."""
        with httpx2.Client(verify=False) as http:
            async with httpx2.AsyncClient(verify=False) as ahttp:
                yield self.chat(http, ahttp)

    def chat(self, http: Any, ahttp: Any, headers: dict[str, str] | None = None) -> ChatOpenAI:
        return ChatOpenAI(
            model="m",
            base_url=self.url + "/v1",
            api_key="none",
            max_retries=0,
            http_client=http,
            http_async_client=ahttp,
            default_headers=headers,
        )

    def hang(self) -> None:
        """Generations stop where they are."""
        self._post("/pause_generation", {"mode": "in_place"})

    def go_on(self) -> None:
        self._post("/continue_generation", {})

    def _post(self, path: str, body: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        urllib.request.urlopen(request).close()


def _reply(reply: str | list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    if isinstance(reply, str):
        return {"content": reply}
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in reply]}


class World:
    """One controller and what happens on it."""

    def __init__(self, window: float) -> None:
        self.controller = Controller(ScriptedReader(), law=FixedWindow(window), background=False)
        self._events = self.controller.events()
        self._watch: EventStream = self.controller.events()

    def lives(self) -> dict[str, list[str]]:
        """What happened so far, by agent: kinds of events, the last with its outcome."""
        self._events.close()
        lives: dict[str, list[str]] = {}
        for event in self._events:
            if isinstance(event, AgentEvent):
                lives.setdefault(event.agent_id, []).append(str(event.outcome or event.kind))
        return lives

    async def seen(self, agent_id: str, kind: AgentEventKind) -> None:
        """Wait until it has happened, from the last thing waited for on."""
        async for event in self._watch:
            if isinstance(event, AgentEvent) and (event.agent_id, event.kind) == (agent_id, kind):
                return

    def left(self) -> dict[str, str]:
        """Who is known, and where."""
        return {agent.agent_id: str(agent.state) for agent in self.controller.agents()}

    @property
    def finished(self) -> dict[Outcome, int]:
        return dict(self.controller.stats().finished)

    @property
    def seated(self) -> int:
        return self.controller.stats().population.seated


class MakeAgent(Protocol):
    def __call__(self, world: World, *tools: BaseTool, **options: Any) -> Any: ...


@pytest.fixture(scope="session")
def _server() -> Iterator[str]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as emulator:
        yield emulator.url


@pytest.fixture
def engine(_server: str) -> Engine:
    return Engine(_server)


@pytest.fixture
def make_world() -> Iterator[Callable[[float], World]]:
    worlds: list[World] = []

    def make(window: float = 1) -> World:
        worlds.append(World(window))
        return worlds[-1]

    yield make
    for world in worlds:
        world.controller.close()


@pytest.fixture
def world(make_world: Callable[[float], World]) -> World:
    """One seat."""
    return make_world(1)


@pytest.fixture
async def model(engine: Engine) -> AsyncIterator[ChatOpenAI]:
    async with engine.model() as model:
        yield model


@pytest.fixture
def model_for(engine: Engine, model: ChatOpenAI) -> Callable[[str], ChatOpenAI]:
    """A model that calls itself by a session of its own, for agents whose id a test cannot know before."""
    return lambda session: engine.chat(model.http_client, model.http_async_client, {"X-Session-ID": session})


@pytest.fixture
def make_agent(model: ChatOpenAI, model_for: Callable[[str], ChatOpenAI]) -> MakeAgent:
    """``create_agent`` as a user writes it; ``session`` for one whose id a test cannot know before."""

    def make(
        world: World, *tools: BaseTool, middleware: tuple[Any, ...] = (), session: str | None = None, **options: Any
    ) -> Any:
        concur = ConcurMiddleware(world.controller, **({"session_header": None} if session else {}))
        chat = model_for(session) if session else model
        return wrap(create_agent(chat, tools, middleware=[*middleware, concur], **options), world.controller)

    return make
