"""A peer's window on agents (or on requests), and who is within it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Self

from benchmarks.lab.arms.base import Scene
from benchmarks.lab.arms.peers.gate import Guest, PeerGate
from concur_agents import EngineSample, TokenUsage

__all__ = ["Limit", "WindowGate"]


class Limit(ABC):
    """A peer's law. Frozen: each method returns what it is from then on."""

    __slots__ = ()

    poll_s = 1.0
    """Seconds between two readings of the engine."""

    @property
    @abstractmethod
    def window(self) -> int:
        """How many may be within. >= 1."""

    @property
    def parks(self) -> bool:
        """Whether whoever is above the window loses its place at its boundary; else it stays until its end."""
        return True

    def replied(self, seconds: float, in_flight: int, now: float, *, dropped: bool) -> Self:  # noqa: ARG002 - for others
        """A request took so long in the engine; so many were within when it began."""
        return self

    def polled(self, sample: EngineSample | None, in_flight: int) -> Self:  # noqa: ARG002 - for others
        """The engine's metrics were read, or could not be."""
        return self

    def finished(self, in_flight: int) -> Self:  # noqa: ARG002 - for others
        """An agent has ended; so many were within, with it."""
        return self


class WindowGate(PeerGate):
    """Lets as many in as a law says; first in, first out, those that have run before new ones.

    An agent within stays so through its tools, until it ends. A window that shrinks takes the places of the youngest,
    at once of those in a tool, at their boundary of those that generate: none of these peers says how, so they have
    what the project's own admission does. On requests a place is for one request, and none is ever taken.

    Args:
        scene: the cell.
        limit: the law.
        requests: whether requests are counted, not agents.
    """

    def __init__(self, scene: Scene, limit: Limit, *, requests: bool = False) -> None:
        super().__init__(scene)
        self.limit = limit
        self.within: dict[Guest, None] = {}
        self.marked: set[Guest] = set()
        """Those within that lose their places at their boundaries."""
        self._requests = requests
        self._returning: OrderedDict[Guest, None] = OrderedDict()
        self._new: OrderedDict[Guest, None] = OrderedDict()
        self._at_start: dict[Guest, int] = {}
        self._every = self.ticks(limit.poll_s)
        self._ticked = 0
        self._last: EngineSample | None = None

    @property
    def in_flight(self) -> int:
        """Those within that keep their places."""
        return len(self.within) - len(self.marked)

    def asked(self, guest: Guest, prompt: int) -> None:  # noqa: ARG002 - heads are counted
        """See :class:`PeerGate`."""
        if guest in self.within:
            self._go(guest)
            return
        (self._new if guest.steps == 1 or self._requests else self._returning)[guest] = None
        self._settle()

    def replied(self, guest: Guest, usage: TokenUsage | None, seconds: float | None) -> None:
        """See :class:`PeerGate`."""
        in_flight = self._at_start.pop(guest, 1)
        if self._requests or guest in self.marked:
            self._out(guest)
        if seconds is not None:
            self.limit = self.limit.replied(seconds, in_flight, self.clock(), dropped=usage is None)
        self._settle()

    def withdrew(self, guest: Guest) -> None:
        """See :class:`PeerGate`."""
        self._new.pop(guest, None)
        self._returning.pop(guest, None)

    def left(self, guest: Guest) -> None:
        """See :class:`PeerGate`."""
        self._out(guest)
        if guest.steps:
            self.limit = self.limit.finished(self.in_flight + 1)
        self._settle()

    def tick(self) -> None:
        """See :class:`benchmarks.lab.gate.Gate`."""
        self._ticked += 1
        if self._ticked % self._every == 0:
            reading = self.read()
            sample = None if reading is None else reading.since(self._last)
            self._last = reading or self._last
            self.limit = self.limit.polled(sample, self.in_flight)
            self._settle()

    def _settle(self) -> None:
        over = self.in_flight - self.limit.window
        if over > 0 and self.limit.parks and not self._requests:
            kept = [guest for guest in self.within if guest not in self.marked]
            for guest in sorted(kept, key=lambda g: -g.number)[:over]:
                if guest.generating:
                    self.marked.add(guest)
                else:
                    self._out(guest)
        elif over < 0 and self.marked:
            self.marked.difference_update(sorted(self.marked, key=lambda g: g.number)[:-over])
        for queue in (self._returning, self._new):
            while queue and len(self.within) < self.limit.window:
                guest = queue.popitem(last=False)[0]
                self.within[guest] = None
                self._go(guest)

    def _go(self, guest: Guest) -> None:
        self._at_start[guest] = self.in_flight
        self.grant(guest)

    def _out(self, guest: Guest) -> None:
        self.within.pop(guest, None)
        self.marked.discard(guest)
