"""What goes through is not changed: requests and replies, byte for byte."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

CHAT = b'{"model": "m",  "messages":[{"role":"user","content":"h\\u00e9"}] , "unknown" : 1e400}'


def head(data: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
    lines, _, body = data.partition(b"\r\n\r\n")
    first, *rest = lines.split(b"\r\n")
    return first, {name.lower(): value.strip() for name, value in (line.split(b":", 1) for line in rest)}, body


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/embeddings", b"/generate", b"/any/thing"])
@pytest.mark.parametrize("body", [CHAT, b"", b"\x00\xff no json", b'{"messages": 1}'])
def test_a_request_arrives_as_it_was_sent(wire: Any, path: bytes, body: bytes) -> None:
    request = (
        b"POST " + path + b"?a=%%20b&c=/%%2F;x HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer s3cret\r\n"
        b"X-Stainless-Lang: python\r\nAccept: a, b\r\nX-Twice: 1\r\nX-Twice: 2\r\nX-Name: h\xc3\xa9llo\r\n"
        b"Content-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n\r\n" % len(body)
    ) + body
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        assert wire.exchange(served.url, request).endswith(b"{}")
        first, headers, arrived = head(engine.requests[0])
    assert first == b"POST " + path + b"?a=%20b&c=/%2F;x HTTP/1.1"
    assert arrived == body
    assert engine.requests[0].lower().count(b"x-twice: ") == 2
    del headers[b"x-twice"]
    assert headers == {
        b"host": engine.url.removeprefix("http://").encode(),
        b"authorization": b"Bearer s3cret",
        b"x-stainless-lang": b"python",
        b"accept": b"a, b",
        b"x-name": b"h\xc3\xa9llo",
        b"content-type": b"application/json; charset=utf-8",
        b"content-length": b"%d" % len(body),
    }


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_every_method_goes_through_without_a_body(wire: Any, method: str) -> None:
    with wire.RawEngine(b"HTTP/1.1 204 No Content\r\nX-Own: 1\r\n\r\n") as engine, wire.serve(engine.url) as served:
        reply = wire.exchange(served.url, f"{method} /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        first, headers, body = head(engine.requests[0])
    assert first == f"{method} /x HTTP/1.1".encode()
    assert b"connection" not in headers
    assert body == b""
    assert reply.startswith(b"HTTP/1.1 204")
    assert b"x-own: 1" in reply.lower()


@pytest.mark.parametrize("status", [200, 201, 307, 400, 401, 404, 422, 429, 500, 503])
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/other"])
def test_a_reply_arrives_as_it_was_sent(wire: Any, status: int, path: bytes) -> None:
    body = b'{ "error" : "\xff" }'
    answer = (
        b"HTTP/1.1 %d Odd Words\r\nServer: engine\r\nDate: yesterday\r\nX-B: 2\r\nX-B: 3\r\nLocation: http://elsewhere/\r\n"
        % status
    )
    answer += b"Retry-After: 7\r\nContent-Type: x/y\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with wire.RawEngine(answer) as engine, wire.serve(engine.url) as served:
        reply = wire.exchange(
            served.url, b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path, len(CHAT)) + CHAT
        )
        served.gateway.roster.sweep()
        assert [member.open for member in served.gateway.roster] == [0] * len(served.gateway.roster)
    first, headers, arrived = head(reply)
    assert first.startswith(b"HTTP/1.1 %d" % status)
    assert arrived == body
    assert headers[b"server"] == b"engine"
    assert headers[b"date"] == b"yesterday"
    assert headers[b"location"] == b"http://elsewhere/"
    assert headers[b"retry-after"] == b"7"
    assert headers[b"content-type"] == b"x/y"
    assert reply.lower().count(b"x-b: ") == 2


def test_a_stream_comes_as_it_is_sent_event_by_event(wire: Any) -> None:
    """Each event arrives before the next is sent."""
    go = threading.Event()
    events = [b'data: {"choices": [{"delta": {"content": "%d"}}]}\n\n' % n for n in range(3)] + [b"data: [DONE]\n\n"]

    def answer(_: bytes, connection: Any) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in events:
            assert go.wait(10)
            go.clear()
            connection.sendall(b"%x\r\n%s\r\n" % (len(event), event))
        connection.sendall(b"0\r\n\r\n")

    import httpx

    with wire.RawEngine(answer) as engine, wire.serve(engine.url) as served:
        body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
        with httpx.stream("POST", served.url + "/v1/chat/completions", json=body) as reply:
            pieces = reply.iter_raw()
            for event in events:
                go.set()
                assert next(pieces) == event
            # Who has the last event does not wait for more: by now the agent is in its tool.
            assert [member.open for member in served.gateway.roster] == [0]


def test_an_engine_under_a_path(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url + "/models/a/v1") as served:
        wire.exchange(served.url, b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
        assert engine.requests[0].startswith(b"GET /models/a/v1/models HTTP/1.1\r\n")


def test_a_whole_reply_from_the_engine_is_what_the_engine_says(wire: Any) -> None:
    import httpx

    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 7}
    with wire.emulator() as engine, wire.serve(engine.url) as served:
        direct, through = (httpx.post(url + "/v1/chat/completions", json=body) for url in (engine.url, served.url))
        for reply in direct, through:
            assert reply.status_code == 200
        keys = {"id", "created", "usage"}
        one, two = (
            {key: value for key, value in reply.json().items() if key not in keys} for reply in (direct, through)
        )
        assert one == two
        assert set(direct.headers) == set(through.headers)
        assert json.loads(through.content)["usage"]["prompt_tokens"] == direct.json()["usage"]["prompt_tokens"]
