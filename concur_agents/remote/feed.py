"""A controller's events, numbered, for workers that ask for those after the last one they have."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from concur_agents.events import AgentEvent, Event, EventStream, ProblemEvent
from concur_agents.remote.values import from_json, to_json
from concur_agents.samples import WindowChange

__all__ = ["Feed", "event_of"]

_KEPT = 10_000
_FORGOTTEN_S = 60.0
"""After which nobody seems to listen any more."""
_KINDS: dict[str, type[Event]] = {"agent": AgentEvent, "problem": ProblemEvent, "window": WindowChange}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class Feed:
    """The last events, as long as somebody asks for them. In one event loop.

    Args:
        listen: opens a stream of the controller's, for so many events at most.
        clock: monotonic seconds.
    """

    def __init__(self, listen: Callable[[int], EventStream], clock: Callable[[], float]) -> None:
        self._listen = listen
        self._clock = clock
        self._kept: deque[tuple[int, Event]] = deque(maxlen=_KEPT)
        self._last = 0
        """The last event's number."""
        self._asked_at = 0.0
        self._stream: EventStream | None = None
        self._taking: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def after(self, number: int | None, *, wait_s: float, limit: int) -> dict[str, Any]:
        """Events after that one, oldest first, once there is one; how many before them are lost; the last's number.

        Args:
            number: of the last event that is known; None for none, which is answered at once.
            wait_s: answer within that.
            limit: events at most.
        """
        self._asked_at = self._clock()
        if self._taking is None:
            self._stream = self._listen(_KEPT)
            self._taking = asyncio.get_running_loop().create_task(self._take(self._stream))
        if number is None:
            return {"events": [], "last": self._last}
        if self._last <= number and not self._taking.done():
            news = self._news
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await news.wait()
            self._asked_at = self._clock()
        skipped = number + 1 - (self._last + 1 - len(self._kept))
        events = [
            {"number": each, "event": _NAMES[type(event)], **to_json(event)}
            for each, event in islice(self._kept, max(0, skipped), max(0, skipped) + limit)
        ]
        last = events[-1]["number"] if events else max(number, self._last)
        return {"events": events, "last": last, "missed": max(0, min(-skipped, self._last - number))}

    def tidy(self) -> None:
        """Listen no more when nobody has asked for a while. To be called now and then."""
        if self._taking is not None and self._clock() - self._asked_at > _FORGOTTEN_S:
            self.close()

    def close(self) -> None:
        """Listen no more, until somebody asks again: for whom something is missing then."""
        taking, self._taking = self._taking, None
        stream, self._stream = self._stream, None
        if taking is not None:
            taking.cancel()
            self._kept.clear()
            self._last += 1
        if stream is not None:
            stream.close()

    async def _take(self, stream: EventStream) -> None:
        async for event in stream:
            self._last += 1
            self._kept.append((self._last, event))
            self._tell()
        self._tell()  # the controller is closed: nothing comes any more

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def event_of(body: dict[str, Any]) -> Event:
    """An event, as it was told.

    Raises:
        ValueError: it is none.
    """
    kind = _KINDS.get(str(body.get("event")))
    if kind is None:
        raise ValueError(f"event must be one of {', '.join(_KINDS)}, got {body.get('event')!r:.80}")
    return from_json(kind, {name: value for name, value in body.items() if name != "event"})
