"""Fields of a request's body, checked as SGLang's schemas check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from concur_agents.emulator.problems import BadRequestError

__all__ = ["SCHEMA", "chosen_tools", "flag", "integer", "session_of", "text"]

SCHEMA = "Bad Request"
"""SGLang's ``type`` of what its schemas refuse."""


def text(body: Mapping[str, Any], name: str) -> str | None:
    """A string, or None.

    Raises:
        BadRequestError: it is anything else.
    """
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"{name}: Input should be a valid string", kind=SCHEMA)
    return value


def integer(body: Mapping[str, Any], name: str) -> int | None:
    """An integer, or None.

    Raises:
        BadRequestError: it is anything else.
    """
    value = body.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadRequestError(f"{name}: Input should be a valid integer", kind=SCHEMA)
    return value


def flag(body: Mapping[str, Any], name: str) -> bool:
    """Whether it is set."""
    return bool(body.get(name))


def session_of(request: Request, body: Mapping[str, Any]) -> str | None:
    """Which script the request is for, where it says so."""
    return request.headers.get("x-session-id") or text(body, "session_id") or text(body, "user")


def chosen_tools(tools: Sequence[Mapping[str, Any]] | None, choice: object) -> list[Mapping[str, Any]] | None:
    """The tools of a chat that its prompt shows: all but none where none may be called, and one that must be."""
    if tools is None or choice == "none":
        return None
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        return [tool for tool in tools if tool["function"].get("name") == choice["function"].get("name")]
    return list(tools)
