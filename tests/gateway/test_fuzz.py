"""Whatever clients and engines send, the gateway stays up, answers the next one, and holds nothing of what is over."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

CHAT = "/v1/chat/completions"
PATHS = (CHAT, "/v1/completions", "/v1/responses", "/v1/messages", "/generate", "/v1/models", "/concur/v1/agents", "*")
HEADERS = (
    "X-Session-ID",
    "session-id",
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "x-parent-session-id",
    "x-session-final",
    "x-stainless-read-timeout",
    "x-stainless-retry-count",
    "Authorization",
    "Accept-Encoding",
    "Content-Type",
    "Connection",
    "Expect",
    "Upgrade",
    "TE",
    "Cookie",
    "X-Other",
)
REPLY_HEADERS = (
    "Content-Type",
    "Content-Length",
    "Content-Encoding",
    "Transfer-Encoding",
    "Set-Cookie",
    "Location",
    "Retry-After",
    "Trailer",
    "Upgrade",
    "X-Other",
)
GOOD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Session-ID: a\r\nContent-Type: application/json\r\n"
    b'Content-Length: 47\r\n\r\n{"messages": [{"role": "user", "content": "x"}]}'
)

# Names and shapes that something of ours looks at, with anything inside.
KNOWN = st.sampled_from(
    [
        *("messages", "role", "user", "assistant", "tool", "content", "type", "text", "input", "prompt", "input_ids"),
        *("system", "instructions", "tool_calls", "id", "call_id", "function_call", "tool_use", "session_id", "model"),
        *("program_id", "stream", "previous_response_id", "choices", "message", "delta", "finish_reason", "output"),
        *("stop_reason", "usage", "prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"),
        *("cached_tokens", "input_tokens", "output_tokens", "meta_info", "response", "message_start", "event"),
    ]
)
TEXT = st.text(st.characters(), max_size=20)  # surrogates too: JSON can say them, UTF-8 cannot
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | KNOWN | TEXT
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KNOWN | TEXT, inner, max_size=5),
    max_leaves=20,
)
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=40).map(
    lambda value: value.strip().encode("latin-1")
)

fuzzed = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])


class Told(logging.Handler):
    """Errors that a server logs when something was not thought of."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "without completing response" not in record.getMessage():  # that is how a reply is cut, as the engine did
            self.lines.append(self.format(record))


@pytest.fixture(scope="module")
def fuzz(wire: Any) -> Iterator[Any]:
    """A gateway, and an engine that answers with ``reply``."""
    told = Told()
    state = SimpleNamespace(reply=wire.OK, whole=True, told=told)

    def answer(request: bytes, connection: socket.socket) -> bytes | None:
        if request.startswith(b"HEAD "):
            return bytes(wire.OK.removesuffix(b"{}"))
        if state.whole:
            return bytes(state.reply)
        with contextlib.suppress(OSError):  # the gateway may have seen enough
            connection.sendall(state.reply)
            connection.shutdown(socket.SHUT_RDWR)
        return None

    with wire.RawEngine(answer) as engine, wire.serve(engine.url, engine_wait=0) as served:
        loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio", "concur_agents")]
        for each in loggers:
            each.addHandler(told)
        state.engine, state.served, state.url = engine, served, served.url
        with httpx.Client(base_url=served.url) as state.client:
            yield state
        for each in loggers:
            each.removeHandler(told)


def stands(fuzz: Any, wire: Any) -> None:
    """A good request is answered, and nothing is left of those before it."""
    fuzz.reply, fuzz.whole = wire.OK, True
    assert wire.exchange(fuzz.url, GOOD).endswith(b"\r\n\r\n{}")
    gateway = fuzz.served.gateway
    wire.until(lambda: gateway.requests == 0 and gateway.held.bytes == 0)
    wire.until(lambda: all(member.open == 0 for member in gateway.roster))
    assert fuzz.served.controller.stats().population.generating == 0
    assert fuzz.told.lines == []


def send(url: str, data: bytes) -> bytes:
    """Send, say that no more comes, and read whatever comes back."""
    host, port = url.removeprefix("http://").split(":")
    back = b""
    with socket.create_connection((host, int(port)), timeout=10) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65536):
            back += chunk
    return back


def test_the_good_request_is_one(fuzz: Any, wire: Any) -> None:
    stands(fuzz, wire)


