"""A request's body, read as JSON only by those who need to, and once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["Body", "field"]

_Read = TypeVar("_Read")
# Parsing takes about a millisecond for each 100 kB; beyond this the event loop's other streams would notice.
_LARGE = 512 * 1024


class Body:
    """The bytes as they came, and what they say.

    Args:
        raw: of the request.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._parsed: Mapping[str, Any] | None = None

    async def parsed(self) -> Mapping[str, Any]:
        """The JSON object in it; empty where it is none, or is none that can be read."""
        if self._parsed is None:
            self._parsed = await self.read(lambda: _load(self.raw))
        return self._parsed

    async def read(self, reading: Callable[[], _Read]) -> _Read:
        """The result of something that takes longer the longer the body is."""
        return await asyncio.to_thread(reading) if len(self.raw) > _LARGE else reading()


def field(body: Mapping[str, Any], path: str) -> str | None:
    """A text or whole number under a dotted path; None where there is none."""
    value: Any = body
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def _load(raw: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
