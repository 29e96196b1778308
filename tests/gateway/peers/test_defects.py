"""Defects that the public threads of a peer's proxy describe: one test each, with the default law."""

from __future__ import annotations

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from concur_agents import Controller
from concur_agents.emulator import EngineConfig, ServiceConfig
from concur_agents.emulator.embed import Emulator
from concur_agents.engines import AnyEngine
from concur_agents.events import AgentEvent, AgentEventKind
from concur_agents.gateway import Gateway
from concur_agents.gateway.embed import EmbeddedGateway
from concur_agents.gateway.upstream import Upstream
from concur_agents.samples import AgentState
from concur_agents.testing import ManualClock, ScriptedReader

CHAT = "/v1/chat/completions"
HOUR = 3600.0


def waits(wire: Any, served: Any, count: int) -> None:
    wire.until(lambda: served.controller.stats().population.waiting == count)


def test_1_a_prefix_that_all_share_is_counted_once_and_what_the_engine_says_is_heeded() -> None:
    """Six agents of over 6,000 tokens are more than a pool of 16,000 holds, were it not for the 6,000 they share."""
    shared = {"role": "system", "content": "all of us begin with this " * 1000}
    clock = ManualClock()

    def passes_time(app: Any) -> Any:
        async def serve(scope: Any, receive: Any, send: Any) -> None:
            clock.advance(0.1 if scope["path"] == CHAT else 0)
            await app(scope, receive, send)

        return serve

    config = ServiceConfig(engine=EngineConfig(max_total_tokens=16_000), speedup=1000)
    with Emulator(config, middleware=passes_time) as emulator:
        controller = Controller(AnyEngine(emulator.url), tick=HOUR, background=False, clock=clock)
        gateway = Gateway([Upstream(emulator.url, controller)])
        with EmbeddedGateway(gateway) as served, httpx.Client(base_url=served.url, timeout=30) as client:

            def step(agent: str, turn: int) -> int:
                own = {"role": "user", "content": f"I am {agent}. " * 10 * turn}
                body = {"messages": [shared, own], "max_tokens": 5}
                reply = client.post(CHAT, json=body, headers={"X-Session-ID": agent})
                assert reply.status_code == 200
                controller.tick()
                return int(reply.json()["usage"]["total_tokens"])

            def status() -> dict[str, Any]:
                one: dict[str, Any] = client.get("/concur/v1/status").json()["engines"][0]
                return one

            controller.tick()
            assert status()["token_budget"] == 0.95 * 16_000
            for turn in (1, 2, 3):  # until one has come back, nobody knows how contexts grow
                step("0", turn)
            contexts = [step(str(agent), turn) for turn in (4, 5) for agent in range(6)]
            said = status()
    assert sum(contexts[-6:]) > 2 * 16_000  # by heads it would be twice the pool
    assert (said["in_tool"], said["parked"], said["waiting"]) == (6, 0, 0)
    assert said["held_tokens"] < 16_000 - 6_000
    assert said["token_budget"] < 0.95 * 16_000 - 5_000  # the prefix itself has its place


@pytest.mark.parametrize("ends", ["stop", "tool_calls"])
def test_2_agents_that_ended_and_said_nothing_do_not_block_the_rest(
    batch: Any, wire: Any, engine: Any, ends: str
) -> None:
    with batch(wire, engine, capacity=10_000, clock=time.monotonic, park_after=0.1) as served:
        served.step("ended", 6000, ends=ends)
        served.step("next", 6000)  # of two such there is room for one
        assert served.state("ended") is AgentState.PARKED
        assert served.readers[0].reads == 1


def test_3_an_overflow_of_a_thousand_tokens_parks_one_agent_and_not_all(batch: Any, wire: Any, engine: Any) -> None:
    agents = [str(index) for index in range(10)]
    with batch(wire, engine, capacity=100_000) as served:
        served.step("0", 9000)
        for agent in agents:  # the first comes back, so that it is known how contexts grow
            served.step(agent, 9000)
        engine.hold(*agents)
        replies = [served.ask(agent, 15_000 if agent == "0" else 9000) for agent in agents]
        engine.has(21)
        engine.let("0")
        replies[0].result()
        assert served.controller.stats().population.held == 96_000  # of 95,000
        engine.let(*agents)
        assert [reply.result().status_code for reply in replies] == [200] * 10  # no generation is interrupted
        assert [served.state(agent) for agent in agents] == [AgentState.IN_TOOL] * 9 + [AgentState.PARKED]
        assert served.engine["held_tokens"] == 87_000


