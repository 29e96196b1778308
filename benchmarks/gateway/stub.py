"""An engine that costs nothing, so that what stands before it is measured: ``python -m benchmarks.gateway.stub PORT``.

``/v1/chat/completions`` has one fixed reply with its usage; with ``"stream": true`` it is :data:`EVENTS` events, one
every :data:`EVENT_S` seconds. Each carries the request's ``user``, so that no stream can be taken for another one.
``/metrics`` is a little of SGLang's. Bodies need a Content-Length.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Final

__all__ = ["EVENTS", "EVENT_S", "PROMPT_TOKENS", "StubEngine", "StubProtocol", "streamed"]

EVENTS: Final = 50
EVENT_S: Final = 0.02
PROMPT_TOKENS: Final = 5_000
_CACHED: Final = 4_900
_OUTPUT: Final = 60
# So many tokens that no law has anybody wait: the cost of asking is measured, not that of queueing.
_POOL: Final = 10**9
_BACKLOG: Final = 4096
_MOST_HEAD: Final = 65_536

_USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": _OUTPUT,
    "total_tokens": PROMPT_TOKENS + _OUTPUT,
    "prompt_tokens_details": {"cached_tokens": _CACHED},
}
_CALL = {"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
_CHOICE = {
    "index": 0,
    "finish_reason": "tool_calls",
    "message": {"role": "assistant", "content": None, "tool_calls": [_CALL]},
}
_REPLY = {"id": "chat", "object": "chat.completion", "created": 0, "model": "stub", "choices": [_CHOICE]}
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream": ?true')
_USER = re.compile(rb'"user": ?"([\w.-]+)"')


def _answer(status: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_CHAT = _answer("200 OK", json.dumps(_REPLY | {"usage": _USAGE}).encode())
_NONE = _answer("404 Not Found", b"{}")
_OK = _answer("200 OK", b"{}")
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def events(user: str) -> Iterator[bytes]:
    """The events of a stream, one after the other; the last has the usage and the end."""
    for number in range(EVENTS):
        delta = {"index": 0, "delta": {"content": f"word{number} "}, "finish_reason": None}
        yield _event({"id": user, "object": "chat.completion.chunk", "model": "stub", "choices": [delta]})
    last = {"id": user, "object": "chat.completion.chunk", "model": "stub", "choices": [], "usage": _USAGE}
    yield _event(last) + b"data: [DONE]\n\n"


def streamed(user: str) -> bytes:
    """All that a client must have got once its stream is over."""
    return b"".join(events(user))


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


# Made once; a stream's own differ only by its name.
_MARK = "<user>"
_TEMPLATE = tuple(each.split(_MARK.encode()) for each in events(_MARK))


class StubEngine:
    """What all connections share."""

    def __init__(self) -> None:
        self.requests = 0
        self.streams: dict[StubProtocol, Iterator[bytes]] = {}
        """Events still to come."""

    def step(self) -> None:
        """Send every stream's next event."""
        for connection, left in list(self.streams.items()):
            event = next(left, None)
            if event is None:
                del self.streams[connection]
                connection.end_stream()
            else:
                connection.send_chunk(event)

    async def run(self) -> None:
        """Have the streams go on, until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + EVENT_S, loop.time())  # late ones are not made up for in one go
            await asyncio.sleep(due - loop.time())
            self.step()

    def metrics(self) -> bytes:
        """A little of SGLang's, of an engine that has room."""
        values = {
            "max_total_num_tokens": _POOL,
            "token_usage": 0.0,
            "kv_evictable_tokens": 0,
            "kv_available_tokens": _POOL,
            "num_running_reqs": len(self.streams),
            "num_queue_reqs": 0,
            "prompt_tokens_total": self.requests * PROMPT_TOKENS,
            "cached_tokens_total": self.requests * _CACHED,
            "generation_tokens_total": self.requests * _OUTPUT,
        }
        lines = [f'sglang:{name}{{model_name="stub"}} {value}\n' for name, value in values.items()]
        return _answer("200 OK", "".join(lines).encode(), "text/plain; version=0.0.4")


class StubProtocol(asyncio.Protocol):
    """One connection; requests sent ahead wait for the reply before them.

    Args:
        engine: what all connections share.
    """

    def __init__(self, engine: StubEngine) -> None:
        self._engine = engine
        self._transport: asyncio.Transport | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Asyncio's."""
        self._transport = None
        self._engine.streams.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Asyncio's."""
        self._data += data
        self._serve()

    def send_chunk(self, data: bytes) -> None:
        """Send a part of a stream."""
        if self._transport is not None:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        """The stream is over; go on with what was sent ahead."""
        if self._transport is not None:
            self._transport.write(b"0\r\n\r\n")
            self._serve()

    def _serve(self) -> None:
        while self._transport is not None and self not in self._engine.streams:
            at = self._data.find(b"\r\n\r\n")
            head = self._data[:at] if at >= 0 else self._data
            if len(head) > _MOST_HEAD or b"\r\ntransfer-encoding:" in head.lower():
                self._transport.write(_answer("411 Length Required", b"{}"))
                self._transport.close()
                return
            length = _LENGTH.search(head)
            end = at + 4 + (int(length[1]) if length else 0)
            if at < 0 or len(self._data) < end:
                return
            body, self._data = self._data[at + 4 : end], self._data[end:]
            self._reply(head, body)

    def _reply(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None  # noqa: S101
        method, path, *_ = head.split(b" ", 2)
        if method == b"POST" and path == b"/v1/chat/completions":
            self._engine.requests += 1
            if _STREAM.search(body):
                user = _USER.search(body)
                name = user[1] if user else b""
                self._transport.write(_STREAM_HEAD)
                self._engine.streams[self] = iter([name.join(parts) for parts in _TEMPLATE])
                return
            reply = _CHAT
        elif path == b"/metrics":
            reply = self._engine.metrics()
        else:
            reply = _OK if path == b"/health" else _NONE
        self._transport.write(reply)
        if b"\r\nconnection: close" in head.lower():
            self._transport.close()


async def main(port: int) -> None:
    """Serve until cancelled."""
    engine = StubEngine()
    server = await asyncio.get_running_loop().create_server(
        lambda: StubProtocol(engine), "127.0.0.1", port, backlog=_BACKLOG
    )
    async with server:
        await engine.run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1])))
