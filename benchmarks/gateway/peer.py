"""A stand-in for a proxy of ThunderAgent's design: ``python -m benchmarks.gateway.peer PORT ENGINE``.

It is not ThunderAgent, and none of its code. The design: one process, an ASGI application on uvicorn, one
``httpx.AsyncClient`` without limits; a request is parsed, its program looked up in a table by ``program_id`` or
``X-Session-ID``, its length guessed, and what was parsed is written as JSON again for the engine; of the reply the
usage is read, in a stream event by event until one has it. Left out is what would cost more: FastAPI's layer above
Starlette, the access log, JSON written once more for the guess, and all scheduling.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

__all__ = ["Program", "build_app"]

_CHARACTERS_PER_TOKEN = 5
_OWN = ("content-length", "transfer-encoding", "connection")


@dataclass(slots=True)
class Program:
    """What is kept of an agent."""

    tokens: int = 0
    steps: int = 0
    generating: bool = False


def build_app(engine: str, programs: dict[str, Program]) -> Starlette:
    """The application in front of ``engine``; ``programs`` is its table."""
    client = httpx.AsyncClient(timeout=900, limits=httpx.Limits(max_connections=None, max_keepalive_connections=None))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    async def chat(request: Request) -> Response:
        raw = await request.body()
        payload = json.loads(raw)
        name = payload.pop("program_id", None) or request.headers.get("x-session-id", "default")
        program = programs.setdefault(str(name), Program())
        program.steps += 1
        program.generating = True
        program.tokens = len(raw) // _CHARACTERS_PER_TOKEN
        url = f"{engine}/v1/chat/completions"
        if not payload.get("stream"):
            reply = await client.post(url, json=payload)
            _answered(program, reply.json())
            return Response(reply.content, reply.status_code, _forwarded(reply))
        payload.setdefault("stream_options", {"include_usage": True})
        reply = await client.send(client.build_request("POST", url, json=payload), stream=True)
        return StreamingResponse(_events(reply, program), reply.status_code, _forwarded(reply))

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])], lifespan=lifespan)


async def _events(reply: httpx.Response, program: Program) -> AsyncIterator[bytes]:
    rest = b""
    try:
        async for chunk in reply.aiter_raw():
            *whole, rest = (rest + chunk).split(b"\n\n")
            for event in whole:
                data = event.removeprefix(b"data: ")
                if program.generating and data != b"[DONE]":
                    _answered(program, json.loads(data))
            yield chunk
    finally:
        await reply.aclose()


def _answered(program: Program, reply: dict[str, Any]) -> None:
    usage = reply.get("usage")
    if usage:
        program.tokens = usage["total_tokens"]
        program.generating = False


def _forwarded(reply: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in reply.headers.items() if name.lower() not in _OWN}


if __name__ == "__main__":
    uvicorn.run(
        build_app(sys.argv[2], {}), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False
    )
