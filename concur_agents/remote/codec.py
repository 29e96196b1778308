"""Operations and answers to JSON and back: what is read is checked, and refused with the field and its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final, TypeVar

from concur_agents.remote.protocol import (
    LONGEST_WAIT_S,
    OPERATIONS,
    PAGE,
    AgentReport,
    Answer,
    Kind,
    Operation,
    RefusedError,
    Registered,
    UnreachableError,
    raise_refusal,
)
from concur_agents.samples import AgentState, Outcome
from concur_agents.usage import TokenUsage

__all__ = ["answer_of", "body_of", "parse"]

_LONGEST_NAME = 1024
_LARGEST = 2**53


def body_of(message: Operation | Answer | Registered | AgentReport) -> dict[str, Any]:
    """An operation's body, or an answer: what is not as by default, in JSON values."""
    body = {}
    for field in fields(message):
        value = getattr(message, field.name)
        if field.default is MISSING or value != field.default:
            body[field.name] = _plain(value)
    return body


def parse(operation: str, body: object) -> Operation:
    """Read an operation.

    Raises:
        RefusedError: it is none; names the field and its value.
    """
    kind = OPERATIONS.get(operation)
    try:
        if kind is None:
            raise ValueError(f"operation must be one of {', '.join(OPERATIONS)}, got {operation!r:.80}")
        if not isinstance(body, Mapping):
            raise ValueError(f"the body must be a JSON object, got {body!r:.80}")
        return _read(kind, body)
    except ValueError as error:
        raise RefusedError(Kind.INVALID, str(error)) from None


_Answer = TypeVar("_Answer", Answer, Registered)


def answer_of(kind: type[_Answer], body: Mapping[str, Any]) -> _Answer:
    """Read an answer.

    Raises:
        RefusedError: it says no.
        UnreachableError: it is no such answer.
    """
    raise_refusal(body)
    try:
        return _read(kind, {field.name: body[field.name] for field in fields(kind) if field.name in body})
    except ValueError as error:
        raise UnreachableError(f"the controller's answer is none: {error}") from None


_Message = TypeVar("_Message")


def _read(kind: type[_Message], body: Mapping[str, Any]) -> _Message:
    values = {}
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type] # all of them are dataclasses
    for name, value in body.items():
        if name not in known:
            raise ValueError(f"{name!r:.80} is no field of {kind.__name__.lower()}: {', '.join(known)}")
        if value is None and known[name].default is None:
            continue
        values[name] = _FIELDS[name](name, value)
    missing = [name for name, field in known.items() if field.default is MISSING and name not in values]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    return kind(**values)


def _plain(value: object) -> Any:
    if isinstance(value, TokenUsage):
        return {name: each for name in _USAGE if (each := getattr(value, name)) is not None}
    if isinstance(value, AgentReport):
        return body_of(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


def _text(name: str, value: object) -> str:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME:
        return value
    raise ValueError(f"{name} must be a text of 1 to {_LONGEST_NAME} characters, got {value!r:.80}")


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{name} must be true or false, got {value!r:.80}")


def _whole(least: int, most: int = _LARGEST) -> Callable[[str, object], int]:
    def check(name: str, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r:.80}")

    return check


def _seconds(least: float, most: float) -> Callable[[str, object], float]:
    def check(name: str, value: object) -> float:
        # A whole number may be too large for a float; comparing it is no problem.
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        raise ValueError(f"{name} must be a number of seconds from {least:g} to {most:g}, got {value!r:.80}")

    return check


def _state(name: str, value: object) -> AgentState:
    return AgentState(_one_of(name, value, AgentState))


def _outcome(name: str, value: object) -> Outcome:
    return Outcome(_one_of(name, value, Outcome))


def _one_of(name: str, value: object, kind: type[AgentState | Outcome]) -> str:
    words = [each.value for each in kind]
    if isinstance(value, str) and value in words:
        return value
    raise ValueError(f"{name} must be one of {', '.join(words)}, got {value!r:.80}")


_USAGE = ("prompt", "cached", "output")


def _usage(name: str, value: object) -> TokenUsage:
    """Ours, or what an engine's reply has."""
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{name} must be an object with prompt, cached and output, or a reply's usage, got {value!r:.80}"
        )
    if not set(value) <= {*_USAGE}:
        return TokenUsage.of(value)
    return TokenUsage(**{each: _whole(0)(f"{name}.{each}", value[each]) for each in value if value[each] is not None})


def _reports(name: str, value: object) -> tuple[AgentReport, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, Mapping) for each in value):
        raise ValueError(f"{name} must be a list of objects, got {value!r:.80}")
    return tuple(_read(AgentReport, each) for each in value)


def _endings(name: str, value: object) -> tuple[tuple[str, Outcome], ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(each, list | tuple) and len(each) == 2 for each in value
    ):
        raise ValueError(f"{name} must be a list of [agent, outcome], got {value!r:.80}")
    return tuple((_text(name, agent), _outcome(name, outcome)) for agent, outcome in value)


def _names(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list of names, got {value!r:.80}")
    return tuple(_text(name, each) for each in value)


# A field means the same wherever it is.
_FIELDS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "after": _whole(0),
    "age_s": _seconds(0, 1e9),
    "agent": _text,
    "agents": _reports,
    "changed": _flag,
    "context_tokens": _whole(0),
    "ended": _endings,
    "engine": _text,
    "engines": _names,
    "granted": _flag,
    "keep": _flag,
    "key": _text,
    "lease_s": _seconds(0.1, 86_400),
    "limit": _whole(1, PAGE),
    "offset": _whole(0),
    "outcome": _outcome,
    "parent": _text,
    "protocol": _whole(1),
    "seq": _whole(0),
    "state": _state,
    "steps": _whole(0),
    "suspend": _flag,
    "suspended": _flag,
    "taken": _names,
    "usage": _usage,
    "wait_s": _seconds(0, LONGEST_WAIT_S),
    "worker": _text,
}
