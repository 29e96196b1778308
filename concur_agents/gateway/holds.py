"""How long a client lets us wait, by what it says, and what to do when that time is nearly over."""

from __future__ import annotations

import math
from typing import NamedTuple

from concur_agents.gateway.identity import Headers
from concur_agents.gateway.limits import GatewayLimits

__all__ = ["Hold", "hold_of"]

# What the SDKs of OpenAI and Anthropic announce; in seconds, as everything here.
_TIMEOUTS = ("x-stainless-read-timeout", "x-stainless-timeout")
_TRY = "x-stainless-retry-count"
_TRIES = 2
"""Retries that these SDKs make by default: who is at the last one, and is told to come back, does not."""


class Hold(NamedTuple):
    """How long a request may wait for its seat."""

    seconds: float
    last_try: bool
    """The client will not ask again: better a reply that begins with signs of life than none."""


def hold_of(headers: Headers, limits: GatewayLimits) -> Hold:
    """What a request's headers say of it."""
    announced = min((_number(headers.get(name, "")) for name in _TIMEOUTS), default=math.inf)
    seconds = min(limits.hold, announced * limits.hold_share if announced < math.inf else math.inf)
    tries = _number(headers.get(_TRY, ""))
    return Hold(seconds, tries < math.inf and tries >= _TRIES)


def _number(text: str) -> float:
    """Seconds or a count; ``inf`` for anything else, which says nothing."""
    try:
        value = float(text)
    except ValueError:
        return math.inf
    return value if value >= 0 else math.inf
