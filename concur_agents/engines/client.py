"""One HTTP GET at a time, over within its deadline whatever the server does.

urllib3's timeouts are per socket operation: a server that drips a byte a second never trips them, and name resolution
has none. So each request runs in a thread of its own. The caller waits for it no longer than the deadline, then shuts
the socket under it, which ends the thread. A poller makes about one request a second: a thread each is nothing.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http.client import HTTPException

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, Timeout
from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError, ReadTimeoutError
from urllib3.util import Url

from concur_agents.engines.pools import open_pool
from concur_agents.errors import EngineUnreachableError, MetricsError

__all__ = ["MAX_BODY", "ConnectionLostError", "HttpClient", "Reply"]

_log = logging.getLogger(__name__)

MAX_BODY = 16 * 2**20
"""Bytes, unpacked. A real body has 90 KB for one rank; 64 ranks of labelled series stay below 8 MB."""

# Bytes per read, which also bounds how much one read can unpack to where urllib3 does not (before 2.6).
_CHUNK = 16_384
# One failure is an engine that is busy or restarting, and urllib3 drops that connection by itself. After three in a
# row whatever else the pool holds may be what is wrong; a new pool costs one handshake.
_REBUILD_AFTER = 3


class ConnectionLostError(EngineUnreachableError):
    """Refused, or ended by the other side: the process behind the address may be another one next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole HTTP reply."""

    status: int
    headers: Mapping[str, str]
    """Names are matched in any case."""
    text: str
    framed: bool
    """HTTP itself said where the body ends. If not, a broken connection looks like the end."""


class HttpClient:
    """GETs from one server. For one caller at a time; ``close`` may come from any thread."""

    def __init__(self, url: Url, headers: Mapping[str, str]) -> None:
        """``headers`` go with each request and are never shown."""
        self._url = url
        self._headers = dict(headers)
        self._lock = threading.Lock()
        self._pool: HTTPConnectionPool | None = None
        self._socket: socket.socket | None = None
        self._aborted = False
        self._idle = threading.Event()
        self._idle.set()
        self._failures = 0

    def get(self, path: str, timeout: float) -> Reply:
        """GET ``path`` (from the server's root) within ``timeout`` seconds in all. Redirects are not followed.

        Raises:
            EngineUnreachableError: no whole reply in time; ConnectionLostError where the connection was the cause.
            MetricsError: the body is larger than ``MAX_BODY``.
        """
        deadline = time.monotonic() + timeout
        if not self._idle.wait(timeout):
            raise self._unreachable("the request before is still hanging in name resolution or connecting")
        outcome: Future[Reply] = Future()
        try:
            self._start(outcome, path, timeout)
            reply = outcome.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            self._end(outcome)
            self._failed()
            raise self._unreachable(_late(timeout)) from None
        except EngineUnreachableError:
            self._failed()
            raise
        except BaseException:  # an interrupt, also one within ``_start``: nothing goes on behind the caller's back
            self._end(outcome)
            raise
        self._failures = 0
        return reply

    def close(self) -> None:
        """End a request that is under way, and drop all connections. The next ``get`` opens new ones."""
        self._abort()
        self._drop_pool()

    def _start(self, outcome: Future[Reply], path: str, timeout: float) -> None:
        self._idle.clear()
        self._aborted = False
        worker = threading.Thread(target=self._run, args=(outcome, path, timeout), name="concur-scrape", daemon=True)
        try:
            worker.start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            self._idle.set()
            raise self._unreachable(str(error)) from error

    def _end(self, outcome: Future[Reply]) -> None:
        """End the request behind ``outcome``, or see to it that it never begins."""
        if outcome.cancel():  # its thread has not begun, and may never: an interrupt can come before it was started
            self._idle.set()
        else:
            self._abort()

    def _run(self, outcome: Future[Reply], path: str, timeout: float) -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            reply = self._get(path, timeout)
        except Exception as error:  # noqa: BLE001 - it reaches the caller through the future
            self._idle.set()
            outcome.set_exception(error)
        else:
            self._idle.set()
            outcome.set_result(reply)

    def _get(self, path: str, timeout: float) -> Reply:
        try:
            response = self._open().request(
                "GET",
                path,
                headers=self._headers,
                timeout=Timeout(connect=timeout, read=timeout),
                redirect=False,
                preload_content=False,
            )
            try:
                text = self._body(response).decode(errors="replace")
            except BaseException:
                response.close()
                raise
            response.release_conn()
        except ReadTimeoutError as error:  # at the same moment as our own deadline
            raise self._unreachable(_late(timeout)) from error
        except (HTTPError, HTTPException, OSError, UnicodeError) as error:
            lost = isinstance(error, NewConnectionError | ProtocolError | HTTPException | ConnectionError)
            raise self._unreachable(_why(error), lost=lost) from error
        if self._aborted:  # then the end of the body may be where the socket was shut
            raise self._unreachable("closed while reading")
        framed = "content-length" in response.headers or "transfer-encoding" in response.headers
        return Reply(status=response.status, headers=response.headers, text=text, framed=framed)

    def _body(self, response: BaseHTTPResponse) -> bytes:
        body = bytearray()
        for chunk in response.stream(_CHUNK, decode_content=True):
            body += chunk
            if len(body) > MAX_BODY:
                raise MetricsError(
                    f"{self._url}: not metrics: the body is larger than {MAX_BODY >> 20} MB. "
                    "Is this the engine's own address?"
                )
        return bytes(body)

    def _open(self) -> HTTPConnectionPool:
        with self._lock:
            if self._pool is None:
                self._pool = open_pool(self._url, self._connected)
            return self._pool

    def _connected(self, sock: socket.socket) -> None:
        with self._lock:
            self._socket = sock
            if self._aborted:
                _shut(sock)

    def _abort(self) -> None:
        with self._lock:
            self._aborted = True
            if self._socket is not None:
                _shut(self._socket)

    def _failed(self) -> None:
        self._failures += 1
        if self._failures >= _REBUILD_AFTER:
            _log.debug("%s: %d requests failed in a row, opening a new client", self._url, self._failures)
            self._failures = 0
            self._drop_pool()

    def _drop_pool(self) -> None:
        with self._lock:
            pool, self._pool, self._socket = self._pool, None, None
        if pool is not None:
            pool.close()

    def _unreachable(self, why: str, *, lost: bool = False) -> EngineUnreachableError:
        return (ConnectionLostError if lost else EngineUnreachableError)(f"{self._url}: {why}")


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be closed already
        # The plain socket's shutdown, also under TLS: SSLSocket's would touch what the other thread is using.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _late(timeout: float) -> str:
    return f"no whole reply within {round(timeout, 2):g} s"


def _why(error: BaseException) -> str:
    """Shortest true reason: the operating system's words, without urllib3's object addresses."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or next((arg for arg in cause.args if isinstance(arg, BaseException)), None)
    return str(error) or type(error).__name__
