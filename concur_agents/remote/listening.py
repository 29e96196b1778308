"""A remote controller's events in this process, as a stream like any other. Runs in the background loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from concur_agents.events import EventStream, ProblemEvent
from concur_agents.remote.feed import event_of
from concur_agents.remote.link import GoneError, Link, Standing
from concur_agents.remote.protocol import ReadEvents, RefusedError

__all__ = ["Listener"]

_log = logging.getLogger("concur_agents.remote")

_POLL_S = 20.0
_AGAIN_S = 0.5


class Listener:
    """Asks for events, and hands them on.

    Args:
        stream: who hears them.
        link: to the controller.
        told: waits until all that was said before is told.
    """

    def __init__(self, stream: EventStream, link: Link, told: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._link = link
        self._told = told
        self._life: str | None = None
        """Of the controller: another one numbers events anew."""
        self._last: int | None = None
        self._at = 0.0
        """The last event's time, on the controller's clock."""
        self._gone = False

    async def begin(self) -> None:
        """From now on nothing is missed, if the controller is there."""
        await self._told()
        await self._link.settled()
        if self._link.standing is Standing.UP:
            await self._ask(0.0)

    async def run(self) -> None:
        """Until cancelled, or the controller knows no events."""
        while True:
            await self._link.settled()
            if self._link.standing is Standing.UP:
                try:
                    await self._ask(_POLL_S)
                    continue
                except RefusedError as refused:
                    _log.warning("the controller tells no events: %s", refused)
                    self._stream.close()
                    return
                except GoneError:
                    pass
            if self._link.standing is Standing.DOWN and not self._gone:
                self._gone = True
                self._say(f"the controller is gone ({self._link.problem}): what happens there is not told")
            await asyncio.sleep(_AGAIN_S)

    async def _ask(self, wait_s: float) -> None:
        answer = await self._link.say(ReadEvents(after=self._last, wait_s=wait_s), wait_s=wait_s)
        life, before = str(answer["controller"]), self._life
        if before is not None and (self._gone or life != before):
            self._say(None)
        self._gone = False
        if life != before:
            self._life, self._last = life, None if before is not None else int(answer["last"])
            return  # its numbers are others: asked again, it says from where on
        missed = int(answer.get("missed", 0))
        if missed:
            self._stream.dropped += missed
        for body in answer["events"]:
            try:
                event = event_of(body)
            except ValueError as error:
                _log.debug("an event is passed over: %s", error)  # a newer controller's
                continue
            self._at = event.at
            self._stream.publish(event)
        self._last = int(answer["last"])

    def _say(self, problem: str | None) -> None:
        self._stream.publish(ProblemEvent(at=self._at, problem=problem))
