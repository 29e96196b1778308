"""Engines that join, are drained, die and come back while agents run; and which may."""

from __future__ import annotations

import contextlib
import threading
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from concur_agents import Controller, FixedWindow
from concur_agents.engines import AnyEngine
from concur_agents.gateway import AllowedEngines, Gateway, GatewayLimits
from concur_agents.gateway.embed import EmbeddedGateway
from concur_agents.gateway.upstream import Upstream
from concur_agents.samples import AgentState

CHAT = "/v1/chat/completions"
ENGINES = "/concur/v1/engines"


@contextlib.contextmanager
def serve(
    *urls: str, window: float = 1000, allow: tuple[str, ...] = ("http://127.0.0.1:*",), ranks: int = 0, **options: Any
) -> Iterator[Any]:
    def opener(url: str) -> list[Upstream]:
        return [
            Upstream(url, Controller(AnyEngine(url, rank=rank), law=FixedWindow(window), tick=0.05), rank=rank)
            for rank in (range(ranks) if ranks else (None,))
        ]

    gateway = Gateway(
        [upstream for url in urls for upstream in opener(url)],
        limits=GatewayLimits(**options.pop("limits", {})),
        opener=opener,
        allowed=AllowedEngines(allow),
        **options,
    )
    with EmbeddedGateway(gateway, grace=0.1) as served, httpx.Client(base_url=served.url, timeout=30) as client:
        yield SimpleNamespace(url=served.url, gateway=gateway, client=client)


def step(served: Any, agent: str) -> httpx.Response:
    return httpx.post(
        served.url + CHAT,
        json={"messages": [{"role": "user", "content": "x"}]},
        headers={"X-Session-ID": agent},
        timeout=30,
    )


def at(path: str) -> str:
    return f"{ENGINES}/{urllib.parse.quote(path, safe='')}"


def state(served: Any, agent: str) -> AgentState | None:
    member = served.gateway.roster.get(agent)
    view = None if member is None else member.upstream.controller.view(agent)
    return None if view is None else view.state


# --- joining ---


def test_an_engine_that_joins_gets_the_next_agents(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, serve(first.url) as served:
        assert step(served, "a").status_code == 200
        reply = served.client.post(ENGINES, json={"url": second.url + "/v1"})
        assert (reply.status_code, reply.json()) == (201, {"joined": True})
        assert (served.client.post(ENGINES, json={"url": second.url})).json() == {"joined": False}
        assert step(served, "b").status_code == step(served, "a").status_code == 200
        assert (len(first.requests), len(second.requests)) == (2, 1)
        listed = served.client.get(ENGINES).json()["engines"]
        assert [(each["url"], each["agents"], each["draining"]) for each in listed] == [
            (first.url, 1, False),
            (second.url, 1, False),
        ]


def test_an_engine_may_join_before_it_runs(wire: Any) -> None:
    with wire.RawEngine() as first, serve(first.url) as served:
        with wire.RawEngine() as second:
            port = second.port
        assert served.client.post(ENGINES, json={"url": f"http://127.0.0.1:{port}"}).status_code == 201
        assert step(served, "a").status_code == step(served, "b").status_code == 200
        assert [each["up"] for each in served.client.get(ENGINES).json()["engines"]] == [True, False]
        with wire.RawEngine(port=port) as second:
            wire.until(lambda: not served.gateway.upstreams[1].down)
            assert step(served, "c").status_code == 200
            assert len(second.requests) == 1


@pytest.mark.parametrize(
    ("allow", "url", "status"),
    [
        ((), "http://127.0.0.1:9", 403),
        (("http://127.0.0.1:*",), "http://127.0.0.2:9", 403),
        (("http://127.0.0.1:*",), "https://127.0.0.1:9", 403),
        (("http://127.0.0.1:*",), "http://127.0.0.1:9/inner", 403),
        (("http://127.0.0.1:*",), "http://user:s3cret@127.0.0.1:9", 422),
        (("http://127.0.0.1:*",), "http://127.0.0.1:9?x=http://127.0.0.1", 422),
        (("http://127.0.0.1:*",), "http://169.254.169.254/latest", 403),
        (("http://127.0.0.1:*",), "file:///etc/passwd", 422),
        (("http://127.0.0.1:*",), "http://127.0.0.1.example.org:9", 403),
        (("http://127.0.0.1:*",), "x" * 100_000, 413),
    ],
)
def test_no_other_server_is_ever_reached(wire: Any, allow: tuple[str, ...], url: str, status: int) -> None:
    with wire.RawEngine() as engine, serve(engine.url, allow=allow) as served:
        reply = served.client.post(ENGINES, json={"url": url})
        assert reply.status_code == status
        assert "s3cret" not in reply.text
        assert len(served.gateway.upstreams) == 1


def test_by_default_nobody_joins_or_leaves(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, engine.url.replace("127.0.0.1", "localhost")) as served:
        assert httpx.post(served.url + ENGINES, json={"url": engine.url}).status_code == 403
        reply = httpx.delete(served.url + at(engine.url))
        assert reply.status_code == 403
        assert "--allow-engines" in reply.json()["error"]["message"]
        assert len(served.gateway.upstreams) == 2


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b'{"url": "http://127.0.0.1:9"}', "text/plain", 415),
        (b'{"url": "http://127.0.0.1:9"}', None, 415),
        (b"url", "application/json", 422),
        (b"[]", "application/json", 422),
        (b'{"url": 5}', "application/json", 422),
        (b'{"url": "http://127.0.0.1:9", "more": 1}', "application/json", 422),
        (b"[" * 10_000, "application/json", 422),
    ],
)
def test_a_page_in_a_browser_cannot_have_an_engine_join(
    wire: Any, content: bytes, kind: str | None, status: int
) -> None:
    with wire.RawEngine() as engine, serve(engine.url) as served:
        headers = {} if kind is None else {"Content-Type": kind}
        assert served.client.post(ENGINES, content=content, headers=headers).status_code == status
        assert len(served.gateway.upstreams) == 1


