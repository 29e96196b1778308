"""Families by age: who of many is the oldest, or the youngest, while they come and go."""

from __future__ import annotations

import heapq

from concur_agents.families import Family

__all__ = ["ByAge"]

# Entries of who left go stale in the heap, until there are so many for each that is not. So nobody who is gone is held
# for long, and an operation costs no more than O(log n).
_STALE, _FEW = 2, 64


class ByAge:
    """A set of families with an end: the oldest first, or the youngest. Every operation is O(log n), amortized.

    Args:
        youngest: whether the youngest is first.
    """

    def __init__(self, *, youngest: bool = False) -> None:
        self._sign = -1 if youngest else 1
        self._families: set[Family] = set()
        self._heap: list[tuple[int, Family]] = []

    def add(self, family: Family) -> None:
        """Take it in; nothing happens when it is there."""
        if family in self._families:
            return
        self._families.add(family)
        heapq.heappush(self._heap, (self._sign * family.age, family))

    def discard(self, family: Family) -> None:
        """Let it go; nothing happens when it is not there."""
        self._families.discard(family)
        if len(self._heap) > _STALE * len(self._families) + _FEW:
            self.reorder()

    def reorder(self) -> None:
        """Ages have changed."""
        self._heap = [(self._sign * each.age, each) for each in self._families]
        heapq.heapify(self._heap)

    def first(self) -> Family | None:
        """The oldest (or youngest); None when nobody is there."""
        while self._heap:
            if (family := self._heap[0][1]) in self._families:
                return family
            heapq.heappop(self._heap)
        return None

    def __len__(self) -> int:
        return len(self._families)
