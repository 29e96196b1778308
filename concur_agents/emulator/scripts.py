"""Replies that a session has registered, so that scripted or recorded agents really act."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from concur_agents.emulator.tokenizer import Reply

__all__ = ["ScriptStore", "ScriptedReply", "count_turns", "opening"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One turn of a script."""

    reply: Reply
    output_tokens: int | None = None
    """Forces how many tokens it takes to generate; None for as many as the reply has."""

    @classmethod
    def parse(cls, data: object, where: str) -> ScriptedReply:
        """Read one reply of a POST body.

        Raises:
            ValueError: naming the field and its value.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"{where} must be an object, got {data!r:.80}")
        if unknown := sorted(set(data) - {"content", "reasoning", "tool_calls", "output_tokens"}):
            raise ValueError(f"{where} has unknown fields: {', '.join(map(str, unknown))}")
        for name in ("content", "reasoning"):
            if not isinstance(data.get(name), (str, type(None))):
                raise ValueError(f"{where}.{name} must be a string or null, got {data[name]!r:.80}")
        count = data.get("output_tokens")
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise ValueError(f"{where}.output_tokens must be null or at least 1, got {count!r:.80}")
        calls = data.get("tool_calls")
        if calls is not None and not isinstance(calls, list):
            raise ValueError(f"{where}.tool_calls must be a list or null, got {calls!r:.80}")
        reply = Reply(
            content=data.get("content"),
            reasoning=data.get("reasoning"),
            tool_calls=tuple(_call(c, f"{where}.tool_calls[{i}]") for i, c in enumerate(calls or ())),
        )
        return cls(reply=reply, output_tokens=count)

    @property
    def size(self) -> int:
        """Characters it keeps in memory."""
        reply = self.reply
        return (
            len(reply.content or "")
            + len(reply.reasoning or "")
            + sum(len(name) + len(arguments) for name, arguments in reply.tool_calls)
            + 64
        )


def _call(data: object, where: str) -> tuple[str, str]:
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise ValueError(f"{where} must be an object with a name and arguments, got {data!r:.80}")
    arguments = data.get("arguments", {})
    return data["name"], arguments if isinstance(arguments, str) else json.dumps(arguments)


class ScriptStore:
    """Scripts by session, within a bound on their size: the least recently used session goes first.

    Args:
        max_chars: bound on the text of all scripts together.
    """

    def __init__(self, max_chars: int = 256_000_000) -> None:
        self._max = max_chars
        self._size = 0
        self._scripts: OrderedDict[str, tuple[ScriptedReply, ...]] = OrderedDict()
        self._matches: dict[str, str] = {}

    def register(self, session_id: str, replies: Sequence[ScriptedReply], match: str | None = None) -> None:
        """Keep a session's replies, in place of earlier ones.

        Args:
            session_id: whose.
            replies: one a turn.
            match: a conversation whose first user message holds this text has this script too, unless it names a
                session that has one: for clients that name none. Of several that match, the first registered counts.

        Raises:
            ValueError: when this script alone is beyond the bound.
        """
        size = sum(reply.size for reply in replies)
        if size > self._max:
            raise ValueError(f"replies must hold at most {self._max} characters, got {size}")
        self.remove(session_id)
        self._scripts[session_id] = tuple(replies)
        if match:
            self._matches[session_id] = match
        self._size += size
        while self._size > self._max:
            oldest = next(iter(self._scripts))
            self.remove(oldest)

    def remove(self, session_id: str) -> bool:
        """Forget a session; whether there was one."""
        replies = self._scripts.pop(session_id, None)
        if replies is None:
            return False
        self._size -= sum(reply.size for reply in replies)
        self._matches.pop(session_id, None)
        return True

    def reply(self, session_id: str | None, turn: int, opening: str = "") -> ScriptedReply | None:
        """The reply for this turn (from 0) of a session; None without a script, and past its end.

        Args:
            session_id: as the request names it.
            turn: which reply.
            opening: the conversation's first user message.
        """
        if session_id not in self._scripts:
            session_id = next((name for name, text in self._matches.items() if text in opening), None)
        if session_id is None:
            return None
        replies = self._scripts[session_id]
        self._scripts.move_to_end(session_id)
        return replies[turn] if turn < len(replies) else None

    def __len__(self) -> int:
        return len(self._scripts)


def count_turns(messages: Sequence[Mapping[str, Any]]) -> int:
    """Assistant messages so far: the same for a retry, so it gets the same reply."""
    return sum(1 for message in messages if message.get("role") == "assistant")


def opening(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of the first user message; empty without one."""
    content = next((message.get("content") for message in messages if message.get("role") == "user"), None)
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
