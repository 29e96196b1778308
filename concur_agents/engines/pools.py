"""urllib3 connection pools that show each socket they open, so that another thread can end what it is doing."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import Url

__all__ = ["OnConnect", "open_pool"]

OnConnect = Callable[[socket.socket], None]


class _HttpConnection(HTTPConnection):
    def __init__(self, *args: Any, on_connect: OnConnect, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_connect = on_connect

    def connect(self) -> None:
        super().connect()
        self._on_connect(self.sock)


class _HttpsConnection(HTTPSConnection):
    def __init__(self, *args: Any, on_connect: OnConnect, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_connect = on_connect

    def connect(self) -> None:
        super().connect()
        self._on_connect(self.sock)


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


def open_pool(url: Url, on_connect: OnConnect) -> HTTPConnectionPool:
    """Pool of one connection to the host of ``url``, with no proxy, no retries and no redirects of its own.

    Certificates are checked against the system's (``SSL_CERT_FILE`` adds a private authority).
    """
    kind = _HttpsPool if url.scheme == "https" else _HttpPool
    return kind(str(url.host), url.port, maxsize=1, retries=False, on_connect=on_connect)
