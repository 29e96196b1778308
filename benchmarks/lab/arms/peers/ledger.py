"""A ledger of tokens against the pool: what ThunderAgent and Dynamo's port of it have in common.

::

    used   = sum(generating) + w sum(in tool) + 100 n
    enter    if nobody is paused and C - used >= estimate + 100
    tick     resume   while used + tokens + 100 <= resume C:  held-back requests, then new agents, then those in a tool;
                      each smallest first, and whoever does not fit is passed over
             then, if used > above C:
             pause    the smallest in a tool, down to `to` C
             mark     all that generate, if that was not enough: they are paused when their reply comes
    force    whoever was held back for 1,800 s

A mark frees nothing in the ledger, so once one is marked all are; both sources do so.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from benchmarks.lab.arms.base import Scene
from benchmarks.lab.arms.peers.gate import Guest, PeerGate
from concur_agents import TokenUsage

__all__ = ["LedgerGate", "LedgerRules"]

BUFFER = 100
"""Tokens set aside for each agent beside its context (BUFFER_PER_PROGRAM, buffer_per_program)."""
_HELD_BACK, _NEW, _IN_TOOL = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRules:
    """The numbers. Shares are of the pool."""

    tick_s: float = 5.0
    """Seconds between two looks at the ledger."""
    above: float = 1.0
    """Pause when more is used than this share."""
    to: float = 1.0
    """Pause down to this share."""
    resume: float = 1.0
    """Resume up to this share."""
    weight: float = 1.0
    """Of the tokens of an agent in a tool, the share that counts."""
    half_life_s: float = 0.0
    """Seconds in a tool after which an agent counts half when others are resumed; 0 for no decay."""
    force_s: float = 1800.0
    """Seconds after which a request goes whatever the ledger says."""


class LedgerGate(PeerGate):
    """Agents that are active, and agents that are paused.

    Args:
        scene: the cell.
        rules: the numbers.
    """

    def __init__(self, scene: Scene, rules: LedgerRules) -> None:
        super().__init__(scene)
        self.rules = rules
        self.active: dict[Guest, None] = {}
        self.paused: dict[Guest, int] = {}
        """With the tokens each had when it was paused."""
        self.marked: set[Guest] = set()
        self._every = self.ticks(rules.tick_s)
        self._ticked = 0

    @abstractmethod
    def estimate(self, guest: Guest, prompt: int) -> int:
        """What the request is taken to hold, before its reply says."""

    @abstractmethod
    def rank(self, guest: Guest) -> int:
        """Tokens that paused agents are put in order by."""

    def used(self, *, decayed: bool = False) -> int:
        """Tokens of the active agents, as the ledger counts them."""
        return sum(self._counts(guest, decayed=decayed) + BUFFER for guest in self.active)

    def _counts(self, guest: Guest, *, decayed: bool) -> int:
        if not guest.in_tool:
            return guest.tokens
        share = self.rules.weight
        if decayed and self.rules.half_life_s > 0:
            share *= math.exp2(-(self.clock() - guest.idle_since) / self.rules.half_life_s)
        return int(share * guest.tokens)

    # --- requests ---

    def asked(self, guest: Guest, prompt: int) -> None:
        """See :class:`PeerGate`."""
        guest.tokens = self.estimate(guest, prompt)
        if guest in self.paused:
            return
        if guest not in self.active:
            if self.paused or self.capacity - self.used() < guest.tokens + BUFFER:
                self.paused[guest] = guest.tokens
                return
            self.active[guest] = None
        self.grant(guest)

    def replied(self, guest: Guest, usage: TokenUsage | None, seconds: float | None) -> None:  # noqa: ARG002 - not theirs
        """See :class:`PeerGate`."""
        if usage is not None and usage.context is not None:
            guest.tokens = usage.context
        if guest in self.marked:
            self._pause(guest)

    def withdrew(self, guest: Guest) -> None:
        """See :class:`PeerGate`. It stays paused."""

    def left(self, guest: Guest) -> None:
        """See :class:`PeerGate`. Its tokens are free at once, and taken at the next tick."""
        self.active.pop(guest, None)
        self.paused.pop(guest, None)
        self.marked.discard(guest)

    # --- the ledger ---

    def tick(self) -> None:
        """See :class:`benchmarks.lab.gate.Gate`."""
        now = self.clock()
        for guest in [g for g in self.waiting if now - g.waiting_since >= self.rules.force_s]:
            self._resume(guest)
        self._ticked += 1
        if self._ticked % self._every == 0:
            self._resume_some()
            self._pause_some()

    def _resume_some(self) -> None:
        room = math.floor(self.rules.resume * self.capacity) - self.used(decayed=True)
        if room <= BUFFER:
            return
        chosen, taken = [], 0
        for guest in sorted(self.paused, key=lambda g: (_group(g), self.rank(g))):
            if taken + guest.tokens + BUFFER <= room:
                chosen.append(guest)
                taken += guest.tokens + BUFFER
        for guest in sorted(chosen, key=lambda g: -g.tokens):  # the largest is placed first
            self._resume(guest)

    def _pause_some(self) -> None:
        used, limit = self.used(), self.rules.to * self.capacity
        if used <= self.rules.above * self.capacity:
            return
        for guest in sorted((g for g in self.active if g.in_tool), key=lambda g: g.tokens):
            if used <= limit:
                return
            used -= self._counts(guest, decayed=False) + BUFFER
            self._pause(guest)
        if used > limit:
            self.marked.update(self.active)

    def _pause(self, guest: Guest) -> None:
        self.marked.discard(guest)
        del self.active[guest]
        self.paused[guest] = guest.tokens

    def _resume(self, guest: Guest) -> None:
        self.paused.pop(guest, None)
        self.active[guest] = None
        self.grant(guest)


def _group(guest: Guest) -> int:
    if guest.steps <= 1:
        return _NEW
    return _HELD_BACK if guest.waiter is not None else _IN_TOOL