@fuzzed
@given(st.binary(max_size=300))
@example(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # TLS
@example(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
@example(b"GET / HTTP/9.9\r\n\r\n")
@example(b"\r\n" * 100)
def test_any_bytes(fuzz: Any, wire: Any, data: bytes) -> None:
    back = send(fuzz.url, data)
    assert not back or back.startswith(b"HTTP/1.1 ")
    stands(fuzz, wire)


@fuzzed
@given(st.data())
def test_a_good_request_with_some_bytes_changed(fuzz: Any, wire: Any, data: st.DataObject) -> None:
    request = bytearray(GOOD * data.draw(st.integers(1, 3)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(request)))
        size = data.draw(st.integers(0, 8))
        request[start : start + size] = data.draw(
            st.binary(max_size=8) | st.sampled_from((b"\r\n", b"\r\n\r\n", b":", b"Transfer-Encoding: chunked\r\n"))
        )
    back = send(fuzz.url, bytes(request[: data.draw(st.integers(0, len(request)))]))
    assert not re.search(rb"^HTTP/1.1 5", back, re.MULTILINE)
    stands(fuzz, wire)


@fuzzed
@given(
    method=st.sampled_from(("POST", "POST", "POST", "GET", "PUT", "HEAD", "OPTIONS", "TRACE", "BREW")),
    path=st.sampled_from(PATHS) | TEXT.map(lambda text: "/" + quote(text, errors="surrogatepass")),
    headers=st.lists(st.tuples(st.sampled_from(HEADERS), VALUES), max_size=6),
    body=JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=100),
)
def test_any_request_that_is_one(
    fuzz: Any, wire: Any, method: str, path: str, headers: list[tuple[str, bytes]], body: bytes
) -> None:
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers)
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n".encode()
    back = wire.exchange(fuzz.url, head + lines + b"Connection: close\r\n\r\n" + body)
    assert re.match(rb"HTTP/1.1 [1-4]", back), back
    stands(fuzz, wire)
    for what in ("agents", "status"):
        assert fuzz.client.get(f"/concur/v1/{what}").status_code == 200


@fuzzed
@given(path=st.sampled_from(PATHS[:5]), body=st.dictionaries(KNOWN, JSON, max_size=6), apart=TEXT)
def test_any_conversation(fuzz: Any, wire: Any, path: str, body: dict[str, Any], apart: str) -> None:
    sent = json.dumps(body | {"apart": apart}).encode()
    for _ in range(2):
        reply = fuzz.client.post(path, content=sent)
        assert (reply.status_code, reply.content) == (200, b"{}")
    assert fuzz.engine.requests[-1].endswith(sent)
    stands(fuzz, wire)
    assert fuzz.client.get("/concur/v1/agents").status_code == 200


@fuzzed
@given(name=TEXT.filter(bool), where=st.sampled_from(("header", "body", "parent")))
@example("\ud800", "body")
@example("a\nb", "header")
@example("x" * 300, "header")
def test_any_name_of_an_agent(fuzz: Any, wire: Any, name: str, where: str) -> None:
    body = {"session_id": name if where == "body" else "child" if where == "parent" else 0}
    headers = {"X-Parent-Session-ID" if where == "parent" else "X-Session-ID": quote(name, errors="replace")}
    reply = fuzz.client.post(CHAT, content=json.dumps(body).encode(), headers={} if where == "body" else headers)
    assert reply.status_code == 200
    stands(fuzz, wire)
    listed = fuzz.client.get("/concur/v1/agents").json()["agents"]
    for agent in listed:
        path = "/concur/v1/agents/" + quote(agent["agent_id"], safe="").replace(".", "%2E")
        assert fuzz.client.get(path).json()["agent_id"] == agent["agent_id"]
        assert fuzz.client.delete(path).json() == {"finished": True}
    assert len(fuzz.served.gateway.roster) == 0


def test_names_that_differ_in_any_byte_are_two_agents(fuzz: Any) -> None:
    for name in ("%ff", "%fe", "%ef%bf%bd"):
        assert fuzz.client.post(CHAT, json={}, headers={"X-Session-ID": name}).status_code == 200
    listed = fuzz.client.get("/concur/v1/agents").json()["agents"]
    assert len({agent["agent_id"] for agent in listed}) == 3
    for agent in listed:
        fuzz.client.delete("/concur/v1/agents/" + quote(agent["agent_id"]))


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_the_own_api_does_what_it_says(fuzz: Any, mode: str) -> None:
    """Whatever is asked, as its description has it or not: no status and no body that it does not describe."""
    schema = schemathesis.openapi.from_url(f"{fuzz.url}/concur/v1/openapi.json")
    asked = 0
    for operation in (result.ok() for result in schema.get_all_operations()):
        if mode == "negative" and not operation.query:
            continue  # nothing in it could be wrong

        @fuzzed
        @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
        def ask(case: Any) -> None:
            nonlocal asked
            asked += 1
            fuzz.client.post(CHAT, json={}, headers={"X-Session-ID": "a"})
            case.call_and_validate()

        ask()
    assert asked > 20
    assert fuzz.told.lines == []


