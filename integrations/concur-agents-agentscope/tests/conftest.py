"""The real framework against the embedded engine over HTTP, with a real controller that nobody's clock drives.

Each line of AgentScope has its own tests; those of the one that is not installed are left out.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import types
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from concur_agents import AgentEvent, AgentEventKind, Controller, EventStream, FixedWindow
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.testing import ScriptedReader
from concur_agents_agentscope._installed import AGENTSCOPE_2

collect_ignore = ["v1" if AGENTSCOPE_2 else "v2"]


class Engine:
    """The embedded engine, as the tests use it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def script(self, session: str, *replies: str | list[tuple[str, dict[str, Any]]]) -> None:
        """What the model says to one session: text, or tool calls. The engine finds it by the request's header."""
        self._post("/emulator/scripts", {"session_id": session, "replies": [_reply(each) for each in replies]})

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

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is so."""
        while not true():  # noqa: ASYNC110 - queueing is no event
            await asyncio.sleep(0)

    def left(self) -> dict[str, str]:
        """Who is known, and where."""
        return {agent.agent_id: str(agent.state) for agent in self.controller.agents()}

    @property
    def seated(self) -> int:
        return self.controller.stats().population.seated


@pytest.fixture(scope="session")
def _server() -> Iterator[str]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as emulator:
        yield emulator.url


@pytest.fixture
def engine(_server: str) -> Engine:
    return Engine(_server)


@pytest.fixture
def readme(engine: Engine, tmp_path: Path) -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    """Runs the README's program that contains something, as it stands but for the engine's address and the file's."""
    text = (Path(__file__).parents[1] / "README.md").read_text().replace("http://127.0.0.1:30000", engine.url)
    config = tmp_path / "concur.yaml"
    config.write_text(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    programs = re.findall(r"```python\n(.*?)```", text.replace("concur.yaml", str(config)), re.DOTALL)

    async def run(containing: str, names: dict[str, Any]) -> None:
        (program,) = [each for each in programs if containing in each]
        code = compile(program, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = types.FunctionType(code, names)()
        if inspect.isawaitable(result):
            await result

    return run


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
