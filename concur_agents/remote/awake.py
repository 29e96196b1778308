"""How long this process has run: while it is stopped, or its machine sleeps, nobody can be taken not to answer."""

from __future__ import annotations

import asyncio

__all__ = ["Awake"]


class Awake:
    """A clock that stands while its event loop does.

    Args:
        tick_s: seconds between two looks; a loop that is late by more has stood still. > 0.
    """

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._stood_still_s = 0.0
        self._looked_at: float | None = None

    async def run(self) -> None:
        """Look, until cancelled. Before that it is the loop's clock."""
        while True:
            self._look()
            await asyncio.sleep(self._tick_s)

    def now(self) -> float:
        """Seconds."""
        return self._look() - self._stood_still_s

    def _look(self) -> float:
        now = asyncio.get_running_loop().time()
        late_s = 0.0 if self._looked_at is None else now - self._looked_at - self._tick_s
        if late_s > self._tick_s:
            self._stood_still_s += late_s
        self._looked_at = now
        return now
