"""The desk's operations as HTTP requests, so that plain curl can use them. Knows nothing of the server."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from concur_agents.remote.desk import Desk
from concur_agents.remote.protocol import Kind, RefusedError, refusal

__all__ = ["PROTOCOL_HEADER", "Service"]

PROTOCOL_HEADER: Final = "concur-protocol"
"""Names what a worker understands. A header, since controllers that do not know it pass it over."""

_BASE = "/concur/v1/"
# A registration of 100,000 agents is some 20 MB.
_LONGEST_BODY = 32 * 2**20
_STATUS: Final = {
    Kind.INVALID: 400,
    Kind.UNAUTHORIZED: 401,
    Kind.UNKNOWN_AGENT: 404,
    Kind.FINISHED: 409,
    Kind.TAKEN: 409,
    Kind.LIFECYCLE: 409,
    Kind.UNKNOWN_WORKER: 409,
    Kind.FULL: 503,
    Kind.CLOSED: 503,
    Kind.FAILED: 500,
}
_OF_AGENTS = ("admit", "resume", "pause", "park", "withdraw", "finish", "observe")
_OF_WORKERS = ("register", "heartbeat", "leave", "refused")
_SEEING = ("agents", "stats", "history", "events")
_WHOLE = ("after", "limit", "offset")
_NOT_FOUND: Final = (
    f"no such address: POST {_BASE}agents/ID/{{{'|'.join(_OF_AGENTS)}}}, POST {_BASE}workers/ID/"
    f"{{{'|'.join(_OF_WORKERS)}}}, GET {_BASE}{{{'|'.join(_SEEING)}}}, GET or DELETE {_BASE}agents/ID;"
    " an ID's slashes are %2F"
)


class Service:
    """Takes requests to a desk's operations.

    Args:
        desk: answers them.
        token: whoever asks must have it (``Authorization: Bearer TOKEN``); None for nobody.
    """

    def __init__(self, desk: Desk, token: str | None = None) -> None:
        self._desk = desk
        self._token = None if token is None else f"Bearer {token}".encode()

    async def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: Callable[[int], Awaitable[bytes]]
    ) -> tuple[int, dict[str, Any]]:
        """Status and answer of one request.

        Args:
            method: of HTTP.
            path: as it was sent, with its query: an id may hold an encoded slash.
            headers: looked up whatever their case.
            body: reads it; raises RefusedError when it has more bytes than told.
        """
        desk = self._desk
        try:
            self._check_token(headers.get("authorization", ""))
            path, _, query = path.partition("?")
            operation, named = _operation(method, path, query)
            values = _parsed(await body(_LONGEST_BODY)) if method == "POST" else {}
            for name, value in named.items():
                if values.setdefault(name, value) != value:
                    raise RefusedError(Kind.INVALID, f"{name} is {value!r:.80} in the address and another in the body")
            key = headers.get("idempotency-key")
            if key is not None and operation in _OF_AGENTS:
                values.setdefault("key", key)
            if operation == "register":
                values.setdefault("protocol", _protocol(headers.get(PROTOCOL_HEADER, "")))
        except RefusedError as refused:
            answer = refusal(refused.kind, refused.message) | {"controller": desk.incarnation}
        else:
            answer = await desk.handle(operation, values)
        error = answer.get("error")
        return (200 if error is None else _STATUS.get(error["kind"], 500)), answer

    def _check_token(self, given: str) -> None:
        if self._token is not None and not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token):
            raise RefusedError(Kind.UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN")


def _operation(method: str, path: str, query: str) -> tuple[str, dict[str, Any]]:
    """What is asked, and whose name the address has."""
    parts = path.removeprefix(_BASE).split("/") if path.startswith(_BASE) else []
    match method, parts:
        case "GET", [what] if what in _SEEING:
            return what, _query(query)
        case "GET", ["agents", agent]:
            return "agent", {"agent": _name(agent)}
        case "DELETE", ["agents", agent]:
            return "finish", {"agent": _name(agent)} | _query(query)
        case "POST", ["agents", agent, what] if what in _OF_AGENTS:
            return what, {"agent": _name(agent)}
        case "POST", ["workers", worker, what] if what in _OF_WORKERS:
            return what, {"worker": _name(worker)}
    raise RefusedError(Kind.INVALID, f"{method} {path!r:.200}: {_NOT_FOUND}")


def _protocol(header: str) -> int:
    return int(header) if header.isascii() and header.isdecimal() and 0 < len(header) < 10 and int(header) else 1


def _name(encoded: str) -> str:
    # Half a character is a name too.
    return unquote_to_bytes(encoded).decode("utf-8", errors="surrogatepass" if "%" in encoded else "replace")


def _query(query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20)
    except ValueError as error:
        raise RefusedError(Kind.INVALID, f"the query is none: {error}") from None
    for name, value in pairs:
        short = value.isascii() and len(value) < 17
        if name in _WHOLE and short and value.isdecimal():
            found[name] = int(value)
        elif name == "wait_s" and short and value.replace(".", "", 1).isdecimal():
            found[name] = float(value)
        else:
            found[name] = value
    return found


def _parsed(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RefusedError(Kind.INVALID, f"the body must be JSON: {error}") from None
    if not isinstance(body, dict):
        raise RefusedError(Kind.INVALID, f"the body must be a JSON object, got {body!r:.80}")
    return body
