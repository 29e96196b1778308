"""One stream of several engines' events."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from concur_agents.events import Event, EventStream

__all__ = ["joined"]


def joined(streams: Sequence[list[EventStream]], size: int, *, closed: bool) -> EventStream:
    """A stream of what all engines say; it ends with the last of them.

    Args:
        streams: who hears each engine's events.
        size: events kept for a slow reader.
        closed: nothing will be said any more.
    """
    whole = EventStream(size, lambda _: _unsubscribe(parts))
    parts = [_Part(whole, subscribers) for subscribers in streams]
    for part in parts:
        part.siblings = parts
        part.subscribers.append(part)
    if closed:
        whole.close()
    return whole


class _Part(EventStream):
    """What one engine says."""

    def __init__(self, whole: EventStream, subscribers: list[EventStream]) -> None:
        super().__init__(1, lambda _: None)
        self.whole, self.subscribers = whole, subscribers
        self.siblings: list[_Part] = []
        self.ended = False

    def publish(self, event: Event) -> None:
        """See ``EventStream``."""
        self.whole.publish(event)

    def close(self) -> None:
        """See ``EventStream``."""
        super().close()
        self.ended = True
        if all(each.ended for each in self.siblings):
            self.whole.close()


def _unsubscribe(parts: list[_Part]) -> None:
    for part in parts:
        with contextlib.suppress(ValueError):  # closing twice is no error
            part.subscribers.remove(part)
