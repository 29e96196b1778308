"""``/v1/messages`` and ``/v1/messages/count_tokens``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from concur_agents.emulator.chat import check_limit
from concur_agents.emulator.fields import chosen_tools, flag, session_of
from concur_agents.emulator.messages.errors import INVALID, refusal
from concur_agents.emulator.messages.reply import MessageReply, broken
from concur_agents.emulator.messages.request import Asked, read
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.radix import TOKEN_BYTES
from concur_agents.emulator.scripts import count_turns, opening
from concur_agents.emulator.service import Service
from concur_agents.emulator.turns import Turn, render, wait_for
from concur_agents.emulator.wire import EventStream, Json, body_of

__all__ = ["count_tokens", "create_message"]


async def create_message(request: Request) -> Response:
    """One message of the assistant, whole or as a stream."""
    try:
        body = await body_of(request, only_json=True)
        return await _create(request, body, read(body, inline=_inline(request)))
    except BadRequestError as problem:
        return refusal(problem)


async def count_tokens(request: Request) -> Response:
    """How long the prompt of a message would be."""
    try:
        asked = read(await body_of(request, only_json=True), inline=_inline(request), counted=True)
        return Json({"input_tokens": len(_prompt(request.app.state.service, asked)) // TOKEN_BYTES})
    except BadRequestError as problem:
        return refusal(problem)


async def _create(request: Request, body: Mapping[str, Any], asked: Asked) -> Response:
    service: Service = request.app.state.service
    try:
        check_limit(service, asked.max_tokens)
    except BadRequestError as problem:
        raise BadRequestError(str(problem), kind=INVALID) from problem
    if not asked.messages:
        raise BadRequestError("Messages cannot be empty.", kind=INVALID)
    prompt = _prompt(service, asked)
    scripted = service.scripts.reply(session_of(request, body), count_turns(asked.messages), opening(asked.messages))
    streaming = flag(body, "stream")
    try:
        answer = service.start(prompt, max_tokens=asked.max_tokens, streaming=streaming, scripted=scripted)
    except BadRequestError as problem:
        if streaming:
            return EventStream(broken(asked.model, problem), named=True)  # SGLang asks its engine once it streams
        raise
    reply = MessageReply(Turn(service, answer), asked.model)
    if streaming:
        return EventStream(reply.events(), reply.turn.release, named=True)
    await wait_for(request, service, answer)
    return Json(reply.whole())


def _inline(request: Request) -> bool:
    service: Service = request.app.state.service
    return service.tokenizer.system_anywhere


def _prompt(service: Service, asked: Asked) -> bytes:
    try:
        return render(service, asked.messages, chosen_tools(asked.tools, asked.tool_choice))
    except BadRequestError as problem:
        raise BadRequestError(str(problem), kind=INVALID) from problem