@pytest.mark.parametrize("status", [500, 503, 400, None], ids=["500", "503", "400", "broken off"])
def test_4_a_failure_of_the_engine_leaves_nobody_generating(
    batch: Any, wire: Any, engine: Any, status: int | None
) -> None:
    with batch(wire, engine, capacity=10_000) as served:
        served.step("a", 6000)
        assert served.ask("a", 6000, status=status).result().status_code == (status or 502)
        assert served.state("a") is AgentState.IN_TOOL
        assert served.engine["generating"] == 0
        assert served.engine["held_tokens"] == 6000  # an error says nothing of its context
        served.step("a", 7000)
        served.finish("a")
        served.step("b", 6000)


def test_5_a_client_that_gave_up_while_it_waited_is_never_sent(batch: Any, wire: Any, engine: Any) -> None:
    with batch(wire, engine, capacity=10_000) as served:
        served.step("a", 6000)
        host, port = served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Session-ID: b\r\nContent-Length: 2\r\n\r\n{}"
            client.sendall(head)
            waits(wire, served, 1)
        waits(wire, served, 0)
        later = served.ask("c", 6000)
        waits(wire, served, 1)
        served.finish("a")
        assert later.result().status_code == 200
        assert engine.asked == ["a", "c"]
        wire.until(lambda: served.gateway.requests == 0)


def test_6_an_engine_that_starts_after_the_gateway_is_scheduled_and_its_absence_is_said(wire: Any) -> None:
    port = wire.free_port()
    url = f"http://127.0.0.1:{port}"
    gateway = Gateway([Upstream(url, Controller(AnyEngine(url), tick=0.5))])
    with EmbeddedGateway(gateway) as served, ThreadPoolExecutor() as pool:

        def status() -> dict[str, Any]:
            one: dict[str, Any] = httpx.get(served.url + "/concur/v1/status").json()["engines"][0]
            return one

        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3}
        early = pool.submit(httpx.post, served.url + CHAT, json=body, timeout=30)
        wire.until(lambda: not status()["up"] and status()["problem"])
        assert str(port) in status()["problem"]
        config = ServiceConfig(engine=EngineConfig(max_total_tokens=16_000), speedup=1000)
        with Emulator(config, port=port):
            assert early.result().status_code == 200
            wire.until(lambda: status()["token_budget"] == 0.95 * 16_000, timeout=30)
            assert status()["up"]
            assert status()["problem"] is None


def test_7_the_oldest_goes_first_however_large_it_is(batch: Any, wire: Any, engine: Any) -> None:
    with batch(wire, engine, capacity=100_000) as served:
        for index in range(20):  # new agents are taken to be small
            served.step(f"small-{index}", 1000)
            served.finish(f"small-{index}")
        served.step("a", 45_000)
        served.step("large", 45_000)
        served.step("a", 60_000)
        assert served.state("large") is AgentState.PARKED
        large = served.ask("large", 46_000)
        waits(wire, served, 1)
        small = []
        for index in range(5):  # there is room for these
            small.append(served.ask(f"new-{index}", 1000))
            waits(wire, served, 2 + index)
        with contextlib.closing(served.controller.events()) as events:
            served.finish("a")
            assert [reply.result().status_code for reply in (large, *small)] == [200] * 6
        began = [
            event.agent_id
            for event in events
            if isinstance(event, AgentEvent) and event.kind in (AgentEventKind.ADMITTED, AgentEventKind.RESUMED)
        ]
        assert began == ["large", *(f"new-{index}" for index in range(5))]


