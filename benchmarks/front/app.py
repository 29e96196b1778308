"""The front as an ASGI application: chats get a script's words and an engine's work; all else goes to the engine."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from benchmarks.front.prompts import CHARACTERS, Prompts, digest
from benchmarks.front.replies import Talk
from benchmarks.front.source import Part, Source
from concur_agents.emulator.control import delete_script, post_script
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.scripts import ScriptStore, count_turns, opening
from concur_agents.emulator.wire import EventStream, Json, body_of, error, gone

__all__ = ["create_app"]

METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH"]
HOPS = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers of a connection, not of what goes over it."""
KEPT = 4096
"""Outputs that went past and wait to be asked for."""
CLIENT_LEFT = 499


@dataclass(slots=True)
class _Front:
    """What the handlers share. Has ``scripts`` where the emulator's handlers look for it."""

    source: Source
    prompts: Prompts
    scripts: ScriptStore = field(default_factory=ScriptStore)
    passed: OrderedDict[bytes, Sequence[int]] = field(default_factory=OrderedDict)
    """By prompt: the outputs of generations that a proxy sent to the engine by way of this front."""

    def keep(self, prompt: Sequence[int], ids: Sequence[int]) -> None:
        """An output went past."""
        self.passed[digest(prompt)] = ids
        if len(self.passed) > KEPT:
            self.passed.popitem(last=False)

    def generated(self, prompt: Sequence[int], part: Part) -> Sequence[int]:
        """What a generation that has ended put into the engine's cache."""
        return self.passed.pop(digest(prompt), part.ids)


def create_app(url: str, *, characters: int = CHARACTERS, through: str | None = None) -> Starlette:
    """A front before the SGLang server, or emulator, at ``url``.

    Args:
        url: of the engine.
        characters: of a chat's text in one token, see :class:`~benchmarks.front.prompts.Prompts`.
        through: of a proxy before the engine that takes completions of token ids; chats then go through it. It has to
            send its generations to this front's ``/generate``, which passes them on and sees what comes.

    Raises:
        ValueError: ``characters`` is no multiple of 4.
    """
    front = _Front(Source(url, through), Prompts(characters))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with front.source:
            yield

    app = Starlette(
        routes=[
            Route("/v1/chat/completions", _chat, methods=["POST"]),
            Route("/emulator/scripts", post_script, methods=["POST"]),
            Route("/emulator/scripts/{session_id:path}", delete_script, methods=["DELETE"]),
            Route("/{path:path}", _passed, methods=METHODS),
        ],
        exception_handlers={BadRequestError: _refused},
        lifespan=lifespan,
    )
    app.state.service = front
    return app


async def _chat(request: Request) -> Response:
    front: _Front = request.app.state.service
    body = await body_of(request)
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        raise BadRequestError("messages: Input should be a valid list of objects", kind="Bad Request")
    session = request.headers.get("x-session-id") or body.get("session_id") or body.get("user")
    turn = count_turns(messages)
    scripted = front.scripts.reply(session, turn, opening(messages))
    if scripted is None:
        raise BadRequestError(f"there is no script for turn {turn} of session {session!r}: POST /emulator/scripts")
    try:
        prompt = front.prompts.ids(messages, body.get("tools"))
    except ValueError as problem:
        raise BadRequestError(str(problem)) from problem
    said = scripted.reply
    own = sum(map(len, (said.content or "", *(text for call in said.tool_calls for text in call)))) // CHARACTERS
    tokens = front.prompts.length(scripted.output_tokens or own)
    talk = Talk(said, tokens, body)
    stream = bool(body.get("stream"))
    model, headers = str(body.get("model", "")), _of_the_message(request)
    parts = front.source.generate(prompt, tokens, model, headers, stream=stream)
    parts = _remembering(front, prompt, talk, parts)
    if stream:
        return EventStream(_told(talk.events(parts)))
    last = await _unless_gone(request, parts)
    return Response(status_code=CLIENT_LEFT) if last is None else Json(talk.whole(last))


async def _remembering(
    front: _Front, prompt: Sequence[int], talk: Talk, parts: AsyncGenerator[Part, None]
) -> AsyncGenerator[Part, None]:
    async with aclosing(parts):
        async for part in parts:
            if part.reason is not None and talk.complete(part):
                front.prompts.said(prompt, talk.message(part), front.generated(prompt, part))
            yield part


async def _unless_gone(request: Request, parts: AsyncGenerator[Part, None]) -> Part | None:
    """The last part; None where the client leaves before it, which ends the generation."""

    async def last() -> Part:
        async with aclosing(parts):
            async for part in parts:
                if part.reason is not None:
                    return part
        raise BadRequestError("the engine broke off", status=502, kind="502")

    work, left = asyncio.ensure_future(last()), asyncio.ensure_future(gone(request.receive))
    try:
        await asyncio.wait((work, left), return_when=asyncio.FIRST_COMPLETED)
        return await work if work.done() else None
    finally:
        for task in (work, left):
            task.cancel()
        await asyncio.gather(work, left, return_exceptions=True)


async def _told(events: AsyncGenerator[dict[str, Any], None]) -> AsyncIterator[dict[str, Any]]:
    """A stream has begun by the time that the engine refuses: it says so in an event, as SGLang does."""
    try:
        async with aclosing(events):
            async for event in events:
                yield event
    except BadRequestError as problem:
        yield {"error": {"object": "error", "message": str(problem), "type": problem.kind, "code": problem.status}}


async def _passed(request: Request) -> Response:
    front: _Front = request.app.state.service
    path, source = request.url.path, front.source
    base = source.through if source.through is not None and path == "/v1/completions" else source.url
    target = f"{base}{path}?{request.url.query}" if request.url.query else f"{base}{path}"
    body = await request.body()
    try:
        response = await source.client.request(
            request.method, target, data=body or None, headers=_of_the_message(request), allow_redirects=False
        )
    except (aiohttp.ClientError, OSError) as problem:
        raise BadRequestError(f"{target}: {problem!r}", status=502, kind="502") from problem
    headers = {name: value for name, value in response.headers.items() if name.lower() not in HOPS}
    watched = source.through is not None and path == "/generate" and response.status == 200
    content = _watched(front, body, response) if watched else _content(response)
    return StreamingResponse(content, response.status, headers)


async def _content(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        async for chunk in response.content.iter_any():
            yield chunk


async def _watched(front: _Front, body: bytes, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The same, of a generation: its output is kept before its client can know that it is over."""
    line = b""
    async for chunk in _content(response):
        lines = (line + chunk).splitlines(keepends=True)
        for each in lines:
            _keep_output(front, body, each)
        line = lines[-1] if lines and not lines[-1].endswith(b"\n") else b""
        yield chunk


def _keep_output(front: _Front, body: bytes, line: bytes) -> None:
    try:
        answer = json.loads(line.removeprefix(b"data:"))
        if answer["meta_info"]["finish_reason"] is not None:
            front.keep(json.loads(body)["input_ids"], answer["output_ids"])
    except (ValueError, LookupError, TypeError):
        return  # not yet all of it, or none of ours


def _of_the_message(request: Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name not in HOPS}


async def _refused(request: Request, problem: Exception) -> Response:  # noqa: ARG001, the handler's signature
    if not isinstance(problem, BadRequestError):  # registered for nothing else
        raise problem
    return error(problem)
