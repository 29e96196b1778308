"""``/v1/chat/completions`` and ``/v1/completions``, whole or as a stream."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.radix import TOKEN_BYTES, pack
from concur_agents.emulator.request import FinishReason
from concur_agents.emulator.scripts import count_turns, opening
from concur_agents.emulator.service import Answer, Service
from concur_agents.emulator.tokenizer import Reply
from concur_agents.emulator.wire import EventStream, Json, body_of, gone, usage

__all__ = ["chat_completions", "completions", "wait_for"]

ROLES = frozenset({"system", "user", "assistant", "tool", "function", "developer"})


async def chat_completions(request: Request) -> Response:
    """One assistant message for a conversation."""
    service: Service = request.app.state.service
    body = await body_of(request, only_json=True)
    if body.get("n", 1) not in (1, None):
        raise BadRequestError("n must be 1 in the emulator, got {!r:.80}".format(body["n"]))
    messages = _messages(body)
    tools = _tools(body)
    try:
        prompt = service.tokenizer.render(messages, tools)
    except ValueError as problem:
        raise BadRequestError(str(problem)) from problem
    max_tokens = _integer(body, "max_completion_tokens")
    max_tokens = _integer(body, "max_tokens") if max_tokens is None else max_tokens
    if max_tokens is not None and max_tokens > service.config.engine.context_length:
        raise BadRequestError(
            f"max_completion_tokens is too large: {max_tokens}.This model supports at most "
            f"{service.config.engine.context_length} completion tokens."
        )
    streaming = bool(body.get("stream"))
    scripted = service.scripts.reply(_session(request, body), count_turns(messages), opening(messages))
    try:
        answer = service.start(
            prompt,
            max_tokens=max_tokens,
            rid=_text(body, "rid"),
            ignore_eos=bool(body.get("ignore_eos")),
            streaming=streaming,
            scripted=scripted,
        )
    except BadRequestError as problem:
        if streaming and problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return EventStream(_failed(problem))  # SGLang has begun the stream by the time it knows
        raise
    talk = _Chat(service, answer, body)
    if streaming:
        return EventStream(talk.events(), lambda: service.release(answer))
    await wait_for(request, service, answer)
    return Json(talk.whole())


async def completions(request: Request) -> Response:
    """A continuation of a plain prompt: text or token ids."""
    service: Service = request.app.state.service
    body = await body_of(request, only_json=True)
    if "prompt" not in body:
        raise BadRequestError("prompt: Field required", kind="Bad Request")
    prompt = _prompt(service, body["prompt"])
    max_tokens = _integer(body, "max_tokens")
    streaming = bool(body.get("stream"))
    answer = service.start(
        prompt,
        max_tokens=16 if max_tokens is None else max_tokens,  # OpenAI's default, and SGLang's
        rid=_text(body, "rid"),
        ignore_eos=bool(body.get("ignore_eos")),
        streaming=streaming,
    )
    talk = _Completion(service, answer, body)
    if streaming:
        return EventStream(talk.events(), lambda: service.release(answer))
    await wait_for(request, service, answer)
    return Json(talk.whole())


async def wait_for(request: Request, service: Service, *answers: Answer) -> None:
    """Wait until all have ended; end them all when the client leaves.

    Raises:
        BadRequestError: when the engine could not go on with one.
    """
    ended = asyncio.ensure_future(_all_done(answers))
    left = asyncio.ensure_future(gone(request.receive))
    try:
        await asyncio.wait((ended, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (ended, left):
            task.cancel()
        await asyncio.gather(ended, left, return_exceptions=True)
        for answer in answers:
            service.release(answer)
    for answer in answers:
        if (problem := service.failure(answer.request)) is not None:
            raise problem


async def _failed(problem: BadRequestError) -> AsyncIterator[dict[str, Any]]:
    """The one event of a stream that could not begin, or go on."""
    kind = HTTPStatus(problem.status).name
    yield {"error": {"object": "error", "message": str(problem), "type": kind, "param": None, "code": problem.status}}


async def _all_done(answers: tuple[Answer, ...]) -> None:
    for answer in answers:
        await answer.generation.done.wait()


class _Completion:
    """One answer to ``/v1/completions``."""

    kind = "text_completion"
    chunk_kind = "text_completion"

    def __init__(self, service: Service, answer: Answer, body: Mapping[str, Any]) -> None:
        self.service = service
        self.answer = answer
        self.model = str(body.get("model") or service.config.model)
        options = body.get("stream_options")
        self.with_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        self.created = int(time.time())

    def whole(self) -> dict[str, Any]:
        request = self.answer.request
        return {
            **self._head(self.kind),
            "choices": [{**self._content(), "logprobs": None, "finish_reason": self._reason(), "matched_stop": None}],
            "usage": self._usage(),
            "metadata": {
                "weight_version": "default",
                "weight_versions": [{"version": "default", "start": 0, "end": request.out}],
            },
        }

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        shown = ""
        async for out in self.answer.generation.progress():
            text = self._text(out)
            done = self.answer.generation.done.is_set()
            if len(text) > len(shown) or done:
                ended = self._reason() if done else None
                yield {**self._chunk({"text": text[len(shown) :]}, ended), "usage": None}
                shown = text
        self.service.release(self.answer)
        if self.with_usage:
            # SGLang leaves this null out here, and only here.
            told = {name: value for name, value in self._usage().items() if name != "completion_tokens_details"}
            yield {**self._head(self.chunk_kind), "choices": [], "usage": told}

    def _content(self) -> dict[str, Any]:
        return {"index": 0, "text": self._text(self.answer.request.out)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.answer.request.rid, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, content: dict[str, Any], ended: str | None) -> dict[str, Any]:
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": ended, "matched_stop": None}
        return {**self._head(self.chunk_kind), "choices": [choice]}

    def _text(self, out: int) -> str:
        return self.service.tokenizer.decode(self.answer.request.output[: out * TOKEN_BYTES])

    def _reason(self) -> str:
        return str(self.answer.request.finish_reason or FinishReason.ABORT)

    def _usage(self) -> dict[str, Any]:
        request = self.answer.request
        cached = request.cached_tokens if self.service.config.enable_cache_report else None
        # One that was aborted in the queue has never reached the engine's own count.
        prompt = 0 if request.scheduled_at is None else request.prompt_tokens
        return usage(prompt, request.out, cached)


class _Chat(_Completion):
    """One answer to ``/v1/chat/completions``."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        yield self._chunk({"delta": {"reasoning_content": None, "role": "assistant", "content": ""}}, None)
        reply = self.answer.reply or Reply()
        thought, said = "", ""
        async for out in self.answer.generation.progress():
            reasoning, text = self._parts(out)
            if len(reasoning) > len(thought):
                yield self._chunk({"delta": {"reasoning_content": reasoning[len(thought) :]}}, None)
                thought = reasoning
            if len(text) > len(said):
                yield self._chunk({"delta": {"reasoning_content": None, "content": text[len(said) :]}}, None)
                said = text
        if self._complete():
            for index, call in enumerate(self._calls(reply)):
                function = call["function"]
                start = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
                yield self._chunk({"delta": {"reasoning_content": None, "tool_calls": [start]}}, None)
                rest = {
                    "id": None,
                    "index": index,
                    "type": "function",
                    "function": {"name": None, "arguments": function["arguments"]},
                }
                yield self._chunk({"delta": {"reasoning_content": None, "tool_calls": [rest]}}, None)
        self.service.release(self.answer)
        if (problem := self.service.failure(self.answer.request)) is not None:
            async for event in _failed(problem):
                yield event
            return
        yield self._chunk({"delta": {"reasoning_content": None}}, self._reason())
        if self.with_usage:
            yield {**self._head(self.chunk_kind), "choices": [], "usage": self._usage()}

    def _content(self) -> dict[str, Any]:
        reasoning, text = self._parts(self.answer.request.out)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text,
            "reasoning_content": reasoning or None,
        }
        reply = self.answer.reply
        if reply is not None and reply.tool_calls and self._complete():
            message["content"] = reply.content
            message["tool_calls"] = self._calls(reply)
        return {"index": 0, "message": message}

    def _parts(self, out: int) -> tuple[str, str]:
        """Reasoning and text that so many tokens show: as much of the reply as of its tokens."""
        reply = self.answer.reply
        if reply is None:
            return "", self._text(out)
        thought, said = reply.reasoning or "", reply.content or ""
        shown = int((len(thought) + len(said)) * self.answer.share(out))
        return thought[:shown], said[: max(0, shown - len(thought))]

    def _complete(self) -> bool:
        return self.answer.request.finish_reason is FinishReason.STOP

    def _reason(self) -> str:
        reply = self.answer.reply
        if reply is not None and reply.tool_calls and self._complete():
            return "tool_calls"
        return super()._reason()

    def _calls(self, reply: Reply) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{uuid.uuid4().hex[:24]}",
                "index": index,
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for index, (name, arguments) in enumerate(reply.tool_calls)
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
                f"messages.{index}.role must be one of {', '.join(sorted(ROLES))}, got {message.get('role')!r:.80}",
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
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        return [tool for tool in tools if tool["function"].get("name") == choice["function"].get("name")]
    return tools


def _prompt(service: Service, prompt: object) -> bytes:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if not prompt:
        raise BadRequestError("Prompt cannot be empty")
    if isinstance(prompt, str):
        return service.tokenizer.encode(prompt)
    if isinstance(prompt, list) and all(isinstance(token, int) and 0 <= token < 1 << 32 for token in prompt):
        return pack(prompt)
    raise BadRequestError("prompt: Input should be a string or a list of token ids", kind="Bad Request")


def _session(request: Request, body: Mapping[str, Any]) -> str | None:
    return request.headers.get("x-session-id") or _text(body, "session_id") or _text(body, "user")


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"{name}: Input should be a valid string", kind="Bad Request")
    return value


def _integer(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadRequestError(f"{name}: Input should be a valid integer", kind="Bad Request")
    return value
