"""Who runs agents, on whose lease, and what each agent's worker said last. No clock of its own, no seats."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from concur_agents.limiter import Request

__all__ = ["Held", "Worker"]

# Ended agents of a worker whose last operation is remembered, and keys of an agent's requests that are over: what may
# still come twice. Far more than can be under way at a time.
_ENDED, _KEYS = 10_000, 8


@dataclass(slots=True, eq=False)
class Worker:
    """A process that runs agents; or, for whoever says no worker's name, one agent's stand-in for it."""

    name: str
    lease_s: float
    until: float
    """Seconds on the desk's clock."""
    named: bool = True
    seq: int = 0
    """Of its last registration: what comes with less is over."""
    agents: set[str] = field(default_factory=set)
    ended: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def renew(self, now: float) -> None:
        """It was heard of."""
        self.until = now + self.lease_s

    def is_over(self, agent: str, seq: int | None) -> bool:
        """Whether an operation on an agent that is not there comes late."""
        return seq is not None and (seq < self.seq or seq <= self.ended.get(agent, -1))

    def end(self, agent: str, seq: int) -> None:
        """The agent is gone; its last operation was that."""
        self.agents.discard(agent)
        if seq >= 0:
            self.ended[agent] = seq
            self.ended.move_to_end(agent)
            if len(self.ended) > _ENDED:
                self.ended.popitem(last=False)


@dataclass(slots=True, eq=False)
class Held:
    """One agent of a worker."""

    agent: str
    worker: Worker
    seq: int = -1
    """Of the last operation done."""
    answer: dict[str, Any] = field(default_factory=dict)
    """To that."""
    key: str | None = None
    """Of the request that waits, or of the generation that runs."""
    past: deque[str] = field(default_factory=lambda: deque(maxlen=_KEYS))
    request: Request | None = None
    """Waits, or was granted and nobody has come for it yet."""
    over: bool = False
    """What was asked for last was granted, and has ended; or was taken back."""
    suspended: bool = False
    until: float | None = None
    """Nobody's any more, and kept until then."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Something happened that who waits for the seat must see."""

    def wake(self) -> None:
        """Have those who wait look again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def done(self) -> None:
        """The request is over, or its generation."""
        if self.key is not None:
            self.past.append(self.key)
        self.key, self.request, self.over = None, None, True
        self.wake()
