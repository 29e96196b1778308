"""One HTTP exchange with a client: its request, read within bounds, and whatever is sent back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from concur_agents.gateway.bodies import Body
from concur_agents.gateway.upstream import Upstream

__all__ = ["ClientGoneError", "Exchange", "Held", "Refusal"]

# Of the connection and not of the message (RFC 9110, 7.6.1); each side of a proxy has its own.
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)
# What h11 lets pass and no engine would take.
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# The client's library computes its own; a 100 Continue was sent already.
_REPLACED = frozenset((b"host", b"content-length", b"expect"))


class ClientGoneError(Exception):
    """The client hung up."""


class Refusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """The gateway answers in the engine's place.

    Args:
        status: HTTP's.
        message: what is wrong, for a person.
        kind: OpenAI's ``type`` of an error.
        retry_after: seconds after which to ask again; None where that does not help.
    """

    def __init__(self, status: int, message: str, kind: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status: Final = status
        self.kind: Final = kind
        self.retry_after: Final = retry_after

    def body(self, path: str) -> bytes:
        """In the shape that clients of that path expect."""
        error: dict[str, Any] = {"type": self.kind, "message": str(self)}
        if path.startswith("/v1/messages"):
            return json.dumps({"type": "error", "error": error}).encode()
        return json.dumps({"error": {"message": str(self), "type": self.kind, "param": None, "code": None}}).encode()


class Held:
    """Bytes of bodies in memory, of all requests together."""

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self._most = most

    def take(self, size: int) -> bool:
        """Hold so many more; False when that would be too many."""
        if self.bytes + size > self._most:
            return False
        self.bytes += size
        return True

    def give(self, size: int) -> None:
        """Hold so many fewer."""
        self.bytes -= size


class Exchange:
    """A client's request and its reply.

    Args:
        scope: ASGI's.
        receive: ASGI's.
        send: ASGI's.
        held: where its body counts.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, held: Held) -> None:
        self._receive = receive
        self._send = send
        self._held = held
        self._size = 0
        self.method: Final[str] = scope["method"]
        self.path: Final[str] = scope["path"]
        self.raw_path: Final[str] = _ascii(scope.get("raw_path") or scope["path"].encode())
        self.query: Final[str] = _ascii(scope["query_string"])
        self.body = Body(b"")
        self.upstream: Upstream | None = None
        """The engine that has the request, or is to have it."""
        self.begun = False
        """The reply's head has been sent: its status can no longer be changed."""
        self.ended = False
        """All of the reply has been sent, or it was cut."""
        self.streams = False
        """Whether the client asked for a stream; told by whoever parsed the body."""
        self._raw: list[tuple[bytes, bytes]] = scope["headers"]
        self.headers: Final = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._raw}
        """By lower-case name; of several of one name the last."""

    # --- the request ---

    @property
    def forwarded(self) -> list[tuple[str, str]]:
        """The headers that go to the engine: all but the connection's own."""
        # Once the reply has begun, its head cannot say any more that its body is compressed.
        left_out = _REPLACED | {b"accept-encoding"} if self.begun else _REPLACED
        return [(name.decode("latin-1"), _text(value)) for name, value in _end_to_end(self._raw, left_out)]

    @property
    def has_body(self) -> bool:
        """Whether the client sent one, be it empty."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    async def read(self, most: int) -> None:
        """Read the body.

        Raises:
            Refusal: it is longer than ``most`` bytes, or than what is left for all; or the head is none to pass on.
            ClientGoneError: the client hung up on the way.
        """
        self._check_head()
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > most:
            raise self._too_large(most)
        chunks: list[bytes] = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            chunk = message.get("body", b"")
            if self._size + len(chunk) > most:
                raise self._too_large(most)
            if not self._held.take(len(chunk)):
                raise Refusal(503, "the gateway holds too many large requests", "server_error", 5)
            self._size += len(chunk)
            chunks.append(chunk)
            more = message.get("more_body", False)
        self.body = Body(b"".join(chunks))

    def sent(self) -> None:
        """The engine has the request: its body need not be kept while the reply is generated."""
        self.body = Body(b"")
        self.close()

    async def gone(self) -> None:
        """Return when the client hangs up. After :meth:`read`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        """The body is held no longer. Idempotent."""
        self._held.give(self._size)
        self._size = 0

    # --- the reply ---

    async def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the reply's head; of an engine's headers all but the connection's own."""
        self.begun = True
        kept = _end_to_end(headers, frozenset())
        await self._send({"type": "http.response.start", "status": status, "headers": kept})

    async def more(self, chunk: bytes) -> None:
        """Send some of the body."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        """Send the last of the body."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    def cut(self) -> None:
        """Send no more, though there was to be more: the server then cuts the connection."""
        self.ended = True

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with it. A reply that has begun as a stream gets it as its last event; any other one, as its body."""
        body = refusal.body(self.path)
        if self.begun:
            await self.end(body if not self.streams else b"data: " + body + b"\n\ndata: [DONE]\n\n")
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if refusal.retry_after is not None:
            headers.append((b"retry-after", str(refusal.retry_after).encode()))
        await self.begin(refusal.status, headers)
        await self.end(body)

    def _check_head(self) -> None:
        # Anything else at its start would go on where the engine's address ends, and so lead to another server.
        if not self.raw_path.startswith("/") or "#" in self.raw_path + self.query:
            raise Refusal(400, "the request's target must be a path of the engine", "invalid_request_error")
        if any(_CONTROLS.search(value) for _, value in self._raw):
            raise Refusal(400, "the request's headers hold control characters", "invalid_request_error")
        if (
            self.headers.get("upgrade", "").lower() == "websocket"
            and "upgrade" in self.headers.get("connection", "").lower()
        ):
            raise Refusal(
                501, "WebSockets do not go through the gateway: ask the engine itself", "invalid_request_error"
            )

    def _too_large(self, most: int) -> Refusal:
        return Refusal(413, f"the body has more than {most} bytes, the most that is taken", "invalid_request_error")


def _end_to_end(headers: Iterable[tuple[bytes, bytes]], replaced: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
    headers = list(headers)
    named = {
        each.strip().lower() for name, value in headers if name.lower() == b"connection" for each in value.split(b",")
    }
    left_out = _HOP_BY_HOP | replaced | named
    return [(name, value) for name, value in headers if name.lower() not in left_out]


def _text(value: bytes) -> str:
    """As the client library will encode it again."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _ascii(raw: bytes) -> str:
    """Percent-encode what HTTP does not allow in a target, so that it cannot end one."""
    return "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in raw)
