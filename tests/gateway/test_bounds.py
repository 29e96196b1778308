"""What an unfriendly client can do: nothing, to others or to what lies behind."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"


def test_a_body_that_is_announced_too_large_is_refused_unread(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, max_body=1000) as served:
        reply = wire.exchange(served.url, CHAT + b"Content-Length: 1001\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 413")
        assert engine.requests == []


def test_a_body_that_grows_too_large_is_refused(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, max_body=1000) as served:
        chunks = b"1f4\r\n" + b"x" * 500 + b"\r\n"
        reply = wire.exchange(served.url, CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + chunks * 3)
        assert reply.startswith(b"HTTP/1.1 413")
        assert engine.requests == []
        wire.until(lambda: served.gateway.held.bytes == 0)


def test_a_body_of_just_the_largest_size_goes_through(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, max_body=1000) as served:
        assert wire.exchange(served.url, CHAT + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000).endswith(b"{}")


def test_fifty_megabytes_go_through(wire: Any) -> None:
    body = {"messages": [{"role": "user", "content": "x" * 50_000_000}]}
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        assert httpx.post(served.url + "/v1/chat/completions", json=body, timeout=60).status_code == 200
        assert len(engine.requests[0]) > 50_000_000
        assert len(served.gateway.roster) == 1
        wire.until(lambda: served.gateway.held.bytes == 0)


def test_all_bodies_together_are_bounded(wire: Any) -> None:
    with wire.RawEngine(lambda *_: None) as engine, wire.serve(engine.url, max_held=1500) as served:
        host, port = served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as first:
            first.sendall(CHAT + b"Content-Length: 1400\r\n\r\n" + b"x" * 1000)
            wire.until(lambda: served.gateway.held.bytes == 1000)
            reply = wire.exchange(served.url, CHAT + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000)
            assert reply.startswith(b"HTTP/1.1 503")
            assert b"retry-after" in reply
        wire.until(lambda: served.gateway.held.bytes == 0)


def test_requests_at_a_time_are_bounded(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, max_requests=1) as served:
        host, port = served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as first:
            first.sendall(CHAT + b"Content-Length: 10\r\n\r\n")
            wire.until(lambda: served.gateway.requests == 1)
            assert wire.exchange(served.url, CHAT + b"Content-Length: 0\r\n\r\n").startswith(b"HTTP/1.1 503")
        wire.until(lambda: served.gateway.requests == 0)


def test_a_head_without_end_is_refused(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        reply = wire.exchange(served.url, CHAT + b"X-Long: " + b"x" * 100_000)
        assert reply.startswith(b"HTTP/1.1 4")
        assert engine.requests == []


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 5, 6\r\n\r\nhello!",
        b"Content-Length: 0x5\r\n\r\nhello",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n",
        b"X: a\r\n b: c\r\nContent-Length : 5\r\n\r\nhello",
        b"X\x00Y: 1\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=range(9),
)
def test_what_ends_a_body_in_two_ways_goes_nowhere(wire: Any, framing: bytes) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        reply = wire.exchange(served.url, CHAT + framing + b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 4")
        assert engine.requests == []


def test_a_length_beside_chunks_hides_nothing(wire: Any) -> None:
    """Chunks win (RFC 9112, 6.3), and what goes on has one length, which is theirs."""
    hidden = b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
    request = CHAT + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(hidden) + hidden
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        wire.exchange(served.url, request)
        for each in engine.requests:
            assert each.lower().count(b"content-length") + each.lower().count(b"transfer-encoding") <= 1
        assert not any(b"hidden" in each.split(b"\r\n\r\n", 1)[1] for each in engine.requests)


@pytest.mark.parametrize(
    "target",
    [
        b"http://127.0.0.1:1/evil",
        b"//127.0.0.1:1/evil",
        b"/@127.0.0.1:1/evil",
        b"/..//..//127.0.0.1:1/evil",
        b"/%2e%2e/%0d%0aHost:%20evil",
        b"/a?b=http://127.0.0.1:1/%0d%0a",
        b"/\xff\xfe",
        b"*",
    ],
)
def test_only_the_engine_is_ever_reached(wire: Any, target: bytes) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, engine_wait=0) as served:
        wire.exchange(served.url, b"GET " + target + b" HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
        for each in engine.requests:  # the engine's own address, and one line for the target
            line, _, rest = each.partition(b"\r\n")
            assert line.count(b" ") == 2
            assert b"\r\nHost: evil" not in each
            assert b"host: " + engine.url.removeprefix("http://").encode() in rest.lower()
        assert not served.gateway.upstreams[0].down


@pytest.mark.parametrize("name", ["Host", "X-Forwarded-Host", "Forwarded", "X-Original-URL", "Proxy"])
def test_no_header_leads_elsewhere(wire: Any, name: str) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        assert httpx.get(served.url + "/x", headers={name: "127.0.0.1:1"}).status_code == 200
        assert len(engine.requests) == 1


def test_headers_of_the_connection_stay_on_it(wire: Any) -> None:
    request = (
        b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\n"
        b"Upgrade: websocket\r\nTE: trailers\r\nProxy-Authorization: Basic x\r\n\r\n"
    )
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        wire.exchange(served.url, request)
        arrived = engine.requests[0].lower()
    for name in (b"x-secret", b"keep-alive", b"upgrade", b"te:", b"proxy-authorization"):
        assert name not in arrived


def test_a_header_cannot_be_injected_by_an_agents_name(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        headers = {"X-Session-ID": "a%0d%0aX-Evil:%201"}
        assert httpx.post(served.url + "/v1/chat/completions", json={}, headers=headers).status_code == 200
        assert b"\r\nX-Evil" not in engine.requests[0]
        listed = httpx.get(served.url + "/concur/v1/agents").json()["agents"]
        assert [agent["agent_id"] for agent in listed] == ["a\r\nX-Evil: 1"]


def test_cookies_of_one_client_are_not_anothers(wire: Any) -> None:
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n"
    with wire.RawEngine(answer) as engine, wire.serve(engine.url) as served:
        for _ in range(2):
            assert httpx.get(served.url + "/x").headers["set-cookie"] == "a=1"
        assert not any(b"cookie" in each.lower() for each in engine.requests)


def test_an_environment_with_a_proxy_is_not_heeded(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        assert httpx.get(served.url + "/x", trust_env=False).status_code == 200
