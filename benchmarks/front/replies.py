"""A scripted reply as ``/v1/chat/completions`` answers it, whole or as a stream, with the engine's usage."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from benchmarks.front.source import Part
from concur_agents.emulator.tokenizer import Reply
from concur_agents.emulator.wire import usage

__all__ = ["Talk"]

ABORT = "abort"


class Talk:
    """One answer.

    Args:
        reply: what is said.
        tokens: that the engine generates for it.
        body: the request.
    """

    def __init__(self, reply: Reply, tokens: int, body: Mapping[str, Any]) -> None:
        self._reply, self._tokens = reply, tokens
        self._name, self._created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        self._model = str(body.get("model", ""))
        options = body.get("stream_options")
        self._with_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        self._calls = [
            {
                "id": f"call_{uuid.uuid4().hex[:24]}",
                "index": index,
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for index, (name, arguments) in enumerate(reply.tool_calls)
        ]

    def complete(self, part: Part) -> bool:
        """Whether all of it is said at the end: the engine has done all of the work."""
        return part.reason != ABORT and (part.usage.output or 0) >= self._tokens

    def message(self, part: Part) -> dict[str, Any]:
        """What is said at the end: of a reply that broke off, as much of its text as of its tokens."""
        text = self._reply.content or ""
        message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": None}
        if not self.complete(part):
            return {**message, "content": text[: self._shown(part)]}
        return {**message, "tool_calls": self._calls} if self._calls else message

    def whole(self, part: Part) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        choice = {"index": 0, "message": self.message(part), "logprobs": None, "finish_reason": self._reason(part)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": _usage(part)}

    async def events(self, parts: AsyncGenerator[Part, None]) -> AsyncGenerator[dict[str, Any], None]:
        """The answer to one that does."""
        text, shown = self._reply.content or "", 0
        async with aclosing(parts):
            yield self._chunk({"role": "assistant", "content": ""})
            async for part in parts:
                now = self._shown(part)
                if now > shown:
                    yield self._chunk({"content": text[shown:now]})
                    shown = now
                if part.reason is not None:
                    for event in self._end(part):
                        yield event

    def _end(self, part: Part) -> Iterator[dict[str, Any]]:
        if self.complete(part):
            for call in self._calls:
                yield self._chunk({"tool_calls": [call]})
        yield self._chunk({}, self._reason(part))
        if self._with_usage:
            yield {**self._head("chat.completion.chunk"), "choices": [], "usage": _usage(part)}

    def _shown(self, part: Part) -> int:
        share = min(1.0, (part.usage.output or 0) / self._tokens)
        return int(len(self._reply.content or "") * share)

    def _reason(self, part: Part) -> str:
        if part.reason == ABORT:
            return ABORT
        if not self.complete(part):
            return "length"
        return "tool_calls" if self._calls else "stop"

    def _chunk(self, delta: dict[str, Any], ended: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": ended}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._name, "object": kind, "created": self._created, "model": self._model}


def _usage(part: Part) -> dict[str, Any]:
    return usage(part.usage.prompt or 0, part.usage.output or 0, part.usage.cached)
