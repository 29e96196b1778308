"""Virtual time: an event loop that jumps to its next timer, and can say when that is."""

from __future__ import annotations

import asyncio
import math

import async_solipsism

__all__ = ["Loop"]


class Loop(async_solipsism.EventLoop):  # type: ignore[misc]
    """async-solipsism's loop. Nothing ever waits for a wall clock in it."""

    def until_next(self) -> float:
        """Seconds until something else may happen; ``inf`` when nothing is due."""
        timers: list[asyncio.TimerHandle] = self._scheduled
        return max(0.0, timers[0].when() - float(self.time())) if timers else math.inf
