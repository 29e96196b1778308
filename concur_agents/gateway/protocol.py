"""A client's connection: uvicorn's HTTP by h11, and an end to waiting for a client that says or reads nothing."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PatientProtocol"]


class PatientProtocol(H11Protocol):
    """Drops a connection whose client stops in the middle of its request, or reads no more of its reply."""

    send_wait = 60.0
    """Seconds for a whole head, and for each next piece of a body."""
    read_wait = 600.0
    """Seconds in which a client that has fallen behind must catch up."""

    _sending: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Asyncio's."""
        super().connection_made(transport)
        # As after a reply: uvicorn itself waits without end for the first request.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio's."""
        self._has_sent()
        self._has_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Asyncio's."""
        super().data_received(data)
        in_head = self.conn.their_state is h11.IDLE
        if not in_head:  # a head has all its time from its first byte on, whatever else comes of it
            self._has_sent()
        if self._sending is None and (in_head or self.conn.their_state is h11.SEND_BODY):
            self._sending = self.loop.call_later(self.send_wait, self.transport.abort)

    def pause_writing(self) -> None:
        """Asyncio's."""
        super().pause_writing()
        self._has_read()
        self._reading = self.loop.call_later(self.read_wait, self.transport.abort)

    def resume_writing(self) -> None:
        """Asyncio's."""
        self._has_read()
        super().resume_writing()

    def _has_sent(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _has_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _unsupported_upgrade_warning(self) -> None:
        """Not said: clients of HTTP/2 offer it with each request, and lose nothing."""
