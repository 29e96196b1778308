"""How agents ask the engine for a step, and whether the reply is their own, whole, and of the right length."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import httpx

from benchmarks.chaos.plan import StepPlan

__all__ = ["FIELD", "HEADER", "LONGEST_BACKOFF_S", "AgainError", "Whose", "WrongError", "ask"]

FIELD: Final = "chaos"
"""Of a request's body: whose step it is."""
HEADER: Final = "x-chaos"
"""Of a reply: whose step it answers."""
LONGEST_BACKOFF_S: Final = 0.5


class WrongError(Exception):
    """What no client could go on from."""


class AgainError(Exception):
    """This try has failed, and the next one may not."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


@dataclass(frozen=True, slots=True)
class Whose:
    """One try of one step."""

    agent: str
    step: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.agent}/{self.step}/{self.attempt}"


async def ask(
    http: httpx.AsyncClient,
    whose: Whose,
    messages: Sequence[Mapping[str, Any]],
    step: StepPlan,
    *,
    streams: bool,
    timeout_s: float,
    headers: Mapping[str, str] = {},
) -> tuple[str, dict[str, Any]]:
    """The reply's text and usage.

    Raises:
        WrongError: it was refused, or is not what was asked for.
        AgainError: it failed.
        httpx.TransportError: so did its connection.
    """
    body: dict[str, Any] = {"model": "emulated", "messages": messages, FIELD: asdict(whose)}
    if step.output is not None:
        body["max_tokens"] = step.output
    if streams:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    async with http.stream(
        "POST", "/v1/chat/completions", json=body, headers=dict(headers), timeout=timeout_s
    ) as response:
        raw = await response.aread()
    if response.status_code != httpx.codes.OK:
        why = f"{response.status_code} {raw[:200]!r}"
        if response.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
            raise WrongError(f"{whose}: refused with {why}")
        raise AgainError(why, float(response.headers.get("retry-after", 0)))
    if response.headers.get(HEADER, str(whose)) != str(whose):
        raise WrongError(f"{whose} got the reply to {response.headers[HEADER]}")
    content, usage = _of_stream(raw) if streams else _of_whole(raw)
    if step.output is not None and usage["completion_tokens"] != step.output:
        raise WrongError(f"{whose} got {usage['completion_tokens']} tokens instead of {step.output}")
    return content, usage


def _of_whole(raw: bytes) -> tuple[str, dict[str, Any]]:
    reply = json.loads(raw)
    if "error" in reply:  # after signs of life, an error can only come with status 200
        raise AgainError(str(reply["error"]))
    return reply["choices"][0]["message"]["content"], reply["usage"]


def _of_stream(raw: bytes) -> tuple[str, dict[str, Any]]:
    lines = [line.removeprefix(b"data:").strip() for line in raw.split(b"\n") if line.startswith(b"data:")]
    if not lines or lines[-1] != b"[DONE]":
        raise WrongError(f"a stream that ends as if it were whole: {raw[-200:]!r}")
    content, usage = "", None
    for line in lines[:-1]:
        event = json.loads(line)
        if "error" in event:
            raise AgainError(str(event["error"]))
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            content += choice["delta"].get("content") or ""
    if usage is None:
        raise WrongError("a whole stream without usage")
    return content, usage
