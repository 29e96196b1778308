"""The engines, where a controller has several, as one of its workers knows them. Runs in the background loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from concur_agents.remote.link import GoneError, Link
from concur_agents.remote.lives import Life
from concur_agents.remote.protocol import Refused, RefusedError

__all__ = ["Places"]

_AGAIN_S = 1.0
"""Within which it is said only once that an engine refuses connections; all its agents find out at once."""
_REFUSED_S = 10.0
"""For which an engine that did so gets no agents that go on without control, while there are others."""


class Places:
    """Which engines there are, and which agents of this process are on them.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.all: tuple[str, ...] = ()
        self.known = False
        """The controller has said which there are."""
        self._at: Final[dict[str, str]] = {}
        """The engine of each agent, for other threads to look at."""
        self._clock = clock
        self._refused_at: dict[str, float] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def refused(self, engine: str, link: Link) -> None:
        """An engine took no connection: the controller is to know before our agents ask for their next seats."""
        now = self._clock()
        if engine not in self.all or now - self._refused_at.get(engine, -_AGAIN_S) < _AGAIN_S:
            return
        self._refused_at[engine] = now
        task = asyncio.get_running_loop().create_task(_tell(engine, link))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def told(self) -> None:
        """Wait until the controller knows it: for its patience at most."""
        if self._telling:
            await asyncio.wait(tuple(self._telling))

    def choose(self, life: Life, lives: Iterable[Life]) -> None:
        """Where an agent goes on of which the controller says nothing: where it was, if that takes connections."""
        if not self.all:
            return
        since = self._clock() - _REFUSED_S
        good = [each for each in self.all if self._refused_at.get(each, since) <= since] or list(self.all)
        if life.engine in good:
            return
        everyone = list(lives)
        above = next((each.engine for each in everyone if each.agent_id == life.parent), None)
        counts = Counter(each.engine for each in everyone)
        life.engine = above if above in good else min(good, key=counts.__getitem__)

    def of(self, agent_id: str) -> str | None:
        """The engine of an agent that generates, or has; None where there is only one. From any thread."""
        return self._at.get(agent_id)

    def note(self, life: Life) -> None:
        """For other threads: the agent generates."""
        if life.engine is None:
            self._at.pop(life.agent_id, None)
        else:
            self._at[life.agent_id] = life.engine

    def forget(self, agent_id: str) -> None:
        """It has ended."""
        self._at.pop(agent_id, None)


async def _tell(engine: str, link: Link) -> None:
    await link.settled()
    with contextlib.suppress(GoneError, RefusedError):
        await link.say(Refused(worker=link.worker, engine=engine))
