"""The requests: many agents whose conversations grow, as one batch sends them."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Final

__all__ = ["AGENTS", "MESSAGES", "TURNS", "body", "chat_parts", "mean_bytes", "stream_body"]

AGENTS: Final = 256
"""That take turns; each ends after :data:`TURNS` requests, and a new one takes its place."""
TURNS: Final = 20
"""Requests of an agent. The first has two messages, each further one two more."""
MESSAGES: Final = TURNS + 1
"""In a request, in the mean."""
_MESSAGE_BYTES: Final = 1_000


def chat_parts() -> tuple[str, str, list[str]]:
    """A request's JSON in pieces: what comes before the agent's name, what closes it, and the history of each turn."""
    system = {"role": "system", "content": _filled("You work on one task in a shell.", 0)}
    head = json.dumps({"model": "stub", "temperature": 0, "messages": [system]})[:-2]  # both brackets stay open
    head += ', {"role": "user", "content": "Task '
    opening = _filled(". Make its tests pass.", 0) + '"}'
    histories = accumulate((_turn(number) for number in range(1, TURNS)), initial=opening)
    return head, "]}", list(histories)


def body(agent: str, turn: int) -> bytes:
    """The request of an agent's ``turn``-th turn, counted from 0."""
    head, close, histories = chat_parts()
    return (head + agent + histories[turn] + close).encode()


def mean_bytes() -> int:
    """Of all turns' bodies."""
    return round(sum(len(body("agent-000", turn)) for turn in range(TURNS)) / TURNS)


def stream_body(user: str) -> bytes:
    """A request for a stream, whose events carry ``user``."""
    messages = [{"role": "user", "content": _filled(f"Task {user}.", 0)}]
    return json.dumps({"model": "stub", "stream": True, "user": user, "messages": messages}).encode()


def _turn(number: int) -> str:
    """What the model said, and what its tool answered, as they follow on what was there."""
    call = {"id": f"call_{number}", "type": "function"}
    arguments = json.dumps({"command": _filled("sed -n '1,80p' src/module.py", number)})
    said = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call | {"function": {"name": "bash", "arguments": arguments}}],
    }
    answered = {"role": "tool", "tool_call_id": f"call_{number}", "content": _filled("def function():", number)}
    return f", {json.dumps(said)}, {json.dumps(answered)}"


def _filled(text: str, number: int) -> str:
    """The text, made as long as a message is here."""
    line = f" line {number} of some output"
    return (text + line * (_MESSAGE_BYTES // len(line)))[: _MESSAGE_BYTES - 60]
