"""Readings of a real engine for gates that live on an event loop, which a scrape must never block."""

from __future__ import annotations

import asyncio

from concur_agents import EngineReadError, EngineSample
from concur_agents.engines import EngineReader

__all__ = ["PolledReader"]


class PolledReader:
    """Hands out the outcome of the last :meth:`poll`, a failure included.

    Args:
        reader: the engine's, read in a thread.
    """

    def __init__(self, reader: EngineReader) -> None:
        self._reader = reader
        self._last: EngineSample | EngineReadError = EngineReadError("not read yet")
        self.readings = self.missed = 0

    async def poll(self, timeout: float) -> None:  # noqa: ASYNC109 - the reader's own deadline, it is no coroutine
        """Take one reading within ``timeout`` seconds. Never raises for an engine that does not answer."""
        self.readings += 1
        try:
            self._last = await asyncio.to_thread(self._reader.read, timeout)
        except EngineReadError as error:
            self.missed += 1
            self._last = error

    def read(self, timeout: float) -> EngineSample:  # noqa: ARG002 - the protocol's
        """What the last poll found.

        Raises:
            EngineReadError: it found nothing.
        """
        if isinstance(self._last, EngineReadError):
            raise self._last
        return self._last

    def close(self) -> None:
        """Free connections."""
        self._reader.close()
