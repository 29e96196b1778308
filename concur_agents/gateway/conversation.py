"""What a request says so far, as digests: enough to tell whether a later one goes on where it ended.

A request's *units* are its messages, or blocks of its text or token ids. ``chain[i]`` is a digest of the first
``i + 1`` units, so that one look-up tells whether another conversation is a prefix of this one.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Conversation", "Mark", "read_conversation", "said_in", "spoken"]

BLOCK: Final = 2048
"""Bytes of text or token ids in a unit; shorter prompts say too little to be matched."""
_SIZE = 16
_USERS = ("user", "tool", "function")


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a conversation stood: what a later one must begin with."""

    digest: bytes
    """Of all whole units."""
    units: int
    tail: bytes
    """Digest of what follows them."""
    tail_size: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """One request's."""

    chain: tuple[bytes, ...]
    opening: bytes
    """Digest up to the first thing that a user says: what edits of a history leave."""
    said: tuple[bytes, ...] = ()
    """What the model said in it, in order."""
    text: bytes = b""
    """Where units are blocks: all of it, so that what follows the last whole block can be compared."""

    @property
    def mark(self) -> Mark:
        """Where it stands."""
        tail = self.text[len(self.chain) * BLOCK :]
        return Mark(self.chain[-1], len(self.chain), _digest(tail), len(tail))

    def goes_on_from(self, mark: Mark) -> bool:
        """Whether it begins with all that the mark's conversation said. The digests of the units are taken to agree."""
        start = mark.units * BLOCK
        return not self.text or (
            len(self.text) >= start + mark.tail_size and _digest(self.text[start : start + mark.tail_size]) == mark.tail
        )

    def equals(self, mark: Mark) -> bool:
        """Whether it says no more than that either. The digests of the units are taken to agree."""
        return mark.units == len(self.chain) and len(self.text) == (
            mark.units * BLOCK + mark.tail_size if self.text else 0
        )


def read_conversation(path: str, body: Mapping[str, Any], apart: Iterable[str]) -> Conversation | None:
    """The conversation in a request; None where there is none, or too little of it.

    Args:
        path: of the request, which says what its body holds.
        body: parsed.
        apart: conversations that differ in these never match: the key they come with, the model, the user.
    """
    seed = _digest(json.dumps([path, *apart]).encode())
    try:
        if path in ("/v1/chat/completions", "/v1/messages"):
            return _of_messages(seed, body.get("system"), body["messages"])
        if path == "/v1/responses":
            given = body["input"]
            messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
            return _of_messages(seed, body.get("instructions"), messages)
        text = body["prompt"] if path == "/v1/completions" else body.get("text") or body["input_ids"]
        return _of_text(seed, text)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, AttributeError):
        return None  # the engine will say what is wrong with it


def spoken(message: Mapping[str, Any]) -> bytes | None:
    """What tells a message of the model from others: the ids of its calls, else its text; None for nothing said."""
    calls = [str(call["id"]) for call in message.get("tool_calls") or () if call.get("id")]
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    for part in content if isinstance(content, list) else ():
        if part.get("type") == "tool_use":
            calls.append(str(part["id"]))
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
    if message.get("type") == "function_call":
        calls.append(str(message["call_id"]))
    said = "\n".join(calls) if calls else "\n".join(texts).strip()
    return _digest(said.encode("utf-8", "surrogatepass")) if said else None


def said_in(reply: Mapping[str, Any]) -> bytes | None:
    """The same of a whole reply of any of the APIs."""
    choices = reply.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0].get("message"), dict):
        return spoken(choices[0]["message"])
    output = reply.get("output")
    if isinstance(output, list):
        return next((said for item in reversed(output) if (said := spoken(item)) is not None), None)
    return spoken(reply) if reply.get("role") == "assistant" else None


def _of_messages(seed: bytes, system: Any, messages: Sequence[Mapping[str, Any]]) -> Conversation | None:
    digest = seed if system is None else _chained(seed, _canonical(system))
    chain: list[bytes] = []
    said: list[bytes] = []
    opening = b""
    for message in messages:
        digest = _chained(digest, _canonical(message))
        chain.append(digest)
        role = message.get("role")
        if not opening and role in _USERS:
            opening = digest
        if role == "assistant" or message.get("type") == "function_call":
            this = spoken(message)
            if this is not None:
                said.append(this)
    return Conversation(tuple(chain), opening or chain[-1], tuple(said)) if chain else None


def _of_text(seed: bytes, text: Any) -> Conversation | None:
    if isinstance(text, list):
        if len(text) == 1 and isinstance(text[0], str | list):
            return _of_text(seed, text[0])
        raw = array("q", text).tobytes()  # TypeError for a batch of prompts: many conversations are nobody's
    else:
        raw = text.encode("utf-8", "surrogatepass")
    chain: list[bytes] = []
    digest = seed
    for start in range(0, len(raw) - BLOCK + 1, BLOCK):
        digest = _chained(digest, raw[start : start + BLOCK])
        chain.append(digest)
    return Conversation(tuple(chain), chain[0], text=raw) if chain else None


def _canonical(value: Any) -> bytes:
    # Marks for a provider's cache move from message to message, and are no part of what was said.
    return json.dumps(_unmarked(value), ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value


def _chained(digest: bytes, unit: bytes) -> bytes:
    return hashlib.blake2b(unit, digest_size=_SIZE, key=digest).digest()


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=_SIZE).digest()
