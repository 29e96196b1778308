"""llm-d's ``thunder-agent`` plugin, as its code decides. See ``README.md`` beside this file.

::

    room     = util C - sum(size of admitted agents, in a tool or not)      size = max(last reply's, request's)
    admitted   always goes; what it grew by is taken from victims, as far as there are any
    others     go if min(size, util C) <= room + sum(victims):  whoever waited too long, then paused, then new;
               each smallest first, and whoever does not fit is passed over
    victims    admitted and idle for `lease`, longest idle first: they become paused
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.arms.peers.gate import Guest, PeerGate
from benchmarks.lab.arms.peers.parameters import parameters
from concur_agents import TokenUsage

__all__ = ["LlmdGate", "LlmdRules", "llm_d"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmdRules:
    """The plugin's parameters, under shorter names."""

    util: float = 1.0
    """Share of the pool to fill (utilThreshold)."""
    lease_s: float = 30.0
    """Seconds idle before an agent may lose its room (idleLeaseSeconds)."""
    starve_s: float = 1800.0
    """Seconds after which a request goes in any case (headWaitStarvationMs). 0 for never.

    Its default is 30 s, with which a batch that waits is hardly held back at all; its author's own measurements have
    half an hour, and so has this.
    """
    evict_s: float = 3600.0
    """Seconds idle before an agent is forgotten (evictionTtlSeconds)."""
    ends: float = 0.0
    """1 to let an agent's room go when it ends. The plugin is not told of ends: its room goes by lease or eviction."""


class LlmdGate(PeerGate):
    """Decides when a request comes or ends, not by the clock: the plugin is asked about a thousand times a second."""

    def __init__(self, scene: Scene, rules: LlmdRules) -> None:
        super().__init__(scene)
        self.rules = rules
        self.ceiling = rules.util * scene.capacity_tokens
        self.admitted: dict[Guest, int] = {}
        """With the tokens each is counted with."""
        self.paused: set[Guest] = set()
        self.occupied = 0
        self._idle: OrderedDict[Guest, None] = OrderedDict()
        """Admitted and between requests, longest idle first."""
        self._sizes: dict[Guest, int] = {}
        """Of those that wait."""
        self._queues: tuple[list[tuple[int, int, Guest]], ...] = ([], [])
        """Paused and new ones that wait, by size and then by coming; with entries of some that wait no longer."""
        self._gone: set[Guest] = set()
        """Admitted, and ended: what nobody told the plugin."""
        self._asked = 0

    # --- requests ---

    def asked(self, guest: Guest, prompt: int) -> None:
        """See :class:`PeerGate`."""
        size = max(guest.tokens, prompt, 1)
        if guest in self.admitted:
            self._idle.pop(guest, None)
            self._reclaim(self.ceiling - self.occupied, size - self.admitted[guest])
            self._admit(guest, size)
            return
        self._asked += 1
        self._sizes[guest] = size
        heapq.heappush(self._queues[guest not in self.paused], (size, self._asked, guest))
        self._dispatch()

    def replied(self, guest: Guest, usage: TokenUsage | None, seconds: float | None) -> None:  # noqa: ARG002 - not theirs
        """See :class:`PeerGate`."""
        if usage is not None and usage.context is not None:
            guest.tokens = usage.context
        self._count(guest, guest.tokens)
        self._idle[guest] = None
        self._dispatch()

    def withdrew(self, guest: Guest) -> None:
        """See :class:`PeerGate`."""
        self._sizes.pop(guest, None)

    def left(self, guest: Guest) -> None:
        """See :class:`PeerGate`."""
        self.paused.discard(guest)
        if guest not in self.admitted:
            return
        if self.rules.ends:
            self._forget(guest)
            self._dispatch()
        else:
            self._gone.add(guest)

    def tick(self) -> None:
        """See :class:`benchmarks.lab.gate.Gate`. Leases and patience run out with time."""
        for guest in list(self._idle_for(self.rules.evict_s)):
            self._forget(guest)
        self._dispatch()

    # --- the gate ---

    def _dispatch(self) -> None:
        while self._sizes and (guest := self._next()) is not None:
            size = self._sizes.pop(guest)
            self._reclaim(self.ceiling - self.occupied, min(size, self.ceiling))
            self.paused.discard(guest)
            self._admit(guest, size)

    def _next(self) -> Guest | None:
        oldest = next(iter(self.waiting))
        if self.rules.starve_s and self.clock() - oldest.waiting_since >= self.rules.starve_s:
            return oldest
        room = self.ceiling - self.occupied + sum(self.admitted[guest] for guest in self._idle_for(self.rules.lease_s))
        for queue in self._queues:
            while queue and self._sizes.get(queue[0][2]) != queue[0][0]:
                heapq.heappop(queue)
            if queue and min(queue[0][0], self.ceiling) <= room:
                return heapq.heappop(queue)[2]
        return None

    def _idle_for(self, seconds: float) -> Iterator[Guest]:
        now = self.clock()
        for guest in self._idle:
            if now - guest.idle_since < seconds:
                return
            yield guest

    def _reclaim(self, room: float, need: float) -> None:
        for guest in list(self._idle_for(self.rules.lease_s)) if room < need else ():
            if room >= need:
                return
            room += self.admitted[guest]
            if guest not in self._gone:
                self.paused.add(guest)
            self._forget(guest)

    def _admit(self, guest: Guest, size: int) -> None:
        self._count(guest, size)
        self.grant(guest)

    def _count(self, guest: Guest, size: int) -> None:
        self.occupied += size - self.admitted.get(guest, 0)
        self.admitted[guest] = size

    def _forget(self, guest: Guest) -> None:
        self.occupied -= self.admitted.pop(guest)
        self._idle.pop(guest, None)
        self._gone.discard(guest)


def llm_d(name: str, argument: str) -> Arm:
    """llm-d's plugin: ``llm-d``; ``llm-d:lease-s=5`` changes its parameters."""
    rules = parameters(LlmdRules, argument)
    return Arm(name, lambda scene: LlmdGate(scene, rules))
