"""``/v1/responses``."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from concur_agents.emulator.fields import SCHEMA, flag, session_of
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.responses.history import chat_of, turns_in
from concur_agents.emulator.responses.reply import ResponseReply
from concur_agents.emulator.responses.request import Asked, read, store_disabled
from concur_agents.emulator.responses.stream import broken, events
from concur_agents.emulator.scripts import opening
from concur_agents.emulator.service import Service
from concur_agents.emulator.turns import Turn, render, wait_for
from concur_agents.emulator.wire import EventStream, Json, body_of

__all__ = ["create_response", "no_store"]

_HEADROOM = 2  # tokens that SGLang takes off a limit that the client sets


async def create_response(request: Request) -> Response:
    """One response, whole or as a stream."""
    service: Service = request.app.state.service
    try:
        body = await body_of(request, only_json=True)
        return await _create(request, body, read(body, service.config.model))
    except BadRequestError as problem:
        return _refusal(problem)


async def no_store(request: Request) -> Response:  # noqa: ARG001, the handler's signature
    """Asking for an earlier response: a server without ``--enable-response-store`` keeps none."""
    return _refusal(store_disabled("response_id"))


async def _create(request: Request, body: Mapping[str, Any], asked: Asked) -> Response:
    service: Service = request.app.state.service
    messages = chat_of(asked.instructions, asked.items, inline=service.tokenizer.system_anywhere)
    prompt = render(service, messages, asked.shown_tools)
    scripted = service.scripts.reply(session_of(request, body), turns_in(messages), opening(messages))
    streaming = flag(body, "stream")
    try:
        answer = service.start(
            prompt,
            max_tokens=None if asked.max_tokens is None else asked.max_tokens - _HEADROOM,
            rid=asked.response_id,
            streaming=streaming,
            scripted=scripted,
        )
    except BadRequestError as problem:
        if streaming:
            return EventStream(broken(asked, problem), named=True)  # SGLang asks its engine once it streams
        raise
    reply = ResponseReply(Turn(service, answer), asked)
    if streaming:
        return EventStream(events(reply), reply.turn.release, named=True)
    await wait_for(request, service, answer)
    return Json(reply.whole())


def _refusal(problem: BadRequestError) -> Json:
    message, status = str(problem), problem.status
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # Whatever goes wrong in its engine, SGLang blames the request.
        message, status = f"{status}: {message}", HTTPStatus.BAD_REQUEST.value
    kind = problem.kind if problem.kind == SCHEMA else "invalid_request_error"
    return Json(
        {"error": {"message": message, "type": kind, "param": problem.param, "code": status}}, status_code=status
    )