# --- leaving ---


def test_agents_of_an_engine_that_is_drained_move_at_their_next_steps_and_it_goes(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, serve(first.url, second.url) as served:
        for agent in "abcd":
            step(served, agent)
        gone = served.gateway.upstreams[0]
        assert served.client.delete(at(first.url)).json() == {"agents": 2}
        assert served.client.get(ENGINES).json()["engines"][0]["draining"] is True
        for agent in "abcdef":
            assert step(served, agent).status_code == 200
        assert len(first.requests) == 2  # none since
        wire.until(lambda: len(served.gateway.upstreams) == 1)
        wire.until(lambda: gone.controller.closed)
        assert served.client.delete(at(first.url)).status_code == 404


def test_a_generation_is_never_cut_by_draining(wire: Any) -> None:
    may = threading.Event()

    def slow(*_: object) -> bytes:
        may.wait(20)
        return wire.OK

    with contextlib.ExitStack() as stack:
        first, second = stack.enter_context(wire.RawEngine(slow)), stack.enter_context(wire.RawEngine())
        pool = stack.enter_context(ThreadPoolExecutor())
        with serve(first.url) as served:
            running = pool.submit(step, served, "a")
            wire.until(lambda: first.requests)
            assert served.client.post(ENGINES, json={"url": second.url}).status_code == 201
            assert served.client.delete(at(first.url)).json() == {"agents": 1}
            served.client.delete("/concur/v1/agents/a")  # even one that nobody counts any more
            wire.until(lambda: served.client.get(ENGINES).json()["engines"][0]["agents"] == 0)
            assert len(served.gateway.upstreams) == 2
            may.set()
            assert running.result().status_code == 200
            wire.until(lambda: len(served.gateway.upstreams) == 1)


def test_the_last_engine_stays(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, serve(first.url, second.url) as served:
        step(served, "a")
        step(served, "b")
        assert served.client.delete(at(first.url)).status_code == 202
        assert served.client.delete(at(second.url)).status_code == 409
        assert served.client.delete(at(first.url)).status_code == 202
        assert served.client.delete(at("http://127.0.0.1:1")).status_code == 404
        assert served.client.delete(at("no address")).status_code == 404


def test_joining_again_ends_the_draining(wire: Any) -> None:
    with (
        wire.RawEngine() as first,
        wire.RawEngine() as second,
        serve(first.url, second.url, allow=("http://x",)) as one,
    ):
        step(one, "a")
        one.client.delete(at(first.url))
        assert one.client.post(ENGINES, json={"url": first.url}).json() == {"joined": False}
        assert step(one, "a").status_code == 200
        assert len(first.requests) == 2


# --- work stealing ---


def test_who_waits_goes_to_an_engine_that_idles(wire: Any) -> None:
    may = threading.Event()

    def slow(*_: object) -> bytes:
        may.wait(20)
        return wire.OK

    with contextlib.ExitStack() as stack:
        first, second = stack.enter_context(wire.RawEngine(slow)), stack.enter_context(wire.RawEngine())
        pool = stack.enter_context(ThreadPoolExecutor())
        with serve(first.url, window=1) as served:
            runs = pool.submit(step, served, "runs")
            wire.until(lambda: first.requests)
            waits = pool.submit(step, served, "waits")
            wire.until(lambda: state(served, "waits") is AgentState.WAITING)
            served.client.post(ENGINES, json={"url": second.url}).raise_for_status()
            assert waits.result().status_code == 200  # while the other one is still at it
            assert not runs.done()
            assert [upstream.agents for upstream in served.gateway.upstreams] == [1, 1]
            assert len(second.requests) == 1
            may.set()
            assert runs.result().status_code == 200
            assert served.gateway.upstreams[0].controller.stats().population.waiting == 0


@pytest.mark.parametrize("way", ["dies", "is drained"])
def test_who_waits_at_an_engine_that_goes_does_not_wait_for_those_who_hold_its_seats(wire: Any, way: str) -> None:
    with contextlib.ExitStack() as stack:
        first, second = stack.enter_context(wire.RawEngine()), stack.enter_context(wire.RawEngine())
        pool = stack.enter_context(ThreadPoolExecutor())
        with serve(first.url, second.url, window=1) as served:
            for agent in "ab":  # each holds the one seat of its engine, in its tool
                assert step(served, agent).status_code == 200
            waits = pool.submit(step, served, "c")
            wire.until(lambda: state(served, "c") is AgentState.WAITING)
            assert served.gateway.roster.get("c").upstream.url == first.url
            if way == "dies":
                first.__exit__()  # and nobody sends it anything any more
            else:
                served.client.delete(at(first.url))
            wire.until(lambda: served.gateway.roster.get("c").upstream.url == second.url)  # though b is there
            served.client.delete("/concur/v1/agents/b")
            assert waits.result().status_code == 200
            assert served.gateway.roster.get("c").upstream.url == second.url


def test_stealing_leaves_alone_who_is_where_its_prefix_is(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, serve(first.url, second.url, window=1) as served:
        for agent in "abcd":  # a and b are seated, each on its engine
            if agent in "ab":
                assert step(served, agent).status_code == 200
        for _ in range(3):
            served.gateway.roster.steal()
            assert step(served, "a").status_code == step(served, "b").status_code == 200
        assert (len(first.requests), len(second.requests)) == (4, 4)


# --- ranks, and routers ---


def test_each_data_parallel_rank_has_agents_of_its_own(wire: Any) -> None:
    with wire.RawEngine() as engine, serve(engine.url, ranks=2) as served:
        for agent in "abab":
            assert step(served, agent).status_code == 200
        served.client.get("/v1/models")
        ranks = [
            line.partition(b": ")[2]
            for request in engine.requests
            for line in request.split(b"\r\n")
            if line.lower().startswith(b"x-data-parallel-rank")
        ]
        assert ranks[:4] == [b"0", b"1", b"0", b"1"]
        listed = served.client.get(ENGINES).json()["engines"]
        assert [(each["name"], each["rank"]) for each in listed] == [
            (f"{engine.url}#0", 0),
            (f"{engine.url}#1", 1),
        ]


def test_all_ranks_of_an_engine_join_and_leave_together(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, serve(first.url, ranks=2) as served:
        assert served.client.post(ENGINES, json={"url": second.url}).json() == {"joined": True}
        assert len(served.gateway.upstreams) == 4
        assert served.client.delete(at(first.url)).json() == {"agents": 0}
        wire.until(lambda: len(served.gateway.upstreams) == 2)
        assert served.client.delete(at(f"{second.url}#1")).json() == {"agents": 0}
        wire.until(lambda: [upstream.rank for upstream in served.gateway.upstreams] == [0])


@pytest.mark.parametrize("said", [{}, {"X-SMG-Routing-Key": "mine"}])
def test_a_router_is_told_whose_request_it_is_unless_the_request_says_it(wire: Any, said: dict[str, str]) -> None:
    with wire.RawEngine() as engine, serve(engine.url, agent_header="X-SMG-Routing-Key") as served:
        body = {"messages": [{"role": "user", "content": "x"}]}
        served.client.post(CHAT, json=body, headers={"X-Session-ID": "%C3%A4%20b"} | said)
        keys = [line for line in engine.requests[0].split(b"\r\n") if line.lower().startswith(b"x-smg-routing-key")]
        assert [key.partition(b": ")[2] for key in keys] == [b"mine" if said else b"%C3%A4%20b"]
        served.client.post(CHAT, json=body)  # found by its conversation: it has a name all the same
        assert b"x-smg-routing-key: gw-" in engine.requests[1].lower()


def test_by_default_requests_go_on_as_they_came(wire: Any) -> None:
    with wire.RawEngine() as engine, serve(engine.url) as served:
        step(served, "a")
        assert b"routing-key" not in engine.requests[0].lower()
        assert b"x-data-parallel-rank" not in engine.requests[0].lower()


def test_an_agent_that_moves_takes_its_age_and_its_context_with_it(wire: Any) -> None:
    with wire.emulator() as first, wire.emulator() as second, serve(first.url, second.url, window=1) as served:
        for agent in "ab":
            assert step(served, agent).status_code == 200
        served.client.delete(at(first.url))
        before = served.gateway.roster.get("a").upstream.controller.view("a")
        new = served.gateway.upstreams[1]
        served.gateway.roster.get("b").run.park()  # else it would keep the one seat
        assert step(served, "a").status_code == 200
        after = new.controller.view("a")
        assert before.context_tokens
        assert (after.steps, after.context_tokens > 0) == (2, True)
        assert new.controller.stats().recomputed_tokens > 0  # known to have had a context: paid for once
        assert new.controller.stats().population.first_context == new.controller.view("b").context_tokens
