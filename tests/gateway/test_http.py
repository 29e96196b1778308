"""What HTTP allows and few clients do: old versions, odd framings, upgrades, ids of any alphabet."""

from __future__ import annotations

import gzip
import json
import logging
import socket
from typing import Any
from urllib.parse import quote

import httpx
import pytest

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
WHOLE = CHAT + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n1\r\n!\r\n0\r\nX-Checksum: 1\r\n\r\n"
)


def talk(url: str, data: bytes) -> bytes:
    """Send it, and read until the other side closes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(data)
        back = b""
        while chunk := connection.recv(65536):
            back += chunk
    return back


def body_of(reply: bytes) -> bytes:
    return reply.partition(b"\r\n\r\n")[2]


def test_a_client_of_http_1_0_gets_what_it_can_read(wire: Any) -> None:
    """No chunks, and the end of the connection for the end of the body."""
    request = b"POST /v1/chat/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"
    with wire.RawEngine(STREAM) as engine, wire.serve(engine.url) as served:
        reply = talk(served.url, request)
        assert body_of(reply) == b"hello!"
        assert b"chunked" not in reply.lower()
        assert engine.requests[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\nHost: ")
        assert [member.open for member in served.gateway.roster] in ([], [0])


def test_who_waits_to_be_told_to_send_its_body_is_told(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        host, port = served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(CHAT + b"Expect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n\r\n")
            assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(b"{}")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert b"expect" not in engine.requests[0].lower()


def test_who_waits_to_send_too_large_a_body_is_never_told_to(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, max_body=10) as served:
        head = CHAT + b"Expect: 100-continue\r\nConnection: close\r\nContent-Length: 11\r\n\r\n"
        assert talk(served.url, head).startswith(b"HTTP/1.1 413 ")


def test_a_body_in_chunks_arrives_as_one_of_its_length(wire: Any) -> None:
    """Chunks' extensions and trailers are of the connection, and end with it."""
    chunks = b"1;name=value\r\n{\r\n1\r\n}\r\n0\r\nX-Evil: 1\r\n\r\n"
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        head = CHAT + b"Connection: close\r\nTrailer: X-Evil\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert body_of(talk(served.url, head + chunks)) == b"{}"
        assert b"content-length: 2\r\n" in engine.requests[0].lower()
        assert engine.requests[0].endswith(b"\r\n\r\n{}")
        assert b"evil" not in engine.requests[0].lower()


def test_requests_sent_ahead_are_answered_in_their_order(wire: Any) -> None:
    def echo(request: bytes, _: Any) -> bytes:
        body = request.partition(b"\r\n\r\n")[2]
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    bodies = [b'{"turn": %d}' % number for number in range(20)]
    ahead = b"".join(CHAT + b"X-Session-ID: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body for body in bodies)
    with wire.RawEngine(echo) as engine, wire.serve(engine.url) as served:
        reply = talk(served.url, ahead + WHOLE)
        assert [part.partition(b"HTTP/1.1")[0] for part in reply.split(b"\r\n\r\n")[1:-1]] == bodies
        assert len(served.gateway.roster) in (1, 2)
        assert served.controller.view("a").steps == 20


def test_a_compressed_request_is_passed_on_and_is_nobody_s(wire: Any) -> None:
    body = gzip.compress(json.dumps({"messages": [{"role": "user", "content": "x"}]}).encode())
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        reply = httpx.post(served.url + "/v1/chat/completions", content=body, headers={"Content-Encoding": "gzip"})
        assert reply.status_code == 200
        assert engine.requests[0].endswith(b"\r\n\r\n" + body)
        assert b"content-encoding: gzip" in engine.requests[0].lower()
        assert len(served.gateway.roster) == 0


def test_what_a_browser_asks_beforehand_is_the_engine_s_to_answer(wire: Any) -> None:
    answer = b"HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: http://page\r\n\r\n"
    asked = {"Origin": "http://page", "Access-Control-Request-Method": "POST"}
    with wire.RawEngine(answer) as engine, wire.serve(engine.url) as served:
        reply = httpx.options(served.url + "/v1/chat/completions", headers=asked)
        assert reply.status_code == 204
        assert reply.headers["access-control-allow-origin"] == "http://page"
        assert b"access-control-request-method: post" in engine.requests[0].lower()
        assert len(served.gateway.roster) == 0
        own = httpx.options(served.url + "/concur/v1/agents", headers=asked)
        assert "access-control-allow-origin" not in own.headers  # no page has a say here


def test_who_closes_its_half_has_gone_as_at_the_engine(wire: Any) -> None:
    """Uvicorn, which the engines run on, takes it for the whole."""
    body = b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 99}'
    request = CHAT + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with wire.emulator() as engine, wire.serve(engine.url) as served:
        httpx.post(engine.url + "/pause_generation", json={"mode": "in_place"})
        for url in (engine.url, served.url):
            host, port = url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(65536) == b""
        wire.until(lambda: served.gateway.requests == 0)
        assert [member.open for member in served.gateway.roster] in ([], [0])


@pytest.mark.parametrize("offered", [b"h2c", b"HTTP/3.0", b"TLS/1.3, h2c"])
def test_an_offer_of_another_protocol_is_not_taken_and_not_complained_of(
    wire: Any, offered: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Java's client makes one with every request."""
    head = CHAT + b"Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: " + offered + b"\r\nHTTP2-Settings: A\r\n"
    with wire.RawEngine() as engine, wire.serve(engine.url) as served, caplog.at_level(logging.WARNING, "uvicorn"):
        assert talk(served.url, head + b"Content-Length: 2\r\n\r\n{}").startswith(b"HTTP/1.1 200 ")
        assert b"upgrade" not in engine.requests[0].lower()
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


def test_web_sockets_are_refused_and_it_is_said_where_to_go(wire: Any) -> None:
    request = (
        b"GET /v1/realtime HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        reply = wire.exchange(served.url, request)
        assert reply.startswith(b"HTTP/1.1 501 ")
        assert "ask the engine itself" in json.loads(body_of(reply))["error"]["message"]
        assert engine.requests == []


@pytest.mark.parametrize(
    "name", ["é", "日本語", "a/b//c", "../..", "a?b#c", "a b", "100%25", "%2F", "x" * 200, "π" * 150, "🙂"]
)
@pytest.mark.parametrize("raw", [True, False])
def test_an_id_of_any_alphabet_is_called_in_the_api_what_the_client_calls_it(wire: Any, name: str, raw: bool) -> None:
    """Whether its header has UTF-8 itself or is percent-encoded; one in a body, and in a URL, is the same agent's."""
    if raw and "%" in name:
        pytest.skip("in a header it means what it encodes")
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        header = name.encode() if raw else quote(name, safe="").encode()
        assert httpx.post(served.url + "/v1/chat/completions", json={}, headers={b"X-Session-ID": header}).is_success
        assert httpx.post(served.url + "/v1/chat/completions", json={"session_id": name}).is_success
        (agent,) = httpx.get(served.url + "/concur/v1/agents").json()["agents"]
        assert (agent["agent_id"], agent["steps"]) == (name, 2)
        path = quote(name, safe="").replace(".", "%2E")
        assert httpx.delete(f"{served.url}/concur/v1/agents/{path}").json() == {"finished": True}


def test_an_id_in_latin_1_is_read_as_such(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        assert httpx.post(served.url + "/v1/chat/completions", json={}, headers={b"X-Session-ID": b"\xe9"}).is_success
        assert httpx.delete(f"{served.url}/concur/v1/agents/%C3%A9").json() == {"finished": True}
