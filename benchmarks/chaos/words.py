"""What agents say: meaningless, of a given length, and the same for the same seed."""

from __future__ import annotations

import random

__all__ = ["said"]

_WORDS = ("ls", "grep", "file", "error", "test", "fix", "line", "patch", "build", "trace", "module", "value", "run")


def said(seed: str, length: int) -> str:
    """So many characters."""
    random_ = random.Random(seed)
    text = ""
    while len(text) < length:
        text += f"{random_.choice(_WORDS)} {random_.randrange(1000)} "
    return text[:length]
