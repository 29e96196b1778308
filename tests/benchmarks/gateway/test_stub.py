"""The stub engine speaks HTTP as engines do, however a request is cut into packets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re

import pytest

from benchmarks.gateway.stub import EVENTS, PROMPT_TOKENS, StubEngine, StubProtocol, streamed
from benchmarks.gateway.workload import stream_body
from concur_agents.engines import AnyEngine


class Wire(asyncio.Transport):
    """Keeps what is sent."""

    def __init__(self):
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data):
        self.sent += data

    def close(self):
        self.closed = True


@pytest.fixture
def engine():
    return StubEngine()


@pytest.fixture
def connect(engine):
    def new():
        protocol, wire = StubProtocol(engine), Wire()
        protocol.connection_made(wire)
        return protocol, wire

    return new


def post(body=b"{}", *more):
    lines = [b"POST /v1/chat/completions HTTP/1.1", b"Host: stub", b"Content-Length: %d" % len(body), *more]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: stub\r\n\r\n".encode()


def replies(sent):
    """Status and body of each reply in what was sent; all with a Content-Length."""
    found = []
    while sent:
        head, _, rest = sent.partition(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
        found.append((int(head.split()[1]), rest[:length]))
        sent = rest[length:]
    return found


def unchunked(sent):
    """The body of one chunked reply, which must have ended, and what follows it."""
    _, _, rest = sent.partition(b"\r\n\r\n")
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, end, rest = body + rest[:length], rest[length : length + 2], rest[length + 2 :]
        assert end == b"\r\n"
        if not length:
            return body, rest


def test_a_generation_is_answered_with_its_usage(connect):
    protocol, wire = connect()
    protocol.data_received(post())
    [(status, body)] = replies(wire.sent)
    assert status == 200
    assert json.loads(body)["usage"]["prompt_tokens"] == PROMPT_TOKENS


@pytest.mark.parametrize("size", [1, 7, 60])
def test_a_request_may_come_in_any_pieces(connect, size):
    protocol, wire = connect()
    request = post(b'{"messages": []}') + post(b"{}")
    for start in range(0, len(request), size):
        protocol.data_received(request[start : start + size])
    assert [status for status, _ in replies(wire.sent)] == [200, 200]


def test_requests_sent_ahead_are_answered_in_order(connect):
    protocol, wire = connect()
    protocol.data_received(get("/health") + post() + get("/no/such/path"))
    assert [status for status, _ in replies(wire.sent)] == [200, 200, 404]


def test_a_stream_brings_all_events_of_its_user_and_then_the_end(connect, engine):
    protocol, wire = connect()
    protocol.data_received(post(stream_body("stream-7")))
    for _ in range(EVENTS + 2):
        engine.step()
    body, rest = unchunked(wire.sent)
    assert body == streamed("stream-7") != streamed("stream-8")
    assert body.endswith(b"data: [DONE]\n\n")
    assert rest == b""
    assert not engine.streams


def test_what_follows_a_stream_waits_for_its_end(connect, engine):
    protocol, wire = connect()
    protocol.data_received(post(stream_body("a")) + post())
    engine.step()
    assert b"chat.completion.chunk" in wire.sent
    assert b'"chat.completion"' not in wire.sent
    for _ in range(EVENTS + 1):
        engine.step()
    _, rest = unchunked(wire.sent)
    assert [status for status, _ in replies(rest)] == [200]


def test_a_client_that_hangs_up_ends_its_stream(connect, engine):
    protocol, wire = connect()
    protocol.data_received(post(stream_body("a")))
    protocol.connection_lost(None)
    before = wire.sent
    engine.step()
    assert not engine.streams
    assert wire.sent == before


@pytest.mark.parametrize(
    "request_bytes",
    [b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"POST / HTTP/1.1\r\nX: " + b"x" * 70_000],
    ids=["a body without its length", "a head without an end"],
)
def test_what_it_cannot_read_is_refused(connect, request_bytes):
    protocol, wire = connect()
    protocol.data_received(request_bytes)
    assert replies(wire.sent)[0][0] == 411
    assert wire.closed


def test_a_client_that_wants_the_connection_closed_gets_it(connect):
    protocol, wire = connect()
    protocol.data_received(post(b"{}", b"Connection: close"))
    assert replies(wire.sent)[0][0] == 200
    assert wire.closed


async def test_a_controller_reads_its_metrics(stub):
    with contextlib.closing(AnyEngine(stub.url)) as reader:
        sample = await asyncio.to_thread(reader.read, 30.0)
    assert sample.capacity_tokens == 10**9
    assert sample.running == 0
