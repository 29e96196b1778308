"""Clients that stop half-way, or read no more: each holds a connection, and some a seat, until somebody takes it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from concur_agents.gateway import server
from concur_agents.gateway.sockets import connecting
from concur_agents.samples import AgentState

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Session-ID: a\r\n"


def connect(url: str, *, buffer: int | None = None) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.settimeout(10)
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.connect((host, int(port)))
    return connection


def answered(connection: socket.socket) -> bool:
    """Whether a whole reply comes."""
    back = b""
    while not back.endswith(b"{}"):
        chunk = connection.recv(1000)
        if not chunk:
            return False
        back += chunk
    return True


def closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it, and said nothing."""
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "said",
    [
        b"P",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-More: ",
        CHAT + b"Content-Length: 100\r\n\r\n",
        CHAT + b"Content-Length: 100\r\n\r\n{",
        CHAT + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ],
    ids=["one-byte", "half-a-head", "no-body", "half-a-body", "half-in-chunks"],
)
@pytest.mark.parametrize("before", [b"", b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"], ids=["first", "second"])
def test_who_stops_in_the_middle_of_its_request_is_dropped(wire: Any, said: bytes, before: bytes) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, send_wait=0.2) as served:
        with connect(served.url) as connection:
            connection.sendall(before)
            if before:
                assert answered(connection)
            connection.sendall(said)
            assert closed(connection)
        wire.until(lambda: served.gateway.requests == 0 and served.gateway.held.bytes == 0)
        assert len(engine.requests) == bool(before)


def test_a_head_that_trickles_is_dropped_however_often_a_byte_comes(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, send_wait=0.3) as served:
        with connect(served.url) as connection:
            connection.settimeout(0.01)

            def dropped() -> bool:
                try:
                    connection.sendall(b"X")
                    return connection.recv(1) == b""
                except TimeoutError:
                    return False
                except ConnectionError:
                    return True

            connection.sendall(CHAT)
            wire.until(dropped)
        assert engine.requests == []


def test_who_connects_and_says_nothing_is_dropped(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_KEEP_ALIVE_S", 0.2)
    with wire.RawEngine() as engine, wire.serve(engine.url) as served, connect(served.url) as connection:
        assert closed(connection)


def test_who_has_sent_all_may_wait_for_as_long_as_it_takes(wire: Any) -> None:
    """For the engine, and for a seat."""
    go = threading.Event()

    def answer(*_: Any) -> bytes:
        go.wait(10)
        return bytes(wire.OK)

    with (
        wire.RawEngine(answer) as engine,
        wire.serve(engine.url, send_wait=0.05, window=1) as served,
        connect(served.url) as first,
        connect(served.url) as second,
    ):
        first.sendall(CHAT + b"Content-Length: 2\r\n\r\n{}")
        wire.until(lambda: engine.requests)
        second.sendall(
            CHAT.replace(b": a\r\nX-Session-ID: a", b": a\r\nX-Session-ID: b") + b"Content-Length: 0\r\n\r\n"
        )
        wire.until(lambda: (view := served.controller.view("b")) is not None and view.waited_s > 0.3)
        go.set()
        assert answered(first)
        served.gateway.roster.finish("a")
        assert answered(second)


def streams(stop: threading.Event, over: threading.Event) -> Callable[[bytes, socket.socket], None]:
    """An engine that generates without end, and notices when nobody wants it any more."""

    def answer(_: bytes, connection: socket.socket) -> None:
        event = b"data: " + b"x" * 60_000 + b"\n\n"
        try:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            while not stop.is_set():
                connection.sendall(event)
        except OSError:
            over.set()

    return answer


def test_who_reads_no_more_of_its_stream_loses_it_and_its_agent_is_at_its_boundary(wire: Any) -> None:
    stop, over = threading.Event(), threading.Event()
    with wire.RawEngine(streams(stop, over)) as engine, wire.serve(engine.url, read_wait=0.3) as served:
        with connect(served.url, buffer=4096) as connection:
            connection.sendall(CHAT + b"Content-Length: 2\r\n\r\n{}")
            assert connection.recv(10)
            assert over.wait(10)
            wire.until(lambda: served.controller.view("a").state is AgentState.IN_TOOL)
            wire.until(lambda: served.gateway.requests == 0)
        stop.set()


def test_who_reads_slowly_keeps_its_stream(wire: Any) -> None:
    """It falls behind again and again, and catches up each time."""
    stop, over = threading.Event(), threading.Event()
    with wire.RawEngine(streams(stop, over)) as engine, wire.serve(engine.url, read_wait=5) as served:
        with connect(served.url, buffer=4096) as connection:
            connection.sendall(CHAT + b"Content-Length: 2\r\n\r\n{}")
            read = 0
            while read < 20_000_000:
                read += len(connection.recv(1 << 16))
            assert not over.is_set()
        assert over.wait(10)  # it has gone, and that is noticed too
        stop.set()


def test_a_stream_that_always_has_more_is_cut_when_the_gateway_stops(wire: Any) -> None:
    """A loop that is never idle finds more of it each time it looks: also many streams of few events are like that."""
    stop, over = threading.Event(), threading.Event()
    with wire.RawEngine(streams(stop, over)) as engine, wire.serve(engine.url) as served:
        with httpx.stream("POST", served.url + "/v1/chat/completions", json={}) as reply:
            pieces = reply.iter_raw()
            assert next(pieces)
            served.stop()
            with pytest.raises(httpx.RemoteProtocolError):
                for _ in pieces:
                    pass
        assert over.wait(10)
        stop.set()


def test_a_host_that_is_gone_is_asked_for(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's, which may wait for its seat for long; and an engine's, which may be at its reply."""
    made: list[socket.socket] = []

    def recorded(address: Any) -> socket.socket:
        made.append(connecting(address))
        return made[-1]

    monkeypatch.setattr("concur_agents.gateway.upstream.connecting", recorded)
    with wire.RawEngine() as engine, wire.serve(engine.url) as served:
        assert httpx.get(served.url + "/v1/models").status_code == 200
        assert made
        _, listener = server.build_server(served.gateway)
        host, port = listener.getsockname()
        with listener, connect(f"http://{host}:{port}"):
            accepted, _ = listener.accept()
            with accepted:
                for each in (made[0], listener, accepted):
                    assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                    assert each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 120
