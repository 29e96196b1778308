"""The vocabulary of all prompts and replies: words that every engine here counts as one token each.

A word is a space, a consonant, a vowel, a consonant. Its four bytes are one token of the emulator, and one token of
the model that ``sglang_cpu/model.py`` makes; both tokenize a text of words back into the same tokens. So a
prompt has the same length on both, and a conversation that went through text finds its own KV again.
"""

from __future__ import annotations

from itertools import product
from random import Random

__all__ = ["WORDS", "text"]

_CONSONANTS = "bcdfghjklmnpqrstvwxz"
_VOWELS = "aeiou"

WORDS = tuple(f" {a}{b}{c}" for a, b, c in product(_CONSONANTS, _VOWELS, _CONSONANTS))
"""2,000 words, in alphabetical order: enough that two random texts part within a word or two."""


def text(rng: Random, tokens: int) -> str:
    """Random words.

    Args:
        rng: where the words come from.
        tokens: words, and so tokens. >= 0.
    """
    return "".join(rng.choices(WORDS, k=tokens))
