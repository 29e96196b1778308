"""A service on a socket that is bound before it runs: as a process's main job, or in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
import threading
from types import TracebackType
from typing import Final, Protocol, Self

import aiohttp
from aiohttp import web

from concur_agents.remote.controlled import Controlled
from concur_agents.remote.desk import Desk
from concur_agents.remote.protocol import Kind, RefusedError
from concur_agents.remote.service import Service

__all__ = ["EmbeddedService", "Served", "Server", "check_exposure"]

_KEEP_ALIVE_S = 75
# A name of 1,024 characters may be 12,288 when it is encoded.
_LINE = 16_384
_BACKLOG = 4096
_GRACE_S = 5


class Served(Controlled, Protocol):
    """A controller that can be served."""

    def start(self) -> object:
        """Begin."""

    def close(self) -> None:
        """End."""


def check_exposure(host: str, token: str | None, *, insecure: bool = False) -> None:
    """Raise ValueError when other hosts could use it and no token is asked for, unless that is wanted."""
    if token is None and not insecure and not _is_loopback(host):
        raise ValueError(
            f"host {host} is no loopback address, and whoever reaches it could use it: set a token, or say insecure"
        )


class Server:
    """A controller, its desk and a listening socket, which is bound at once. The controller starts and ends with it.

    Args:
        controller: not started yet.
        desk: its desk.
        host: address to listen on.
        port: 0 for any free one.
        token: that whoever asks must have.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(
        self, controller: Served, desk: Desk, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
    ) -> None:
        self._controller = controller
        self._desk = desk
        self._service = Service(desk, token)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._stopping = False
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The protocol is named since asyncio switches Nagle's algorithm off only on sockets that say they are TCP.
        self._listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host, port))
            self._listener.listen(_BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self.url: Final = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}"
        """Base address, without a trailing slash."""

    def run(self) -> None:
        """Serve until :meth:`stop`. Blocks."""
        try:
            asyncio.run(self._run())
        finally:
            self._listener.close()

    def stop(self) -> None:
        """From any thread, or a signal's handler: who waits for a seat is told, then it ends."""
        self._stopping = True
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._stop.set)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = web.Server(
            self._serve,
            access_log=None,
            handler_cancellation=True,  # of who has hung up; a request for a seat stays all the same
            keepalive_timeout=_KEEP_ALIVE_S,
            max_line_size=_LINE,
            max_field_size=_LINE,
        )
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=_GRACE_S)
        await runner.setup()
        self._controller.start()
        watching = asyncio.create_task(self._desk.watch())
        try:
            await web.SockSite(runner, self._listener, backlog=_BACKLOG).start()
            if not self._stopping:
                await self._stop.wait()
        finally:
            await asyncio.to_thread(self._controller.close)  # whoever waits is told; else they would be waited for
            watching.cancel()
            await runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        async def body(most: int) -> bytes:
            return await _whole(request.content, most)

        status, answer = await self._service.answer(request.method, request.raw_path, request.headers, body)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        return web.Response(
            body=json.dumps(answer).encode(), status=status, headers=headers, content_type="application/json"
        )


class EmbeddedService:
    """A served controller in a thread of this process, for tests, notebooks and benchmarks.

    ::

        with EmbeddedService(Controller(SGLang(engine))) as service:
            Controller.connect(service.url)

    Args:
        controller: not started yet; it starts and ends with the service.
        desk: its desk; made when None.
        host: address to listen on.
        port: 0 for any free one.
        token: that whoever asks must have.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(
        self,
        controller: Served,
        desk: Desk | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        self.desk: Final = Desk(controller) if desk is None else desk
        self._server = Server(controller, self.desk, host=host, port=port, token=token)
        self.url: Final = self._server.url
        self._thread = threading.Thread(target=self._server.run, name="concur-service", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        self._thread.join()


async def _whole(content: aiohttp.StreamReader, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = await content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise RefusedError(Kind.INVALID, f"the body broke off: {error}") from None
        if not chunk:
            return b"".join(chunks)
        size += len(chunk)
        if size > most:
            raise RefusedError(Kind.INVALID, f"the body must be of at most {most} bytes")
        chunks.append(chunk)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
