"""One shared controller with several engines: what its desk answers, and agents over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from concur_agents import AgentState, Controller, FixedWindow, FleetController
from concur_agents.remote import Desk, RefusedError, RemoteController
from concur_agents.remote.server import EmbeddedService
from concur_agents.testing import ManualClock, ScriptedReader

A, B = "http://a:1", "http://b:2"
Until = Callable[..., None]


class Several:
    """A desk on two engines without threads, with clocks that stand."""

    def __init__(self, window: float = 1) -> None:
        self.clock = ManualClock()
        readers = {A: ScriptedReader(), B: ScriptedReader()}
        self.controller = FleetController(readers, law=FixedWindow(window), clock=self.clock, background=False)
        self.desk = Desk(self.controller, clock=self.clock)
        self.loop = asyncio.new_event_loop()

    def say(self, operation: str, **body: Any) -> dict[str, Any]:
        answer = self.loop.run_until_complete(self.desk.handle(operation, body))
        assert answer.pop("controller") == self.desk.incarnation
        return answer

    def register(self, worker: str = "w", **more: Any) -> dict[str, Any]:
        return self.say("register", worker=worker, protocol=2, **more)

    def close(self) -> None:
        self.controller.close()
        self.loop.close()


@pytest.fixture
def several() -> Iterator[Several]:
    made = Several()
    yield made
    made.close()


# --- the desk ---


def test_a_grant_names_the_engine_and_an_agent_stays_there(several: Several) -> None:
    engines = [several.say("admit", agent=f"agent{number}")["engine"] for number in range(2)]
    assert sorted(engines) == [A, B]
    assert "engine" not in several.say("admit", agent="waits"), "it is not known yet"
    for number, engine in enumerate(engines):
        assert "engine" not in several.say("pause", agent=f"agent{number}")
        assert several.say("resume", agent=f"agent{number}")["engine"] == engine
        assert several.say("agent", agent=f"agent{number}")["engine"] == engine


def test_who_waits_at_an_engine_that_refuses_connections_is_granted_a_seat_at_the_other(several: Several) -> None:
    several.register()
    here = several.say("admit", agent="a", worker="w", seq=1)["engine"]
    there = several.say("admit", agent="b", worker="w", seq=1)["engine"]
    assert several.say("admit", agent="c", worker="w", seq=1) == {"state": AgentState.WAITING}
    several.say("refused", worker="w", engine=several.controller.engine("c"))
    other = {A: B, B: A}[several.controller.engine("c") or ""]
    assert several.controller.engine("c") in (here, there)
    holder = "a" if several.controller.engine("c") == here else "b"
    assert other != several.controller.engine("c")
    several.say("pause", agent=holder, worker="w", seq=2)
    several.say("finish", agent=holder, worker="w", seq=3)
    grant = several.say("admit", agent="c", worker="w", seq=1)
    assert (grant["granted"], grant["engine"]) == (True, several.controller.engine("c"))
    assert several.say("refused", worker="w", engine="http://nowhere") == {}
    assert several.say("refused", worker="stranger", engine=A)["error"]["kind"] == "unknown_worker"


def test_a_controller_that_starts_anew_has_each_agent_where_it_was(several: Several) -> None:
    agents = [
        {"agent": "parent", "state": "in_tool", "steps": 3, "engine": B, "age_s": 9},
        {"agent": "child", "state": "generating", "steps": 1, "engine": B, "parent": "parent"},
        {"agent": "other", "state": "generating", "steps": 1, "engine": B},
        {"agent": "gone", "state": "in_tool", "steps": 1, "engine": "http://gone:1"},
    ]
    assert several.register(agents=agents)["engines"] == [A, B]
    assert {name: several.controller.engine(name) for name in ("parent", "child", "other", "gone")} == {
        "parent": B,
        "child": B,
        "other": B,
        "gone": A,
    }
    assert several.controller.stats_of(B).population.seated == 2, "a family has one seat; and above the window"
    assert several.register(agents=agents[:2]) == {"lease_s": 15, "engines": [A, B]}
    assert several.controller.stats_of(B).known == 2
    assert several.controller.stats_of(A).known == 0


def test_a_worker_that_cannot_be_told_engines_is_refused_with_the_reason(several: Several) -> None:
    error = several.say("register", worker="old")["error"]
    assert error["kind"] == "invalid"
    assert "this controller has several engines" in error["message"]
    assert several.say("heartbeat", worker="old")["error"]["kind"] == "unknown_worker"


def test_statistics_and_history_are_of_all_engines_or_of_one(several: Several) -> None:
    several.say("admit", agent="a")
    stats = several.say("stats")
    assert (stats["window"], stats["known"], set(stats["engines"])) == (2, 1, {A, B})
    engine = several.controller.engine("a")
    assert several.say("stats", engine=engine)["known"] == 1
    assert len(several.say("history")["history"]) == 2
    assert len(several.say("history", engine=A)["history"]) == 1
    for operation in ("stats", "history"):
        error = several.say(operation, engine="http://nowhere:1")["error"]
        assert (error["kind"], A in error["message"]) == ("invalid", True)


def test_a_lease_that_lapses_frees_the_seats_at_all_engines(several: Several) -> None:
    several.register(lease_s=1)
    for name in "ab":
        several.say("admit", agent=name, worker="w", seq=1)
        several.say("pause", agent=name, worker="w", seq=2)
    assert several.controller.stats().population.seated == 2
    several.clock.advance(2)
    several.desk.sweep()
    assert several.controller.stats().known == 0


def test_an_agent_from_another_controller_is_as_old_as_it_says(several: Several) -> None:
    for name in ("holder", "holder2", "young"):
        several.say("admit", agent=name)
    several.clock.advance(10)
    several.controller.pin("young", A)
    several.say("admit", agent="old")
    several.controller.pin("old", A)
    assert "granted" not in several.say("admit", agent="older", age_s=100)
    several.controller.pin("older", A)
    order = []
    while len(order) < 3:
        (holder,) = [
            each.agent_id
            for each in several.controller.agents()
            if each.state is AgentState.GENERATING and several.controller.engine(each.agent_id) == A
        ]
        several.say("finish", agent=holder)
        order += [
            each
            for each in ("young", "old", "older")
            if several.controller.view(each) is not None
            and several.controller.view(each).state is AgentState.GENERATING
        ]  # type: ignore[union-attr]
    assert order == ["older", "young", "old"]
    assert several.say("admit", agent="x", age_s=-1)["error"]["kind"] == "invalid"


# --- over HTTP ---


@contextlib.contextmanager
def served(window: float = 4, port: int = 0) -> Iterator[tuple[FleetController, EmbeddedService]]:
    controller = FleetController({A: ScriptedReader(), B: ScriptedReader()}, law=FixedWindow(window), tick=60)
    with EmbeddedService(controller, port=port) as service:
        yield controller, service


def test_curl_is_told_where_to_send() -> None:
    with served() as (_, service):
        url = service.url + "/concur/v1/agents/task-17"
        engine = httpx.post(f"{url}/admit", json={"wait_s": 30}).json()["engine"]
        assert engine in (A, B)
        assert httpx.post(f"{url}/pause").json()["state"] == "in_tool"
        assert httpx.get(url).json()["engine"] == engine
        assert httpx.post(f"{url}/resume", json={"wait_s": 30}).json()["engine"] == engine
        assert httpx.delete(url).json()["changed"]
        assert httpx.get(f"{service.url}/concur/v1/stats?engine={A}").json()["window"] == 4


async def test_agents_are_spread_stay_and_are_told_so_before_they_send() -> None:
    with served() as (controller, service):
        async with Controller.connect(service.url) as concur:
            seen: dict[str, set[str | None]] = {}

            async def live(name: str) -> None:
                async with concur.agent(name, parent=None) as agent:
                    assert agent.engine is None
                    for _ in range(4):
                        async with agent.step():
                            seen.setdefault(name, set()).add(agent.engine)
                            await asyncio.sleep(0)

            await asyncio.gather(*(live(f"agent{number}") for number in range(16)))
            assert all(len(engines) == 1 for engines in seen.values())
            assert Counter(str(*engines) for engines in seen.values()) == {A: 8, B: 8}
            assert concur.all_engines == (A, B)
            assert (await asyncio.to_thread(concur.stats)).window == 8
            assert (await asyncio.to_thread(concur.stats_of, A)).window == 4
            assert len(await asyncio.to_thread(concur.history)) == 2
            with pytest.raises(RefusedError):
                await asyncio.to_thread(concur.stats_of, "http://nowhere:1")
            await asyncio.to_thread(concur.flush)
            assert controller.agents() == ()
            assert concur.engine("agent0") is None, "it has ended"


async def test_the_step_after_a_refused_connection_is_at_another_engine() -> None:
    with served() as (_, service):
        async with Controller.connect(service.url) as concur, concur.agent("x") as agent:
            async with agent.step():
                first = agent.engine
            assert first is not None
            async with agent.step():
                concur.refused(first)
                assert agent.engine == first, "fixed within a step"
            async with agent.step():
                assert agent.engine == ({A, B} - {first}).pop()


async def test_a_controller_that_is_killed_and_comes_back_has_everyone_where_they_were() -> None:
    with served() as (_, service):
        port = int(service.url.rpartition(":")[2])
        concur = Controller.connect(service.url, patience_s=1.0).start()
        agents = [concur.agent(f"agent{number}", parent=None) for number in range(4)]
        for agent in agents:
            await agent.__aenter__()
            async with agent.step():
                pass
        before = {agent.agent_id: agent.engine for agent in agents}
        running = agents[0].step()
        await running.__aenter__()
    # Gone: agents go on without control, where they were; a new one is at one of the engines too.
    async with agents[1].step():
        assert agents[1].engine == before["agent1"]
    concur.refused(str(before["agent2"]))
    async with agents[2].step():
        assert agents[2].engine == ({A, B} - {before["agent2"]}).pop()
    async with concur.agent("new", parent=None) as new, new.step():
        assert new.engine in (A, B)
    with served(port=port) as (controller, _):
        async with asyncio.timeout(60):
            while len(controller.agents()) < 4:  # noqa: ASYNC110 - it is told by another process's words
                await asyncio.sleep(0.01)
        for agent in (agents[0], agents[1], agents[3]):
            assert controller.engine(agent.agent_id) == before[agent.agent_id]
        assert {view.agent_id: view.state for view in controller.agents()}["agent0"] is AgentState.GENERATING
        await running.__aexit__(None, None, None)
        for agent in agents:
            async with agent.step():
                assert agent.engine == controller.engine(agent.agent_id)
            await agent.__aexit__(None, None, None)
        await asyncio.to_thread(concur.flush)
        assert controller.agents() == ()
        await asyncio.to_thread(concur.close)


async def test_an_old_client_goes_on_without_control_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with served() as (controller, service), pytest.MonkeyPatch.context() as patch:
        patch.setattr("concur_agents.remote.http.PROTOCOL", 1)
        async with Controller.connect(service.url) as concur, concur.agent("x") as agent, agent.step():
            assert agent.engine is None
            assert controller.agents() == ()
    assert "this controller has several engines" in caplog.text


async def test_a_client_of_an_old_server_works_as_with_one_engine() -> None:
    """An old one knows neither the header nor engines; its answers say nothing of them."""
    controller = Controller(ScriptedReader(), law=FixedWindow(4), tick=60)
    with EmbeddedService(controller) as service:
        async with Controller.connect(service.url) as concur:
            assert isinstance(concur, RemoteController)
            async with concur.agent("x") as agent, agent.step():
                assert (agent.engine, concur.all_engines) == (None, ())
                concur.refused(A)
                assert [view.agent_id for view in controller.agents()] == ["x"]
