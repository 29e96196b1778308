"""The queue of free cached blocks, in the order in which they are going to be reused."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

__all__ = ["FreeList", "Link"]


class Link(Protocol):
    """What can be in a list: in one at a time."""

    before: Link | None
    after: Link | None


L = TypeVar("L", bound=Link)


class _End:
    def __init__(self) -> None:
        self.before: Link | None = self
        self.after: Link | None = self


class FreeList(Generic[L]):
    """A doubly linked list of entries: any of them can be taken out in constant time."""

    def __init__(self) -> None:
        self._end = _End()

    @property
    def first(self) -> L | None:
        """The entry to be reused next."""
        first = self._end.after
        return None if first is self._end else first  # type: ignore[return-value]

    def append(self, entry: L) -> None:
        """Put an entry where it is reused last."""
        self._insert(entry, self._end)

    def insert_before(self, entry: L, place: L) -> None:
        """Put an entry so that it is reused right before another of the list."""
        self._insert(entry, place)

    def insert_after(self, entry: L, place: L) -> None:
        """Put an entry so that it is reused right after another of the list."""
        assert place.after is not None  # noqa: S101 - it is in the list
        self._insert(entry, place.after)

    def remove(self, entry: L) -> None:
        """Take an entry out."""
        before, after = entry.before, entry.after
        assert before is not None  # noqa: S101 - it is in the list
        assert after is not None  # noqa: S101
        before.after, after.before = after, before
        entry.before = entry.after = None

    @staticmethod
    def _insert(entry: Link, place: Link) -> None:
        before = place.before
        assert before is not None  # noqa: S101 - it is in the list
        before.after = place.before = entry
        entry.before, entry.after = before, place
