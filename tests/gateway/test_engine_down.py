"""Engines that are down at start, die, come back, are replaced, break off, or answer with errors."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from concur_agents.samples import AgentState

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "x"}]}


def idle(served: Any) -> bool:
    return all(
        member.open == 0 and served.controller.view(member.agent_id).state is not AgentState.GENERATING
        for member in served.gateway.roster
    )


def test_an_engine_that_starts_after_the_gateway_is_waited_for(wire: Any) -> None:
    port = wire.free_port()
    with wire.serve(f"http://127.0.0.1:{port}") as served, ThreadPoolExecutor() as pool:
        early = pool.submit(httpx.post, served.url + CHAT, json=BODY, timeout=30)
        wire.until(lambda: served.gateway.upstreams[0].down)
        with wire.RawEngine(port=port):
            assert early.result().status_code == 200
            assert not served.gateway.upstreams[0].down


def test_an_engine_that_does_not_start_is_said_to_be_down(wire: Any) -> None:
    with wire.serve(f"http://127.0.0.1:{wire.free_port()}", engine_wait=0) as served:
        for path in (CHAT, "/v1/models"):
            reply = httpx.post(served.url + path, json=BODY)
            assert reply.status_code == 503
            assert reply.headers["retry-after"] == "5"
            assert "takes no connections" in reply.json()["error"]["message"]
        assert idle(served)
        assert httpx.get(served.url + "/concur/v1/status").json()["engines"][0]["up"] is False


def test_an_engine_that_is_replaced_is_gone_on_with(wire: Any) -> None:
    port = wire.free_port()
    with wire.serve(f"http://127.0.0.1:{port}") as served, httpx.Client(base_url=served.url) as client:
        for _ in range(3):
            with wire.RawEngine(port=port):
                assert client.post(CHAT, json=BODY, headers={"X-Session-ID": "a"}).status_code == 200
        assert idle(served)


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_an_engine_that_breaks_off_before_its_reply_is_an_error_of_the_engines(wire: Any, path: str) -> None:
    with wire.RawEngine(lambda *_: None) as engine:
        engine._answer = lambda _, connection: connection.shutdown(socket.SHUT_RDWR)
        with wire.serve(engine.url) as served:
            reply = httpx.post(served.url + path, json=BODY, headers={"X-Session-ID": "a"})
            assert reply.status_code == 502
            assert "broke off" in json.dumps(reply.json())
            assert len(engine.requests) == 1  # it may have been read: not ours to send again
            assert idle(served)


@pytest.mark.parametrize("framing", [b"Content-Length: 100\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_reply_that_breaks_off_is_not_taken_for_whole(wire: Any, framing: bytes) -> None:
    def answer(_: bytes, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + framing + b"\r\n5\r\n{ab")
        connection.shutdown(socket.SHUT_RDWR)

    with wire.RawEngine(answer) as engine, wire.serve(engine.url) as served:
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": "a"})
        wire.until(lambda: idle(served))


@pytest.mark.parametrize(
    "reply",
    [b"garbage\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", b"\x00" * 10_000, b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000],
)
def test_what_is_no_http_is_an_error_of_the_engines(wire: Any, reply: bytes) -> None:
    def answer(_: bytes, connection: socket.socket) -> None:
        connection.sendall(reply)
        connection.shutdown(socket.SHUT_RDWR)

    with wire.RawEngine(answer) as engine, wire.serve(engine.url) as served:
        assert httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": "a"}).status_code == 502
        assert idle(served)


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_errors_of_the_engine_end_the_step(wire: Any, status: int) -> None:
    answer = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" % status
    with wire.RawEngine(answer) as engine, wire.serve(engine.url, window=1) as served:
        for agent in ("a", "a", "b"):
            if agent == "b":
                httpx.delete(served.url + "/concur/v1/agents/a")
            reply = httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": agent})
            assert (reply.status_code, reply.content) == (status, b"{}")
        assert idle(served)


def test_redirects_are_the_clients_to_follow(wire: Any) -> None:
    answer = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"
    with wire.RawEngine(answer) as engine, wire.serve(engine.url) as served:
        reply = httpx.post(served.url + CHAT, json=BODY)
        assert (reply.status_code, reply.headers["location"]) == (307, "http://169.254.169.254/latest")


def test_agents_of_an_engine_that_died_go_on_at_another(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, wire.serve(first.url, second.url) as served:
        for agent in "abcd":
            httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": agent})
        assert [upstream.agents for upstream in served.gateway.upstreams] == [2, 2]
        first.__exit__()
        for agent in "abcd":
            assert httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": agent}).status_code in (
                200,
                502,
            )
        for agent in "abcd":
            assert httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": agent}).status_code == 200
        assert [upstream.agents for upstream in served.gateway.upstreams] == [0, 4]
        assert served.gateway.upstreams[0].controller.stats().known == 0
        with wire.RawEngine(port=first.port):
            wire.until(lambda: not served.gateway.upstreams[0].down)
            httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": "e"})
            assert [upstream.agents for upstream in served.gateway.upstreams] == [1, 4]


def test_agents_are_spread_over_engines_and_stay_where_they_are(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, wire.serve(first.url, second.url) as served:
        for _ in range(3):
            for agent in "abcdef":
                httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": agent})
        assert [upstream.agents for upstream in served.gateway.upstreams] == [3, 3]
        assert len(first.requests) == len(second.requests) == 9


def test_a_bug_of_ours_does_not_stop_a_request(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:

        def broken(*_: Any) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(served.gateway.roster, "claimed", broken)
        monkeypatch.setattr(served.gateway.roster, "matched", broken)
        assert httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": "a"}).status_code == 200
        assert httpx.post(served.url + CHAT, json=BODY).status_code == 200


def test_a_closed_controller_does_not_stop_a_request(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        assert httpx.get(served.url + "/concur/v1/status").status_code == 200  # has started
        served.controller.close()
        assert httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": "a"}).status_code == 200


def test_an_engine_that_hangs_is_left_by_the_client_alone(wire: Any) -> None:
    never = threading.Event()
    with wire.RawEngine(lambda *_: never.wait()) as engine, wire.serve(engine.url) as served:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": "a"}, timeout=0.2)
        wire.until(lambda: idle(served) and served.gateway.requests == 0)
        never.set()


def test_requests_of_one_agent_at_once_move_it_once(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, wire.serve(first.url, second.url) as served:
        httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": "a"}).raise_for_status()
        member, upstreams = served.gateway.roster.get("a"), served.gateway.upstreams
        served.gateway.roster.moved(member, upstreams[1])
        run = member.run
        served.gateway.roster.moved(member, upstreams[1])
        assert member.run is run
        assert [upstream.agents for upstream in upstreams] == [0, 1]


def test_an_agent_that_was_ended_meanwhile_leaves_nothing_at_another_engine(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, wire.serve(first.url, second.url) as served:
        httpx.post(served.url + CHAT, json=BODY, headers={"X-Session-ID": "a"}).raise_for_status()
        roster, upstreams = served.gateway.roster, served.gateway.upstreams
        member = roster.get("a")
        member.open += 1
        roster.finish("a")
        roster.moved(member, upstreams[1])
        with served.controller.sync.agent("a").step():  # as a request that had not heard of it
            pass
        assert served.controller.stats().known == 1
        roster.close(member, answered=False)
        assert [upstream.controller.stats().known for upstream in upstreams] == [0, 0]
        assert [upstream.agents for upstream in upstreams] == [0, 0]
