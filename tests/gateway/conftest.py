"""A gateway served over HTTP, in front of the emulator or of an engine of which every byte is known."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

from concur_agents import Controller, FixedWindow
from concur_agents.emulator import ServiceConfig
from concur_agents.emulator.embed import Emulator
from concur_agents.engines import AnyEngine
from concur_agents.gateway import DEFAULT_IDENTITY, Gateway, GatewayLimits
from concur_agents.gateway.embed import EmbeddedGateway
from concur_agents.gateway.upstream import Upstream
from concur_agents.laws import Law

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
Answer = Callable[[bytes, socket.socket], object]


class RawEngine:
    """``answer`` gets a whole request and the connection; bytes that it returns are sent."""

    def __init__(self, answer: Answer | bytes = OK, *, port: int = 0) -> None:
        self._answer: Answer = answer if callable(answer) else lambda *_: answer
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests: list[bytes] = []
        """Whole requests, those for metrics left out."""
        self.hung_up = 0
        """Connections that ended while their request was being answered."""
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Woken by a connection: closing a socket does not end an accept under way.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        data = bytearray()
        with contextlib.suppress(OSError):
            while True:
                size = _size(data)
                while size is None or len(data) < size:
                    chunk = connection.recv(1 << 20)
                    if not chunk:
                        return
                    data += chunk
                    size = _size(data) if size is None else size
                request = bytes(data[:size])
                del data[:size]
                if re.match(rb"GET \S*/(metrics|engine_metrics|server_info|get_server_info|health) ", request):
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                self.requests.append(request)
                reply = self._answer(request, connection)
                if isinstance(reply, bytes):
                    connection.sendall(reply)
                else:
                    return


def _size(data: bytes | bytearray) -> int | None:
    """Bytes of the first message, as its head says; None when there is no whole head yet."""
    head, found, _ = data.partition(b"\r\n\r\n")
    if not found:
        return None
    length = re.search(rb"\r\ncontent-length:\s*(\d+)", head, re.IGNORECASE)
    return len(head) + 4 + (int(length[1]) if length else 0)


def exchange(url: str, request: bytes, *, timeout: float = 10) -> bytes:
    """Send bytes as they are, and read until the other side closes or its one reply with a length is there."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        connection.sendall(request)
        data = b""
        while (size := _size(data)) is None or len(data) < size:
            chunk = connection.recv(65536)
            if not chunk:
                break
            data += chunk
        return data


def free_port() -> int:
    """One that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def until(condition: Callable[[], object], *, timeout: float = 10) -> None:
    """Wait for another thread to have done something."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


@contextlib.contextmanager
def serve(
    *urls: str,
    window: float = 1000,
    law: Law | None = None,
    identity: tuple[str, ...] = DEFAULT_IDENTITY,
    **limits: Any,
) -> Iterator[Any]:
    """A gateway in front of engines that run; limits are its own, the window is fixed unless there is a law."""
    law = law or FixedWindow(window)
    upstreams = [Upstream(url, Controller(AnyEngine(url), law=law, tick=0.05)) for url in urls]
    gateway = Gateway(upstreams, identity=identity, limits=GatewayLimits(**limits))
    with EmbeddedGateway(gateway, grace=0.1) as served:
        yield SimpleNamespace(url=served.url, gateway=gateway, controller=upstreams[0].controller, stop=served.stop)


@pytest.fixture(scope="session")
def wire() -> Any:
    """What tests put together by themselves."""
    return SimpleNamespace(
        RawEngine=RawEngine,
        OK=OK,
        exchange=exchange,
        until=until,
        serve=serve,
        emulator=emulator,
        free_port=free_port,
    )


def emulator(**options: Any) -> Emulator:
    return Emulator(ServiceConfig(speedup=1000, enable_cache_report=True), **options)


@pytest.fixture
def served() -> Iterator[Any]:
    """In front of the emulator."""
    with emulator() as engine, serve(engine.url) as one:
        yield one
