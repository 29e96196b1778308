"""Whether an engine is up: by its readings, and where these fail, by its port."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from concur_agents.samples import Stats

__all__ = ["Probe"]

_CONNECT_S = 2.0
_MISSED = 2
"""Connections in a row that fail before the engine is down: one may be a full backlog."""


class Probe:
    """One engine's.

    Args:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._missed = 0

    async def up(self, stats: Stats) -> bool:
        """Whether it takes connections, as far as is known. To be asked about once a second.

        Readings may fail while the engine serves; then only its port tells.
        """
        read = stats.problem is None and stats.sample_age_s is not None
        self._missed = 0 if read or await self.connects() else self._missed + 1
        return self._missed < _MISSED

    async def connects(self) -> bool:
        """Whether it takes one now."""
        parts = urlsplit(self._url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, writer = await asyncio.open_connection(parts.hostname, port)
                writer.close()
        except (OSError, TimeoutError):
            return False
        return True
