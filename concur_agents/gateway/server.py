"""A gateway behind uvicorn, on a socket that is bound before it runs."""

from __future__ import annotations

import asyncio
import math
import socket

import uvicorn

from concur_agents.gateway.app import Gateway
from concur_agents.gateway.protocol import PatientProtocol
from concur_agents.gateway.sockets import notice_dead_hosts

__all__ = ["build_server"]

# SDKs keep idle connections for 5 s (httpx) to minutes; who drops one first must be the client.
_KEEP_ALIVE_S = 75
# Of one request's head; more is answered with 400 (h11).
_HEAD = 65_536
_BACKLOG = 4096
# By then what was aborted has ended, unless its client reads nothing.
_LATE_S = 5


def build_server(
    gateway: Gateway, host: str = "127.0.0.1", port: int = 0, *, grace: float = 30.0
) -> tuple[uvicorn.Server, socket.socket]:
    """A server to run, and its listening socket.

    Args:
        gateway: to serve.
        host: address to listen on.
        port: 0 for any free one.
        grace: seconds that replies under way have, once the server is told to stop. Who waits is answered at once.

    Raises:
        OSError: the address cannot be bound.
        ValueError: ``grace`` is no number of seconds.
    """
    if not 0 <= grace < math.inf:
        raise ValueError(f"grace must be a number of seconds of at least 0, got {grace!r}")

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            gateway.drain()
            asyncio.get_running_loop().call_later(grace, gateway.abort)
            await super().shutdown(sockets)

    class Protocol(PatientProtocol):
        send_wait = gateway.limits.send_wait
        read_wait = gateway.limits.read_wait

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named since asyncio switches Nagle's algorithm off only on sockets that say they are TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        notice_dead_hosts(listener)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    config = uvicorn.Config(
        gateway,
        http=Protocol,  # h11: it bounds a request's head, and is strict about what ends a body
        h11_max_incomplete_event_size=_HEAD,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,  # the engine's own goes through
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(grace) + _LATE_S,
    )
    return Server(config), listener
