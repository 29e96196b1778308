"""What one recorded session says, in whichever form: how long its steps were, and the tools between them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from concur_agents.usage import TokenUsage

__all__ = ["Recorded", "RecordedStep", "from_messages", "from_steps", "opening"]

CHARS_PER_TOKEN = 4
"""Where a recording has no usage: what English and code take, roughly."""
THINK_S = 600.0
"""Seconds: the longest a tool may take with most agents. A night's sleep would be the whole of a makespan."""
Tokens = Annotated[int, Field(ge=0, lt=1_000_000)]  # no model has a longer context; the lab counts on it
Seconds = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One generation and the tool after it."""

    prompt: int
    """Tokens in the request. At least 1."""
    output: int
    """Tokens generated. At least 1."""
    tool_s: float
    """Seconds in the tool afterwards."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One session."""

    name: str
    steps: tuple[RecordedStep, ...]
    prefix_tokens: int = 0


class _Step(BaseModel):
    model_config = ConfigDict(strict=True)

    p: Annotated[Tokens, Field(ge=1)]
    o: Tokens
    tool_s: Seconds | None = None
    think_s: Seconds | None = None


class _Steps(BaseModel):
    model_config = ConfigDict(strict=True)

    id: str | None = None
    prefix: Tokens = 0
    steps: list[_Step]


class _Message(BaseModel):
    model_config = ConfigDict(strict=True)

    role: str | None = None
    object: str | None = None
    content: Any = None
    extra: dict[str, Any] = Field(default_factory=dict)
    usage: dict[str, Any] | None = None
    ts: Seconds | None = None
    tool_calls: Any = None
    output: Any = None


class _Messages(BaseModel):
    model_config = ConfigDict(strict=True)

    id: str | None = None
    instance_id: str | None = None
    messages: list[_Message]


def from_steps(data: object) -> Recorded:
    """A session given by its steps.

    ``tool_s`` is the time after a step, ``think_s`` that before it, where there is no ``tool_s``: a person's often, so
    that at most :data:`THINK_S` of it count. What is null is taken as none, and so is a negative time (clocks are set
    back), and a reply of 0 tokens as one of 1.

    Raises:
        pydantic.ValidationError: naming the field.
    """
    session = _Steps.model_validate(data)
    befores = [*(min(step.think_s or 0.0, THINK_S) for step in session.steps[1:]), None]
    steps = (
        _step(step.p, step.o, before if step.tool_s is None else step.tool_s)
        for step, before in zip(session.steps, befores, strict=False)
    )
    return Recorded(session.id or "session", tuple(steps), session.prefix)


def from_messages(data: object) -> Recorded:
    """A session given by its messages: each reply is a step, and what follows it until the next is its tool's.

    Lengths are those of the reply's usage; without it, characters over four, of all messages before it and of its own.
    A tool has taken from the reply's time (``extra.timestamp``, or ``ts``) to that of the last message after it.

    Raises:
        pydantic.ValidationError: naming the field.
    """
    session = _Messages.model_validate(data)
    return Recorded(session.id or session.instance_id or "session", tuple(_message_steps(session.messages)))


def opening(data: Mapping[str, Any]) -> str:
    """What a session's first request holds, as text: to see what sessions share."""
    messages = _Messages.model_validate(data).messages
    texts = []
    for message in messages:
        if _is_reply(message):
            break
        texts.append(_text(message.content))
    return "\n".join(texts)


def _message_steps(messages: Sequence[_Message]) -> Iterator[RecordedStep]:
    before = 0
    for number, message in enumerate(messages):
        own = len(_text(message.content)) + len(_text(message.tool_calls)) + len(_text(message.output))
        if _is_reply(message):
            usage = _usage(message)
            prompt = usage.prompt or before // CHARS_PER_TOKEN
            output = own // CHARS_PER_TOKEN if usage.output is None else usage.output
            yield _step(max(1, prompt), output, _tool_s(messages, number))
        before += own


def _tool_s(messages: Sequence[_Message], reply: int) -> float | None:
    began, ended = _time(messages[reply]), None
    for message in messages[reply + 1 :]:
        if _is_reply(message):
            break
        ended = _time(message) or ended
    return None if began is None or ended is None else ended - began


def _is_reply(message: _Message) -> bool:
    # A reply that could not be parsed is kept in the complaint that answers it; and the Responses API has no role.
    return (
        message.role == "assistant" or message.object == "response" or isinstance(message.extra.get("response"), dict)
    )


def _usage(message: _Message) -> TokenUsage:
    response = message.extra.get("response")
    return TokenUsage.of(message.usage or (response.get("usage") if isinstance(response, dict) else None))


def _time(message: _Message) -> float | None:
    time = message.extra.get("timestamp", message.ts)
    return float(time) if isinstance(time, int | float) and not isinstance(time, bool) else None


def _text(content: object) -> str:
    if content is None:
        return ""
    return content if isinstance(content, str) else json.dumps(content)


def _step(prompt: int, output: int, wait: float | None) -> RecordedStep:
    return RecordedStep(prompt, max(1, output), max(0.0, wait or 0.0))
