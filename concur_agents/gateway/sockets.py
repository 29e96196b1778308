"""Sockets that notice when the host at the other end is gone: it cannot say goodbye."""

from __future__ import annotations

import socket

from aiohttp.connector import AddrInfoType

__all__ = ["connecting", "notice_dead_hosts"]

# 30 s of silence, and three questions that nobody answers. Systems ask after two hours.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


def notice_dead_hosts(connection: socket.socket) -> None:
    """Have the system ask whether the other side is still there; what a listening socket accepts inherits it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # macOS has other names for some
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def connecting(address: AddrInfoType) -> socket.socket:
    """A socket to connect to an engine with: aiohttp's ``socket_factory``."""
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    notice_dead_hosts(connection)
    return connection
