"""What stands in front of the emulated engine: it notes what is executed, and does wrong what the plan says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchmarks.chaos.asking import FIELD, HEADER, Whose
from benchmarks.chaos.plan import EnginePlan

__all__ = ["DROP", "FaultyEngine"]

DROP = "/chaos/drop"
"""A request for this drops every connection on which one is being answered, its own too."""
STALLS_S = {"stall": 2.0, "long stall": 8.0}
_CUT_AT = 40
"""Bytes of a reply's body that come before it is cut."""
_ABOUT = ("/metrics", "/server_info", "/get_server_info")


class FaultyEngine:
    """An ASGI application around the engine's, behind uvicorn.

    Args:
        app: the engine's.
        plan: says which steps go wrong, each when it is first executed.
        notes: stream for what is executed, line by line.
        metrics: file with the name of what is wrong with the metrics; empty or not there for nothing.
    """

    def __init__(self, app: ASGIApp, plan: EnginePlan, notes: TextIO, metrics: Path) -> None:
        self._app = app
        self._plan = plan
        self._notes = notes
        self._metrics = metrics
        self._count = 0
        self._seen: set[tuple[str, int]] = set()
        self._open: set[_Connection] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's entry."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = _Connection(receive, send)
        self._open.add(connection)
        try:
            if scope["path"] == DROP:
                self._drop()
            elif scope["path"] in _ABOUT:
                await self._about(scope, connection)
            elif scope["method"] == "POST":
                await self._execute(scope, connection)
            else:
                await self._app(scope, connection.receive, connection.send)
        finally:
            self._open.discard(connection)

    def _drop(self) -> None:
        for connection in tuple(self._open):
            connection.drop()

    # --- executions ---

    async def _execute(self, scope: Scope, connection: _Connection) -> None:
        whose = await _whose(connection)
        if whose is None:
            await self._app(scope, connection.receive, connection.send)
            return
        self._count += 1
        number = self._count
        step = self._plan.step(whose.agent, whose.step)
        first = (whose.agent, whose.step) not in self._seen
        self._seen.add((whose.agent, whose.step))
        self._note("begin", number, agent=whose.agent, step=whose.step, attempt=whose.attempt)
        connection.on_answered = lambda: self._note("end", number, cut=False)
        try:
            await self._answer(scope, connection, whose, step.fault if step is not None and first else None)
        finally:
            if not connection.answered:
                self._note("end", number, cut=True)

    async def _answer(self, scope: Scope, connection: _Connection, whose: Whose, fault: str | None) -> None:
        if fault == "drop":
            connection.drop()
        elif fault == "error" or fault == "busy":
            await connection.reply(500 if fault == "error" else 503, b'{"error": {"message": "chaos"}}')
        elif fault == "cut":
            with contextlib.suppress(_CutError):
                await self._app(scope, connection.receive, connection.cutting(_CUT_AT))
            connection.drop()
        else:
            if fault in STALLS_S and await connection.gone_within(STALLS_S[fault]):
                return
            await self._app(scope, connection.receive, connection.adding((HEADER.encode(), str(whose).encode())))

    def _note(self, what: str, number: int, **more: object) -> None:
        self._notes.write(json.dumps({"what": what, "id": number, "at_s": time.monotonic(), **more}) + "\n")

    # --- metrics ---

    async def _about(self, scope: Scope, connection: _Connection) -> None:
        with contextlib.suppress(OSError):
            match self._metrics.read_text():
                case "hang":
                    await connection.gone_within(3600)
                    return
                case "drop":
                    connection.drop()
                    return
                case "gone":
                    await connection.reply(404, b'{"detail":"Not Found"}')
                    return
                case "error":
                    await connection.reply(500, b"Internal Server Error")
                    return
                case "empty":
                    await connection.reply(200, b"")
                    return
                case "html":
                    await connection.reply(200, b"<html><body>502 Bad Gateway</body></html>")
                    return
                case "half":
                    await connection.changed(self._app, scope, lambda body: body[: len(body) // 2])
                    return
                case "nan":
                    await connection.changed(self._app, scope, _nonsense)
                    return
                case _:
                    pass
        await self._app(scope, connection.receive, connection.send)


class _CutError(Exception):
    """Enough of the reply was sent."""


class _Connection:
    """One request's side of a uvicorn connection. What ASGI cannot do is done to its transport."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._transport: Any = getattr(send, "__self__").transport  # noqa: B009 - of uvicorn, which ASGI hides
        self._replay: list[Message] = []
        self.answered = False
        """Whether the whole reply was sent, and the client was there."""
        self.on_answered: Callable[[], None] = lambda: None
        """Called before the client can know."""

    def drop(self) -> None:
        """Drop the connection, whatever was to come."""
        self._transport.abort()

    async def body(self) -> bytes:
        """The request's body, which the application gets again."""
        chunks = []
        while True:
            message = await self._receive()
            self._replay.append(message)
            chunks.append(message.get("body", b""))
            if message["type"] != "http.request" or not message.get("more_body", False):
                return b"".join(chunks)

    async def receive(self) -> Message:
        """ASGI's."""
        return self._replay.pop(0) if self._replay else await self._receive()

    async def send(self, message: Message) -> None:
        """ASGI's."""
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last and not self._transport.is_closing():
            self.answered = True
            self.on_answered()
        await self._send(message)

    def adding(self, header: tuple[bytes, bytes]) -> Send:
        """A ``send`` with one more header."""

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await self.send(message)

        return send

    def cutting(self, at: int) -> Send:
        """A ``send`` that sends no more than so many bytes of a body, and then raises."""
        left = at

        async def send(message: Message) -> None:
            nonlocal left
            if message["type"] == "http.response.body":
                chunk = message.get("body", b"")[:left]
                left -= len(chunk)
                await self._send({**message, "body": chunk, "more_body": True})
                if left == 0 or not message.get("more_body", False):
                    raise _CutError
            else:
                await self._send(message)

        return send

    async def reply(self, status: int, body: bytes) -> None:
        """Answer in the engine's place."""
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def changed(self, app: ASGIApp, scope: Scope, change: Callable[[bytes], bytes]) -> None:
        """Answer with the application's reply, changed."""
        body = b""

        async def send(message: Message) -> None:
            nonlocal body
            body += message.get("body", b"")

        await app(scope, self.receive, send)
        await self.reply(200, change(body))

    async def gone_within(self, seconds: float) -> bool:
        """Whether the client hangs up in that time; the body has been read."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while (await self._receive())["type"] != "http.disconnect":
                    pass
                return True
        return False


async def _whose(connection: _Connection) -> Whose | None:
    try:
        said = json.loads(await connection.body())[FIELD]
        return Whose(str(said["agent"]), int(said["step"]), int(said["attempt"]))
    except (ValueError, TypeError, KeyError):
        return None


def _nonsense(body: bytes) -> bytes:
    """Every number of a metrics page is one that cannot be."""
    values = (b"NaN", b"-1", b"+Inf", b"1e308")
    lines = body.split(b"\n")
    return b"\n".join(
        line if not line or line.startswith(b"#") else re.sub(rb" \S+$", b" " + values[number % 4], line)
        for number, line in enumerate(lines)
    )
