"""An emulated server in a thread of this process, for tests and benchmarks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from concur_agents.emulator.service import Service, ServiceConfig
from concur_agents.emulator.tokenizer import Tokenizer

if TYPE_CHECKING:
    import uvicorn

__all__ = ["Emulator", "Middleware", "build_server", "url_of"]

Middleware = Callable[[Any], Any]
"""Takes an ASGI application and returns the one to serve in its place."""


def build_server(
    config: ServiceConfig,
    host: str,
    port: int,
    tokenizer: Tokenizer | None = None,
    middleware: Middleware | None = None,
) -> tuple[uvicorn.Server, socket.socket, Service]:
    """A uvicorn server on a bound and listening socket, so that the port (0: any free one) is known before it runs.

    Raises:
        OSError: when the address cannot be bound.
        ImportError: naming the extra to install, without uvicorn or starlette.
    """
    try:
        import uvicorn

        from concur_agents.emulator.app import create_app
    except ImportError as missing:
        raise ImportError(f"{missing}; pip install 'concur-agents[emulator]'") from missing

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Ends what still runs, so that its clients get an answer instead of a broken connection.
            await app.state.service.driver.close()
            await super().shutdown(sockets)

    app = create_app(config, tokenizer)
    # The protocol is named because asyncio switches Nagle's algorithm off only on sockets that say they are TCP; with
    # it on, each reply waits 40 ms for the client's delayed acknowledgement.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # Connections are queued by the kernel from here on, so nobody needs to wait until the server runs.
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    server = Server(
        uvicorn.Config(
            app if middleware is None else middleware(app),
            log_level="warning",
            access_log=False,
            lifespan="off",
            # Agents keep their connection through a tool call; the default of 5 s would drop it under them.
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
    )
    return server, listener, app.state.service


def url_of(host: str, port: int) -> str:
    """Base URL of an address."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Emulator:
    """A running server as a context manager: ``with Emulator(config) as emulator: ... emulator.url``.

    Args:
        config: what to emulate; the ``laptop`` preset by default.
        host: address to listen on.
        port: 0 for any free one.
        tokenizer: in place of the default one.
        middleware: put in front of the server, e.g. to watch, delay or fail requests in tests.
    """

    def __init__(
        self,
        config: ServiceConfig | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tokenizer: Tokenizer | None = None,
        middleware: Middleware | None = None,
    ) -> None:
        self._server, self._socket, self.service = build_server(
            config or ServiceConfig(), host, port, tokenizer, middleware
        )
        self._thread = threading.Thread(target=self._serve, name="concur-emulator", daemon=True)
        self.port: int = self._socket.getsockname()[1]
        self.url = url_of(host, self.port)
        """Base URL, without a trailing slash; OpenAI clients want ``url + "/v1"``."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])
