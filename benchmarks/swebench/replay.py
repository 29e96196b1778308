"""Scripted replies on an engine that plays no scripts: it does the work of each generation, the script says the words.

Each request asks the engine for exactly as many tokens as the scripted reply has, so prefill, decode and cache are
real; then the text is replaced. The one difference to a model that really says it: the next prompt holds other tokens
than were generated, so the reply itself (not what was before it) is prefilled again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "Script", "Turn", "turn"]

Script = Sequence[Mapping[str, Any]]
"""Replies in the emulator's script format: ``content``, ``tool_calls`` (``name``, ``arguments``), ``output_tokens``."""

CHARS_PER_TOKEN = 4
"""For replies whose script does not say how many tokens they have: about right for English and code."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a scripted reply."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One scripted reply, ready to be said in any framework."""

    content: str
    calls: tuple[Call, ...]
    tokens: int
    """How many the engine is to generate for it, whatever it would like to end on (``ignore_eos``)."""


def turn(replies: Script, said: int) -> Turn:
    """The reply after the first ``said`` ones.

    Raises:
        IndexError: the script has ended and the agent has not.
    """
    if said >= len(replies):
        raise IndexError(f"the script has {len(replies)} replies, and the agent asked for another one")
    reply = replies[said]
    return Turn(
        reply.get("content") or "",
        tuple(
            Call(f"call_{said}_{number}", call["name"], _arguments(call["arguments"]))
            for number, call in enumerate(reply.get("tool_calls") or ())
        ),
        reply.get("output_tokens") or max(1, len(json.dumps(reply)) // CHARS_PER_TOKEN),
    )


def _arguments(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """A script gives arguments as an object, or as the JSON text that goes over the wire."""
    return dict(json.loads(arguments) if isinstance(arguments, str) else arguments)