def test_a_resource_names_all_of_its_methods(fuzz: Any) -> None:
    reply = fuzz.client.request("PATCH", "/concur/v1/agents/a")
    assert reply.status_code == 405
    assert {"GET", "DELETE"} <= {each.strip() for each in reply.headers["allow"].split(",")}


@pytest.mark.parametrize("prefix", ["", "/models/a"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_target_that_is_no_path_leads_nowhere(wire: Any, prefix: str, method: str) -> None:
    """The engine's address must not become the name of a user at another one, or half of a port."""
    with wire.RawEngine() as engine, wire.RawEngine() as elsewhere, wire.serve(engine.url + prefix) as served:
        address = elsewhere.url.removeprefix("http://")
        for target in ("@{}", "@{}/x", ":x@{}/x", "{}", "http://{}/x", ".localhost/x", "0/x", "*", "x"):
            request = f"{method} {target.format(address)} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
            reply = wire.exchange(served.url, request.encode())
            assert reply.startswith(b"HTTP/1.1 400 "), target
        assert engine.requests == elsewhere.requests == []
        assert not served.gateway.upstreams[0].down


@pytest.mark.parametrize("target", ["/v1/models#x", "/v1/models?a=b#c"])
def test_a_target_that_would_be_changed_on_the_way_is_refused(fuzz: Any, wire: Any, target: str) -> None:
    reply = wire.exchange(fuzz.url, f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert reply.startswith(b"HTTP/1.1 400 ")


def test_control_characters_of_a_client_are_not_the_engines_fault(fuzz: Any, wire: Any) -> None:
    for code in (*range(0x20), 0x7F):
        reply = wire.exchange(fuzz.url, b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: a%cb\r\n\r\n" % code)
        assert reply.startswith(b"HTTP/1.1 200 " if code == 9 else b"HTTP/1.1 400 "), code
    stands(fuzz, wire)


@fuzzed
@given(
    path=st.sampled_from(PATHS[:5]),
    reply=JSON,
    streams=st.booleans(),
    status=st.sampled_from((200, 200, 200, 400, 500)),
)
def test_any_reply_of_the_engine_passes(
    fuzz: Any, wire: Any, path: str, reply: Any, streams: bool, status: int
) -> None:
    body = json.dumps(reply).encode()
    if streams:
        body = b"data: " + body + b"\n\ndata: " + body + b"\n\ndata: [DONE]\n\n"
    kind = "text/event-stream" if streams else "application/json"
    fuzz.reply = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    got = fuzz.client.post(path, json={"messages": [{"role": "user", "content": "x"}], "prompt": "x" * 3000})
    assert (got.status_code, got.content) == (status, body)
    stands(fuzz, wire)


@fuzzed
@given(st.data())
def test_any_bytes_of_the_engine(fuzz: Any, wire: Any, data: st.DataObject) -> None:
    whole = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\n\r\n"
    )
    cut = data.draw(st.integers(0, len(whole)))
    fuzz.reply = data.draw(st.sampled_from((whole[:cut], b""))) + data.draw(st.binary(max_size=100))
    fuzz.whole = False
    with contextlib.suppress(httpx.RemoteProtocolError):  # cut, where the engine broke off
        fuzz.client.post(CHAT, content=b"{}", headers={"X-Session-ID": "fuzz"})
    stands(fuzz, wire)


@fuzzed
@given(
    status=st.integers(100, 999),
    headers=st.lists(st.tuples(st.sampled_from(REPLY_HEADERS), VALUES | st.binary(max_size=9)), max_size=5),
    body=st.binary(max_size=50),
)
def test_any_head_of_the_engine(
    fuzz: Any, wire: Any, status: int, headers: list[tuple[str, bytes]], body: bytes
) -> None:
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers)
    fuzz.reply = b"HTTP/1.1 %d X\r\nConnection: close\r\n" % status + lines + b"\r\n" + body
    fuzz.whole = False
    back = wire.exchange(fuzz.url, GOOD.replace(b"Host: a", b"Connection: close\r\nHost: a"))
    assert back.startswith((b"HTTP/1.1 502 ", b"HTTP/1.1 %d " % (status if status in range(200, 600) else 502))), back
    stands(fuzz, wire)
