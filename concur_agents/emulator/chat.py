"""``/v1/chat/completions``, whole or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from concur_agents.emulator.completions import Completion
from concur_agents.emulator.fields import chosen_tools, flag, integer, session_of, text
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.scripts import count_turns, opening
from concur_agents.emulator.service import Service
from concur_agents.emulator.turns import Call, Turn, render, wait_for
from concur_agents.emulator.wire import EventStream, Json, body_of

__all__ = ["chat_completions", "check_limit"]

NOTHING = {"role": None, "content": None, "reasoning_content": None}
"""What SGLang writes beside a tool call in a stream."""
ROLES = ("assistant", "developer", "function", "system", "tool", "user")


async def chat_completions(request: Request) -> Response:
    """One assistant message for a conversation."""
    service: Service = request.app.state.service
    body = await body_of(request, only_json=True)
    if body.get("n", 1) not in (1, None):
        raise BadRequestError("n must be 1 in the emulator, got {!r:.80}".format(body["n"]))
    messages = _messages(body)
    prompt = render(service, messages, _tools(body))
    max_tokens = integer(body, "max_completion_tokens")
    max_tokens = integer(body, "max_tokens") if max_tokens is None else max_tokens
    check_limit(service, max_tokens)
    streaming = flag(body, "stream")
    scripted = service.scripts.reply(session_of(request, body), count_turns(messages), opening(messages))
    try:
        answer = service.start(
            prompt,
            max_tokens=max_tokens,
            rid=text(body, "rid"),
            ignore_eos=flag(body, "ignore_eos"),
            streaming=streaming,
            scripted=scripted,
        )
    except BadRequestError as problem:
        if streaming and problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return EventStream(_failed(problem))  # SGLang has begun the stream by the time it knows
        raise
    talk = _Chat(Turn(service, answer), body)
    if streaming:
        return EventStream(talk.events(), talk.turn.release)
    await wait_for(request, service, answer)
    return Json(talk.whole())


def check_limit(service: Service, max_tokens: int | None) -> None:
    """Refuse a reply that no context holds.

    Raises:
        BadRequestError: it is too long.
    """
    longest = service.config.engine.context_length
    if max_tokens is not None and max_tokens > longest:
        raise BadRequestError(
            f"max_completion_tokens is too large: {max_tokens}.This model supports at most {longest} completion tokens."
        )


async def _failed(problem: BadRequestError) -> AsyncIterator[dict[str, Any]]:
    """The one event of a stream that could not begin, or go on."""
    kind = HTTPStatus(problem.status).name
    yield {"error": {"object": "error", "message": str(problem), "type": kind, "param": None, "code": problem.status}}


class _Chat(Completion):
    """One answer to ``/v1/chat/completions``."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        yield self.chunk({"delta": {"reasoning_content": None, "role": "assistant", "content": ""}}, None)
        async for thought, said in self.turn.deltas():
            if thought:
                yield self.chunk({"delta": {"reasoning_content": thought}}, None)
            if said:
                yield self.chunk({"delta": {"reasoning_content": None, "content": said}}, None)
        for index, call in enumerate(_calls(self.turn.calls)):
            function = call["function"]
            start = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
            yield self.chunk({"delta": {**NOTHING, "tool_calls": [start]}}, None)
            rest = {
                "id": None,
                "index": index,
                "type": "function",
                "function": {"name": None, "arguments": function["arguments"]},
            }
            yield self.chunk({"delta": {**NOTHING, "tool_calls": [rest]}}, None)
        self.turn.release()
        if (problem := self.turn.failure) is not None:
            async for event in _failed(problem):
                yield event
            return
        yield self.chunk({"delta": {"reasoning_content": None}}, self.turn.reason)
        if self.with_usage:
            yield {**self.head(self.chunk_kind), "choices": [], "usage": self.usage()}

    def content(self) -> dict[str, Any]:
        reasoning, said = self.turn.parts()
        message: dict[str, Any] = {"role": "assistant", "content": said, "reasoning_content": reasoning or None}
        reply = self.turn.answer.reply
        if reply is not None and self.turn.calls:
            message["content"] = reply.content
            message["tool_calls"] = _calls(self.turn.calls)
        return {"message": message}


def _calls(calls: tuple[Call, ...]) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "index": index,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for index, call in enumerate(calls)
    ]


def _messages(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = body.get("messages")
    if messages is None:
        raise BadRequestError("messages: Field required", kind="Bad Request")
    if not isinstance(messages, list):
        raise BadRequestError("messages: Input should be a valid list", kind="Bad Request")
    if not messages:
        raise BadRequestError("Messages cannot be empty.")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise BadRequestError(f"messages.{index}: Input should be an object", kind="Bad Request")
        if message.get("role") not in ROLES:
            raise BadRequestError(
                f"messages.{index}.role must be one of {', '.join(ROLES)}, got {message.get('role')!r:.80}",
                kind="Bad Request",
            )
        if not isinstance(message.get("tool_calls"), (list, type(None))):
            raise BadRequestError(f"messages.{index}.tool_calls: Input should be a valid list", kind="Bad Request")
    return messages


def _tools(body: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if tools is None or choice == "none":
        return None
    if not isinstance(tools, list) or not all(
        isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping) for tool in tools
    ):
        raise BadRequestError("tools: Input should be a valid list of functions", kind="Bad Request")
    return chosen_tools(tools, choice)
