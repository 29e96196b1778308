"""What an engine's refusal of a request means for the agent that sent it."""

from __future__ import annotations

import re

__all__ = ["ContextFullError", "RefusedError", "refusal"]

CONTEXT = re.compile(r"context[ _]length")
"""As SGLang and vLLM say it, and OpenAI's code."""
PASSING = frozenset({408, 429})
"""Statuses between 400 and 499 that a later request need not meet."""


class ContextFullError(Exception):
    """The agent's conversation is longer than the model's context."""


class RefusedError(Exception):
    """The engine takes no such request, whoever sends it: its flags or the run's settings are wrong."""


def refusal(error: BaseException) -> ContextFullError | RefusedError | None:
    """What a failed request was refused for; None where it failed in another way.

    Args:
        error: as the framework raised it: the client's own, or one that was raised from it.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        status = getattr(cause, "status_code", None)
        if isinstance(status, int) and 400 <= status < 500 and status not in PASSING:
            kind = ContextFullError if CONTEXT.search(str(cause).lower()) else RefusedError
            return kind(str(cause))
        cause = cause.__cause__ or cause.__context__
    return None
