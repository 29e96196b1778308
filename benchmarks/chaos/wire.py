"""One worker's way to a server: a TCP relay whose connections can be cut and held up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from types import TracebackType
from typing import Self

__all__ = ["Wire"]

_CHUNK = 65_536
_NO_LINGER = struct.pack("ii", 1, 0)


class Wire:
    """Takes connections on a port of its own, and passes bytes on to another; an async context manager.

    Args:
        port: of the server, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._passes = asyncio.Event()
        self._passes.set()
        self._server: asyncio.Server

    @property
    def url(self) -> str:
        """The server's base URL, this way."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Drop every connection, with what is under way on it."""
        for writer in self._open:
            _reset(writer)

    async def hold(self, seconds: float, *, lost: bool) -> None:
        """Nothing comes through for so long. Then it does, or all that was held is lost with its connection."""
        self._passes.clear()
        try:
            await asyncio.sleep(seconds)
            if lost:
                self.cut()
        finally:
            self._passes.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        self._open.add(writer)
        try:
            # Its task is cancelled at the end, which asyncio would report.
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._passes.wait()
                there, onward = await asyncio.open_connection("127.0.0.1", self._port)
                self._open.add(onward)
                try:
                    await _first(self._pass(reader, onward), self._pass(there, writer))
                finally:
                    self._open.discard(onward)
                    _reset(onward)
        finally:
            self._open.discard(writer)
            _reset(writer)
            if task is not None:
                self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK):
            await self._passes.wait()
            if writer.transport.is_closing():
                return
            writer.write(chunk)
            await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Drop a connection so that the other side sees it broken, and not ended."""
    with contextlib.suppress(OSError):  # it is closed
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()


async def _first(*ways: object) -> None:
    """Until one of them has ended."""
    tasks = [asyncio.ensure_future(way) for way in ways]  # type: ignore[call-overload]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
