"""What bounds a gateway: everything that could grow, and every wait."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

__all__ = ["GatewayLimits"]

_MIB = 2**20
_MAY_BE_0 = ("engine_wait", "hold_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Bounds, each with a default that no well-behaved batch meets.

    Raises:
        ValueError: one is out of range; names it and its value.
    """

    max_body: int = 64 * _MIB
    """Bytes of one request's body; more is answered with 413. >= 1."""
    max_held: int = 2048 * _MIB
    """Bytes of all bodies held at a time, most of them of queued requests; more is answered with 503. >= 1."""
    max_requests: int = 10_000
    """Requests held at a time; more are answered with 503. >= 1."""
    max_agents: int = 100_000
    """Agents known at a time; beyond it those idle for longest are taken to have ended. >= 1."""
    idle_after: float = 900.0
    """Seconds without a request after which an agent is taken to have ended; never while one is in flight. > 0."""
    done_after: float = 60.0
    """The same, of an agent whose last reply looked like its last: it called no tool, or one that ends a task. > 0."""
    park_after: float = 30.0
    """Seconds in a tool after which an agent's seat goes to others that wait, until the batch's own tools are known.
    > 0."""
    hold: float = math.inf
    """Seconds a request may wait for its seat before it is answered with 503 and Retry-After. > 0."""
    hold_share: float = 0.8
    """The same, as a share of the timeout that a client announces; the rest is for the generation itself. 0 to 1."""
    engine_wait: float = 60.0
    """Seconds a request waits for an engine that takes no connections, before it is answered with 503. >= 0."""
    heartbeat: float = 15.0
    """Seconds between signs of life to a client that announced its last try. > 0."""
    send_wait: float = 60.0
    """Seconds that a client may take for a request's head, and for each next piece of its body; then its connection is
    cut. > 0."""
    read_wait: float = 600.0
    """Seconds in which a client must have read something of a reply that waits for it; then its connection is cut, and
    its agent is at its boundary. > 0."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
                raise ValueError(f"{field.name} must be a number, got {value!r}")
            if field.name.startswith("max_") and (value < 1 or not isinstance(value, int)):
                raise ValueError(f"{field.name} must be a whole number >= 1, got {value!r}")
            if value < 0 or (value == 0 and field.name not in _MAY_BE_0):
                least = "at least" if field.name in _MAY_BE_0 else "above"
                raise ValueError(f"{field.name} must be {least} 0, got {value!r}")
        if self.hold_share > 1:
            raise ValueError(f"hold_share must be from 0 to 1, got {self.hold_share!r}")
