"""What goes over HTTP, in SGLang 0.5.23's shapes: JSON, errors, usage, event streams, and clients that went away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from concur_agents.emulator.problems import BadRequestError

__all__ = ["EventStream", "Json", "body_of", "error", "gone", "usage"]


class Json(Response):
    """A JSON body, in one line."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode the body."""
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def error(problem: BadRequestError) -> Json:
    """The OpenAI-style error object."""
    return Json(
        {"object": "error", "message": str(problem), "type": problem.kind, "param": None, "code": problem.status},
        status_code=problem.status,
    )


async def body_of(request: Request, *, only_json: bool = False) -> dict[str, Any]:
    """The JSON object a client sent.

    Raises:
        BadRequestError: when it sent anything else.
    """
    if only_json and not request.headers.get("content-type", "").lower().startswith("application/json"):
        raise BadRequestError("Unsupported Media Type: Only 'application/json' is allowed", kind="Bad Request")
    try:
        raw = await request.body()
    except ClientDisconnect as problem:
        raise BadRequestError("the client went away", kind="Bad Request") from problem
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as problem:
        raise BadRequestError(f"JSON decode error: {problem}", kind="Bad Request") from problem
    if not isinstance(data, dict):
        raise BadRequestError(f"Input should be a dictionary, got {type(data).__name__}", kind="Bad Request")
    return data


def usage(prompt: int, completion: int, cached: int | None) -> dict[str, Any]:
    """SGLang's usage object; ``cached`` None where the cache report is off."""
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


async def gone(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events, one JSON object each, and ``[DONE]``.

    Args:
        events: the objects.
        on_gone: called when the client leaves before the end.
        named: each event has its object's ``type`` for a name, and the last one ends the stream, not ``[DONE]``.
    """

    def __init__(
        self,
        events: AsyncIterator[dict[str, Any]],
        on_gone: Callable[[], None] | None = None,
        *,
        named: bool = False,
    ) -> None:
        super().__init__(media_type="text/event-stream")
        self._events = events
        self._on_gone = on_gone
        self._named = named
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002, the ASGI signature
        """Send until the end, or until nobody listens."""
        pump = asyncio.ensure_future(self._pump(send))
        watch = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait((pump, watch), return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
        finally:
            finished = pump.done() and not pump.cancelled() and pump.exception() is None
            for task in (pump, watch):
                task.cancel()
            await asyncio.gather(pump, watch, return_exceptions=True)
            if not finished and self._on_gone is not None:
                self._on_gone()

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for event in self._events:
            name = f"event: {event['type']}\n" if self._named else ""
            line = f"{name}data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n"
            await send({"type": "http.response.body", "body": line.encode("utf-8", "replace"), "more_body": True})
        last = b"" if self._named else b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": last, "more_body": False})
