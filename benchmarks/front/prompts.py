"""Chats as token ids that a real model's vocabulary has, each conversation's beginning with that of a shorter one.

A piece of a message is one token, whose id is a hash of the piece. So equal beginnings of two chats are equal
beginnings of two prompts, and the engine's prefix cache finds what it would find of text. What the engine generated
stays in the conversation as the ids that it gave: the words that an agent was told in their place never reach it.
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.real.calibrate import FIRST_ID, LAST_ID
from concur_agents.emulator.tokenizer import ByteTokenizer

__all__ = ["CHARACTERS", "Prompts", "digest"]

CHARACTERS = 4
"""In a token of the emulator, and about as many in one of a real model, of English and code."""
REMEMBERED = 4_000_000
"""Ids of replies that are kept: 32 MB."""

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Said:
    words: bytes
    """As the emulator's tokenizer has them."""
    ids: array[int]


class Prompts:
    """Makes the prompts, and knows what was generated after which.

    Args:
        characters: in one token, a multiple of 4: with 16, the contexts of a batch are a quarter as long. More than 0.
        remember: ids of replies that are kept; of more, those that were not asked for longest go.

    Raises:
        ValueError: ``characters`` is no such number.
    """

    def __init__(self, characters: int = CHARACTERS, remember: int = REMEMBERED) -> None:
        if characters < CHARACTERS or characters % CHARACTERS:
            raise ValueError(f"characters must be a multiple of {CHARACTERS}, not {characters}")
        self._width = characters
        self._tokenizer = ByteTokenizer()
        self._head = self._tokenizer.render([], None)
        self._begin = self._ids(self._head)
        self._said: OrderedDict[bytes, _Said] = OrderedDict()
        self._room = remember

    def ids(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None) -> list[int]:
        """The prompt for the next message of the assistant. Raises ValueError for what is no chat."""
        prompt = self._ids(self._words(tools=tools))
        for message in messages:
            words = self._words(message)
            said = self._after(prompt + self._begin) if message.get("role") == "assistant" else None
            if said is None or said.words != words:
                prompt += self._ids(words)
            else:
                prompt += self._begin + said.ids
        return (prompt + self._begin).tolist()

    def said(self, prompt: Sequence[int], message: Message, ids: Sequence[int]) -> None:
        """Keep what was generated.

        Args:
            prompt: what it was generated after; one of :meth:`ids`.
            message: what was said in its place. A conversation in which something else stands there is another one.
            ids: as the engine gave them.
        """
        key = digest(prompt)
        if (before := self._said.pop(key, None)) is not None:
            self._room += len(before.ids)
        self._said[key] = _Said(self._words(message), array("I", ids))
        self._room -= len(ids)
        while self._room < 0 and self._said:
            _, dropped = self._said.popitem(last=False)
            self._room += len(dropped.ids)

    def length(self, tokens: int) -> int:
        """How many of ours are so many of the emulator's. At least 1."""
        return max(1, round(tokens * CHARACTERS / self._width))

    def _after(self, prompt: array[int]) -> _Said | None:
        key = digest(prompt)
        if key in self._said:
            self._said.move_to_end(key)
        return self._said.get(key)

    def _words(self, *messages: Message, tools: Sequence[Mapping[str, Any]] | None = None) -> bytes:
        return self._tokenizer.render(messages, tools).removesuffix(self._head)

    def _ids(self, words: bytes) -> array[int]:
        pieces = (words[start : start + self._width] for start in range(0, len(words), self._width))
        return array("I", (FIRST_ID + zlib.crc32(piece) % (LAST_ID - FIRST_ID) for piece in pieces))


def digest(ids: Sequence[int]) -> bytes:
    """What a prompt is known by."""
    return hashlib.blake2b(array("I", ids).tobytes(), digest_size=16).digest()
