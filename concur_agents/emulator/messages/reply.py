"""A turn as a message of Anthropic's, whole or as its events."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from concur_agents.emulator.messages.errors import error_event
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.turns import Call, Turn

__all__ = ["MessageReply", "broken"]

_STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}
_NOTHING = {"input_tokens": 0, "output_tokens": 0}

Event = dict[str, Any]


class MessageReply:
    """One answer to ``/v1/messages``."""

    def __init__(self, turn: Turn, model: str) -> None:
        self.turn = turn
        self._model = model
        self._id = f"msg_{uuid.uuid4().hex}"

    def whole(self) -> dict[str, Any]:
        """The reply in one piece."""
        thought, said = self.turn.parts()
        content: list[Event] = [{"type": "thinking", "thinking": thought}] if thought else []
        content += [{"type": "text", "text": said}] if said else []
        content += [{**_block(call), "input": _arguments(call)} for call in self.turn.calls]
        return {
            **_head(self._id, self._model, content or [{"type": "text", "text": ""}]),
            "stop_reason": self._stop_reason(),
            "usage": self._usage(self.turn.answer.request.out),
        }

    async def events(self) -> AsyncIterator[Event]:
        """The reply as it comes. The prompt's tokens are told first, the output's last."""
        blocks = _Blocks(lambda: _started(self._id, self._model, self._usage(0)))
        async for thought, said in self.turn.deltas():
            for kind, name, new in (("thinking", "thinking", thought), ("text", "text", said)):
                if new:
                    for event in blocks.open(kind, {"type": kind, name: ""}):
                        yield event
                    yield blocks.delta({"type": f"{kind}_delta", name: new})
        self.turn.release()
        for call in self.turn.calls:
            for event in blocks.open(call.id, {**_block(call), "input": {}}):
                yield event
            if call.arguments:
                yield blocks.delta({"type": "input_json_delta", "partial_json": call.arguments})
        if not blocks.any:
            yield _started(self._id, self._model, _NOTHING)  # where SGLang has nothing to say, it has no usage either
        for event in blocks.close():
            yield event
        yield self._last()
        yield {"type": "message_stop"}

    def _last(self) -> Event:
        if (problem := self.turn.failure) is not None:
            return error_event(problem)
        told = {"output_tokens": self.turn.answer.request.out}
        return {"type": "message_delta", "delta": {"stop_reason": self._stop_reason()}, "usage": told}

    def _stop_reason(self) -> str:
        return _STOP_REASONS.get(self.turn.reason, "end_turn")

    def _usage(self, out: int) -> dict[str, int]:
        """Cached tokens are told apart from the others, and not at all where there are none."""
        prompt, cached = self.turn.prompt_tokens, self.turn.answer.request.cached_tokens
        if not self.turn.service.config.enable_cache_report or not cached:
            return {"input_tokens": prompt, "output_tokens": out}
        return {"input_tokens": max(prompt - cached, 0), "output_tokens": out, "cache_read_input_tokens": cached}


class _Blocks:
    """The content blocks of a stream: one is open at a time.

    Args:
        start: the event before the first one.
    """

    def __init__(self, start: Callable[[], Event]) -> None:
        self._start = start
        self._index = 0
        self._kind: str | None = None
        self.any = False
        """Whether there has been one."""

    def open(self, kind: str, block: Event) -> Iterator[Event]:
        """Begin one, unless one of the same kind is open."""
        if self._kind == kind:
            return
        if not self.any:
            self.any = True
            yield self._start()
        yield from self.close()
        self._kind = kind
        yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def delta(self, delta: Event) -> Event:
        """More of the open one."""
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def close(self) -> Iterator[Event]:
        """End it."""
        if self._kind is not None:
            yield {"type": "content_block_stop", "index": self._index}
            self._index += 1
            self._kind = None


async def broken(model: str, problem: BadRequestError) -> AsyncIterator[Event]:
    """A stream that says nothing but why."""
    yield _started(f"msg_{uuid.uuid4().hex}", model, _NOTHING)
    yield error_event(problem)
    yield {"type": "message_stop"}


def _head(message_id: str, model: str, content: list[Event]) -> dict[str, Any]:
    return {"id": message_id, "type": "message", "role": "assistant", "content": content, "model": model}


def _started(message_id: str, model: str, usage: dict[str, int]) -> Event:
    return {"type": "message_start", "message": {**_head(message_id, model, []), "usage": usage}}


def _block(call: Call) -> Event:
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _arguments(call: Call) -> dict[str, Any]:
    """As an object: Anthropic's API has no other."""
    with contextlib.suppress(ValueError):
        arguments = json.loads(call.arguments)
        if isinstance(arguments, dict):
            return arguments
    return {}
