"""A gateway in a thread of this process, for tests, notebooks and benchmarks."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final, Self

from concur_agents.gateway.app import Gateway
from concur_agents.gateway.server import build_server

__all__ = ["EmbeddedGateway"]


class EmbeddedGateway:
    """A running gateway as a context manager: ``with EmbeddedGateway(gateway) as served: ... served.url``.

    Args:
        gateway: to serve.
        host: address to listen on.
        port: 0 for any free one.
        grace: see ``build_server``.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(self, gateway: Gateway, *, host: str = "127.0.0.1", port: int = 0, grace: float = 1.0) -> None:
        self.gateway: Final = gateway
        self._server, self._socket = build_server(gateway, host, port, grace=grace)
        self._thread = threading.Thread(target=self._serve, name="concur-gateway", daemon=True)
        self.url: Final = f"http://{f'[{host}]' if ':' in host else host}:{self._socket.getsockname()[1]}"
        """Base URL, without a trailing slash; OpenAI clients want ``url + "/v1"``."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join()
        self._socket.close()

    def stop(self) -> None:
        """Tell it to stop, as a signal would: who waits is answered at once, replies under way have ``grace``."""
        self._server.should_exit = True

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])
