"""Several engines as one controller: in this process, and served over HTTP; with embedded engines that die."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from concur_agents import (
    AgentEvent,
    ConfigError,
    Controller,
    ControllerClosedError,
    FixedWindow,
    FleetController,
    LifecycleError,
    UnknownAgentError,
    shared,
    shared_controller,
)
from concur_agents.base import BaseController
from concur_agents.config import ENVIRONMENT
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.engines import SGLang
from concur_agents.fleet import controller as module
from concur_agents.remote.server import EmbeddedService
from concur_agents.testing import ScriptedReader

A, B = "http://a:1", "http://b:2"


def scripted(**options: Any) -> FleetController:
    settings: dict[str, Any] = {"law": FixedWindow(2), "background": False} | options
    return FleetController({A: ScriptedReader(), B: ScriptedReader()}, **settings)


# --- what it is ---


def test_engines_are_readers_addresses_or_readers_by_address() -> None:
    urls = ["http://a:1/v1", "http://b:2"]
    for engines in (urls, [SGLang(url) for url in urls], dict.fromkeys(urls, ScriptedReader())):
        assert FleetController(engines).all_engines == (A, B)


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        ([], "engines must hold at least one engine"),
        ([A, A + "/v1"], f"engines must not hold an engine twice, got {A}"),
        (["a:1"], "url must start with http"),
    ],
)
def test_what_is_wrong_with_engines_is_said(engines: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FleetController(engines)
    with pytest.raises(ValueError, match="tick must be"):
        FleetController([A], tick=0)


def test_it_shows_all_engines_together_and_each() -> None:
    with scripted() as concur:
        with concur.sync.agent("x") as agent, agent.step():
            engine = concur.engine("x")
            assert engine is not None
            stats, one = concur.stats(), concur.stats_of(engine)
            assert (stats.window, stats.known, stats.population.generating) == (4, 1, 1)
            assert (one.window, one.known) == (2, 1)
            assert [view.agent_id for view in concur.agents()] == ["x"]
        assert (len(concur.history()), len(concur.history(A + "/v1"))) == (2, 1)
        for look in (concur.stats_of, concur.history):
            with pytest.raises(ValueError, match=f"engine must be one of {A}, {B}, got 'http://c:3'"):
                look("http://c:3")
        with pytest.raises(ValueError, match="engine must be one of"):
            concur.pin("x", "http://c:3")
        with pytest.raises(UnknownAgentError):
            concur.pin("x", A)


def test_a_problem_is_said_with_its_engine() -> None:
    from concur_agents import EngineReadError

    readers = {A: ScriptedReader([EngineReadError("no answer")]), B: ScriptedReader()}
    with FleetController(readers, background=False) as concur:
        concur.tick()
        assert concur.stats().problem == f"{A}: {concur.stats_of(A).problem}"


def test_events_are_of_all_engines_and_end_with_the_last() -> None:
    concur = scripted()
    with concur:
        events, other = concur.events(), concur.events()
        other.close()
        agents = [concur.sync.agent(name) for name in "xy"]
        for agent in agents:
            agent.__enter__()
            with agent.step():
                pass
        assert {concur.engine(name) for name in "xy"} == {A, B}
    kinds = Counter(str(event.kind) for event in events if isinstance(event, AgentEvent))
    assert kinds == {"admitted": 2, "paused": 2, "finished": 2}
    assert list(concur.events()) == []
    assert not any(each.limiter.streams for each in concur._controllers.values())
    for agent in agents:
        agent.__exit__(None, None, None)
    with pytest.raises(ValueError, match="size must be a whole number >= 1, got 0"):
        concur.events(size=0)


def test_it_starts_once_and_closes_as_often_as_one_likes() -> None:
    concur = scripted(background=True, tick=60).start()
    with pytest.raises(LifecycleError):
        concur.start()
    concur.close()
    concur.close()
    assert concur.closed
    with pytest.raises(ControllerClosedError):
        concur.sync.admit("x")


# --- from text ---


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ENVIRONMENT:
        monkeypatch.delenv(variable.name, raising=False)
    state = shared._State()
    monkeypatch.setattr(shared, "_state", state)
    monkeypatch.setattr(state, "_prepared", True)  # closed here, not at this process's exit
    yield
    state.close()


@pytest.mark.usefixtures("clean")
def test_a_configuration_with_several_engines_makes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "engines": [{"url": A}, {"url": B, "kind": "vllm"}],
        "law": "fixed:3",
        "tick": 60,
        "identity": {"header": "X-Agent"},
        "logging": {"events": str(tmp_path / "events")},
    }
    with FleetController.from_config(config, background=False) as concur:
        assert (concur.all_engines, concur.stats().window, concur.session_header) == ((A, B), 6, "X-Agent")
        readers = [repr(each._reader) for each in concur._controllers.values()]
        assert readers == [f"SGLang('{A}')", f"VLLM('{B}')"]
        with concur.sync.agent("x") as agent, agent.step():
            pass
    assert '"kind": "finished"' in (tmp_path / "events").read_text()
    with pytest.raises(ConfigError, match=r"a Controller has one: use FleetController\.from_config"):
        Controller.from_config(config)
    with pytest.raises(ConfigError, match="no engine is known"):
        FleetController.from_config({})
    monkeypatch.setenv("CONCUR_ENGINE_URL", f"{A} {B}")
    shared_one = shared_controller()
    assert isinstance(shared_one, FleetController)
    assert shared_controller() is shared_one


# --- with engines ---


class Engines:
    """Two embedded engines."""

    def __init__(self) -> None:
        self.config = ServiceConfig.preset("laptop", speedup=100)
        self.all = [Emulator(self.config).__enter__() for _ in range(2)]
        self.urls = [each.url for each in self.all]

    def kill(self, url: str) -> None:
        (one,) = [each for each in self.all if each.url == url]
        self.all.remove(one)
        one.__exit__(None, None, None)

    def revive(self, url: str) -> None:
        port = int(url.rpartition(":")[2])
        self.all.append(Emulator(self.config, port=port).__enter__())

    def close(self) -> None:
        for each in self.all:
            each.__exit__(None, None, None)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    monkeypatch.setattr(module, "_EVERY_S", 0.02)
    made = Engines()
    yield made
    made.close()


@contextlib.asynccontextmanager
async def here(engines: Engines) -> AsyncIterator[tuple[BaseController, FleetController]]:
    async with FleetController(engines.urls, law=FixedWindow(8)) as concur:
        yield concur, concur


@contextlib.asynccontextmanager
async def elsewhere(engines: Engines) -> AsyncIterator[tuple[BaseController, FleetController]]:
    fleet = FleetController(engines.urls, law=FixedWindow(8))
    with EmbeddedService(fleet) as service:
        async with Controller.connect(service.url) as concur:
            yield concur, fleet


@pytest.mark.parametrize("where", [here, elsewhere])
async def test_an_engine_dies_and_comes_back_and_no_agent_is_lost(engines: Engines, where: Any) -> None:
    dead, alive = engines.urls
    seen: dict[str, list[str | None]] = {}
    stepped = asyncio.Event()
    go_on = asyncio.Event()

    async with where(engines) as (concur, fleet):
        client = openai.AsyncOpenAI(base_url=dead + "/v1", api_key="none", max_retries=0)
        llm = concur.wrap_client(client)

        async def live(name: str, steps: int) -> None:
            messages = [{"role": "user", "content": f"{name} " * 50}]
            async with concur.agent(name, parent=None) as agent:
                for number in range(steps):
                    if number == 2:
                        if sum(len(each) >= 2 for each in seen.values()) == 12:
                            stepped.set()
                        await go_on.wait()
                    reply = await llm.chat.completions.create(model="m", messages=messages, max_tokens=4)
                    assert reply.usage is not None
                    seen.setdefault(name, []).append(agent.engine)

        agents = [asyncio.create_task(live(f"agent{number}", 4)) for number in range(12)]
        async with asyncio.timeout(60):
            await asyncio.wait({asyncio.create_task(stepped.wait()), *agents}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(engines.kill, dead)
            go_on.set()
            await asyncio.gather(*agents)
            assert all(len(set(each[:2])) == 1 for each in seen.values()), "they stay where they are"
            assert Counter(each[0] for each in seen.values()) == {dead: 6, alive: 6}
            assert {engine for each in seen.values() for engine in each[2:]} == {alive}

            await asyncio.to_thread(engines.revive, dead)
            while not fleet.accepts(dead):  # noqa: ASYNC110 - it is a thread's news
                await asyncio.sleep(0.01)
            await asyncio.gather(*(live(f"late{number}", 2) for number in range(4)))
            assert Counter(seen[f"late{number}"][0] for number in range(4)) == {dead: 2, alive: 2}
            while fleet.agents():  # noqa: ASYNC110 - the last words are told in the background
                await asyncio.sleep(0.01)
        await client.close()
