"""Text and chats as tokens, without a model: four bytes of UTF-8 are one token.

That is about what real tokenizers make of English and code, costs nothing, is the same in every process, and can be
turned back into text. A chat is rendered message by message between special tokens, so its rendering only ever grows
at the end: the rendering of a longer conversation starts with that of the shorter one, tools included.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from concur_agents.emulator.radix import TOKEN_BYTES

__all__ = ["ByteTokenizer", "Reply", "Tokenizer", "message_text"]

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model says in one turn."""

    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[tuple[str, str], ...] = ()
    """Name and JSON arguments of each call."""


class Tokenizer(Protocol):
    """What the server needs of one."""

    system_anywhere: bool
    """Whether a chat may have system messages after its first: else they go to its front."""

    def encode(self, text: str) -> bytes:
        """Plain text as packed tokens."""

    def decode(self, tokens: bytes) -> str:
        """Packed tokens as text; special tokens are left out."""

    def render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None) -> bytes:
        """A chat as the prompt for its next assistant message, packed.

        Raises:
            ValueError: when the chat cannot be rendered; says why.
        """

    def render_reply(self, reply: Reply) -> bytes:
        """What the model generates to say this, as the next :meth:`render` will show it, end token included."""

    def filler(self, count: int, seed: int) -> bytes:
        """``count`` tokens of meaningless text; the same for the same seed."""


class ByteTokenizer:
    """The default. Keeps the tokens of recent messages, so that a growing chat costs only its new message.

    Args:
        remember_bytes: bound on the text kept for that.
    """

    system_anywhere = True

    # Special tokens are the bytes FF FF FF xx, which no UTF-8 text contains.
    START, END, CALL, THINK = (bytes((number, 0xFF, 0xFF, 0xFF)) for number in range(1, 5))

    def __init__(self, remember_bytes: int = 64 << 20) -> None:
        self._known: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._room = remember_bytes

    def encode(self, text: str) -> bytes:
        """UTF-8, filled up to whole tokens with zero bytes."""
        data = text.encode("utf-8", "surrogatepass")
        return data + b"\0" * (-len(data) % TOKEN_BYTES)

    def decode(self, tokens: bytes) -> str:
        """The text again, without special tokens; what is no UTF-8 becomes a replacement character."""
        parts = (tokens[i : i + TOKEN_BYTES] for i in range(0, len(tokens), TOKEN_BYTES))
        return b"".join(p for p in parts if p[1:] != b"\xff\xff\xff").replace(b"\0", b"").decode("utf-8", "replace")

    def render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None) -> bytes:
        """Tools, then each message between its start and end token, then the start of the next one."""
        parts = []
        if tools:
            parts.append(self._block("tools", json.dumps(tools)))
        parts += [self._message(message) for message in messages]
        parts.append(self._head("assistant"))
        return b"".join(parts)

    def render_reply(self, reply: Reply) -> bytes:
        """Reasoning first: the next prompt will not have it, as with models whose template drops it."""
        thought = self.THINK + self.encode(reply.reasoning) + self.THINK if reply.reasoning else b""
        return thought + self._body(reply.content or "", reply.tool_calls) + self.END

    def filler(self, count: int, seed: int) -> bytes:
        """Words of three letters and a space."""
        # Such a word is one token, also when its text is encoded again. The sequence is a linear congruence of full
        # period 2**20 (multiplier 4k+1, odd increment).
        words, state = bytearray(), seed & 0xFFFFF
        for _ in range(count):
            state = (state * 1_664_525 + 1_013_904_223) & 0xFFFFF
            words += bytes((97 + state % 26, 97 + (state >> 5) % 26, 97 + (state >> 10) % 26, 32))
        return bytes(words)

    def _message(self, message: Message) -> bytes:
        role = str(message.get("role", "user"))
        text = message_text(message)
        calls = _calls(message)
        key = (role, text, calls)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        tokens = self._head(role) + self._body(text, calls) + self.END
        self._known[key] = tokens
        self._room -= len(tokens)
        while self._room < 0 and self._known:
            _, dropped = self._known.popitem(last=False)
            self._room += len(dropped)
        return tokens

    def _block(self, role: str, text: str) -> bytes:
        return self._head(role) + self.encode(text) + self.END

    def _head(self, role: str) -> bytes:
        return self.START + self.encode(role)

    def _body(self, text: str, calls: tuple[tuple[str, str], ...]) -> bytes:
        return self.encode(text) + b"".join(
            self.CALL + self.encode(name) + self.encode(_canonical(arguments)) for name, arguments in calls
        )


def message_text(message: Message) -> str:
    """The text of a chat message, whose content may be a string, a list of parts, or missing.

    Raises:
        ValueError: when it is anything else.
    """
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
        return " ".join(str(text) for text in texts if text is not None)  # as SGLang flattens parts for a template
    raise ValueError(f"content must be a string or a list of parts, got {type(content).__name__}")


def _calls(message: Message) -> tuple[tuple[str, str], ...]:
    calls = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise ValueError("every tool call must have a function")
        arguments = function.get("arguments") or "{}"
        calls.append(
            (str(function.get("name", "")), arguments if isinstance(arguments, str) else json.dumps(arguments))
        )
    return tuple(calls)


def _canonical(arguments: str) -> str:
    """JSON arguments in one spelling: a client that parses and writes them again must not change the tokens."""
    try:
        return json.dumps(json.loads(arguments))
    except ValueError:
        return arguments