def test_8_a_tiny_request_changes_nothing_of_what_others_are_taken_to_hold(batch: Any, wire: Any, engine: Any) -> None:
    """Tokens are the engine's own count, not characters by a ratio: here 50,000 of these are 20 tokens."""
    with batch(wire, engine, capacity=14_000) as served:
        for agent, tokens in (("a", 2000), ("tiny", 2000), ("c", 9000), ("a", 5000)):
            served.step(agent, tokens)
        assert served.state("c") is AgentState.PARKED
        large = served.ask("c", 9000)
        waits(wire, served, 1)
        assert served.engine["held_tokens"] == 7000
        served.step("tiny", 20, text="x" * 50_000)
        assert served.engine["held_tokens"] == 5020
        assert served.controller.view("a").context_tokens == 5000
        assert served.engine["waiting"] == 1  # 9,000 more do not fit into 13,300
        served.finish("a")
        assert large.result().status_code == 200


def test_9_authorization_goes_through(wire: Any) -> None:
    with wire.RawEngine() as raw:
        gateway = Gateway([Upstream(raw.url, Controller(ScriptedReader(), tick=HOUR))])
        with EmbeddedGateway(gateway) as served:
            for path in (CHAT, "/v1/models"):
                httpx.post(served.url + path, json={}, headers={"Authorization": "Bearer k\u00e9y".encode()})
        assert len(raw.requests) == 2
        assert all(b"\r\nauthorization: bearer k\xc3\xa9y\r\n" in request.lower() for request in raw.requests)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/health"),
        ("GET", "/get_model_info"),
        ("POST", "/tokenize"),
        ("POST", "/v1/completions"),
        ("POST", "/generate"),
        ("POST", "/v1/chat/completions"),
    ],
)
def test_9_every_endpoint_of_the_engine_is_there(wire: Any, method: str, path: str) -> None:
    body = {
        "/generate": {"text": "hi", "sampling_params": {"max_new_tokens": 2}},
        "/v1/completions": {"prompt": "hi", "max_tokens": 2},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2},
        "/tokenize": {"prompt": "hi"},
    }.get(path)
    with wire.emulator() as emulator:
        gateway = Gateway([Upstream(emulator.url, Controller(AnyEngine(emulator.url), tick=HOUR))])
        with EmbeddedGateway(gateway) as served:
            direct, through = (httpx.request(method, url + path, json=body) for url in (emulator.url, served.url))
    assert through.status_code == direct.status_code
    assert through.headers["content-type"] == direct.headers["content-type"] if direct.content else True
    if direct.headers.get("content-type") == "application/json":
        assert type(through.json()) is type(direct.json())


def test_9_it_stops_while_requests_wait(batch: Any, wire: Any, engine: Any) -> None:
    """As a signal has it; the process itself is in ``test_cli.py``."""
    with batch(wire, engine, capacity=10_000) as served:
        served.step("a", 6000)
        queued = [served.ask(str(index), 6000) for index in range(10)]
        waits(wire, served, 10)
        served.stop()
        assert [reply.result().status_code for reply in queued] == [503] * 10
    assert engine.asked == ["a"]


def test_10_who_resumes_does_so_on_the_engine_that_has_its_context(
    batch: Any, wire: Any, engines: tuple[Any, Any]
) -> None:
    first, second = engines
    with batch(wire, first, second, capacity=10_000) as served:
        for agent in "abcd":
            served.step(agent, 4000)
        assert (first.asked, second.asked) == (["a", "c"], ["b", "d"])
        served.step("a", 6000)
        assert served.state("c") is AgentState.PARKED
        served.finish("b")
        served.finish("d")
        resumed = served.ask("c", 4500)
        waits(wire, served, 1)  # though the other engine is empty by now
        served.finish("a")
        assert resumed.result().status_code == 200
        assert (first.asked, second.asked) == (["a", "c", "a", "c"], ["b", "d"])


def test_11_who_waits_goes_on_when_a_seat_is_free_and_not_with_the_next_tick(
    batch: Any, wire: Any, engine: Any
) -> None:
    with batch(wire, engine, capacity=10_000) as served:
        served.step("0", 6000)
        for index in range(1, 5):
            queued = served.ask(str(index), 6000)
            waits(wire, served, 1)
            served.finish(str(index - 1))
            assert queued.result().status_code == 200
        assert served.readers[0].reads == 1
