"""Errors in Anthropic's form, which tell less than the engine knows, as SGLang's do."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from concur_agents.emulator.fields import SCHEMA
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.wire import Json

__all__ = ["INVALID", "error_event", "refusal"]

INVALID = "invalid_request_error"
_LONGEST = 500  # characters of a message


def refusal(problem: BadRequestError) -> Json:
    """The reply to a request that is not served."""
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind, message = _kind(problem.status), "Internal server error"
    else:
        # What the chat below refuses keeps the chat's own name for it.
        kind = INVALID if problem.kind == SCHEMA else problem.kind
        message = str(problem)
        message = message if len(message) <= _LONGEST else message[:_LONGEST] + "…"
    return Json({"type": "error", "error": {"type": kind, "message": message}}, status_code=problem.status)


def error_event(problem: BadRequestError) -> dict[str, Any]:
    """The same in a stream, where the message is told."""
    return {"type": "error", "error": {"type": _kind(problem.status), "message": str(problem)}}


def _kind(status: int) -> str:
    return {400: INVALID, 503: "overloaded_error"}.get(status, "api_error")
