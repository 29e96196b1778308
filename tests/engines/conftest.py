"""A real HTTP server on a free port, whose replies a test writes; and the hand-written bodies."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

METRICS = (Path(__file__).parents[1] / "fixtures" / "metrics", Path(__file__).parent / "metrics")
ENOUGH = 10.0  # seconds until a test gives up on something that the server itself signals


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        self.server.routes.get(self.path, lambda handler: handler.send_error(404))(self)

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.routes: dict[str, Callable[[Handler], object]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.arrived = threading.Event()
        self.release = threading.Event()
        self.client_left = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.005})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.seen]

    def answer(
        self,
        path: str,
        body: str | bytes,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        framed: bool = True,
    ) -> None:
        """Reply with this; unframed means that only the end of the connection ends the body."""
        data = body.encode() if isinstance(body, str) else body
        framing = ("Content-Length", str(len(data))) if framed else ("Connection", "close")

        def route(handler: Handler) -> None:
            handler.send_response(status)
            for name, value in (*(headers or {}).items(), framing):
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)

        self.routes[path] = route

    def hang(self, path: str) -> None:
        """Say nothing until released."""

        def route(handler: Handler) -> None:
            self.arrived.set()
            self.release.wait(ENOUGH)
            handler.close_connection = True

        self.routes[path] = route

    def wait_for_hangup(self, path: str) -> None:
        """Say nothing; note when the client ends the connection."""

        def route(handler: Handler) -> None:
            self.arrived.set()
            handler.close_connection = True
            handler.connection.settimeout(ENOUGH)
            with contextlib.suppress(TimeoutError):
                if handler.connection.recv(1) == b"":
                    self.client_left.set()

        self.routes[path] = route

    def drip(self, path: str, head: bytes, dripped: bytes) -> None:
        """Send ``head`` at once and then byte by byte, each well within a socket timeout, a whole valid reply."""

        def route(handler: Handler) -> None:
            handler.close_connection = True
            handler.wfile.write(head)
            for at in range(len(dripped)):
                if self.release.wait(0.02):
                    return
                handler.wfile.write(dripped[at : at + 1])

        self.routes[path] = route

    def raw(self, path: str, data: bytes) -> None:
        """Write these bytes and end the connection."""

        def route(handler: Handler) -> None:
            handler.close_connection = True
            handler.wfile.write(data)

        self.routes[path] = route

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.client_left.set()  # a write failed: nobody listens any more

    def stop(self) -> None:
        self.release.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


@pytest.fixture
def start_server() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(port: int = 0) -> Server:
        servers.append(Server(port))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server()


@pytest.fixture(scope="session")
def body() -> Callable[[str], str]:
    return lambda name: next(path for each in METRICS if (path := each / f"{name}.txt").exists()).read_text()


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    """Close what a test opened."""
    opened: list[Any] = []

    def keep(reader: Any) -> Any:
        opened.append(reader)
        return reader

    yield keep
    for reader in opened:
        reader.close()
