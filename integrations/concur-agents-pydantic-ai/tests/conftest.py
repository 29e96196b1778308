"""The real framework against the embedded engine over HTTP, with a real controller of one seat."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from concur_agents import AgentEvent, AgentEventKind, Controller, FixedWindow
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.testing import ScriptedReader
from concur_agents_pydantic_ai import ConcurCapability


class World:
    """One engine, one controller of one seat, and what happens on it."""

    def __init__(self, url: str, client: AsyncOpenAI) -> None:
        self.url = url
        self.client = client
        self.controller = Controller(ScriptedReader(), law=FixedWindow(1), background=False)
        self._events = self.controller.events()
        self._watch = self.controller.events()

    def script(self, session: str, *replies: str | list[tuple[str, dict[str, Any]]]) -> None:
        """What the model says to one session: text, or tool calls. The engine finds it by the request's header."""
        told = [
            {"content": reply}
            if isinstance(reply, str)
            else {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in reply]}
            for reply in replies
        ]
        self._post("/emulator/scripts", {"session_id": session, "replies": told})

    def hang(self) -> None:
        """Generations stop where they are."""
        self._post("/pause_generation", {"mode": "in_place"})

    def go_on(self) -> None:
        self._post("/continue_generation", {})

    @property
    def model(self) -> OpenAIChatModel:
        return OpenAIChatModel("m", provider=OpenAIProvider(openai_client=self.client))

    def agent(self, *more: Any, **options: Any) -> Agent[Any, Any]:
        """With ``more`` capabilities after ours."""
        model = options.pop("model", self.model)
        return Agent(model, capabilities=[ConcurCapability(self.controller), *more], **options)

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

    def _post(self, path: str, body: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)).close()


@pytest.fixture(scope="session")
def _server() -> Iterator[str]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as emulator:
        yield emulator.url


@pytest.fixture
async def world(_server: str) -> AsyncIterator[World]:
    async with AsyncOpenAI(base_url=_server + "/v1", api_key="none", max_retries=0) as client:
        world = World(_server, client)
        yield world
        world.controller.close()
