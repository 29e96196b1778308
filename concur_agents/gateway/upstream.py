"""One engine behind the gateway: its controller, and the connections to it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import ssl
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from concur_agents.controller import Controller
from concur_agents.engines.url import engine_url
from concur_agents.gateway.sockets import connecting

__all__ = ["RANK_HEADER", "EngineDownError", "EngineLostError", "Upstream"]

RANK_HEADER: Final = "X-Data-Parallel-Rank"
"""Sends a request to one data-parallel rank, in SGLang and vLLM alike."""

# uvicorn, which SGLang and vLLM run on, drops a connection that was idle for 5 s; a request sent at that moment is
# lost, and nobody knows whether it was read. So ours are dropped well before.
_KEEP_ALIVE_S = 2.0
_CONNECT_S = 10.0
# What our server refuses to pass on.
_STATUSES = range(200, 600)
_LINE_ENDS = re.compile(rb"[\x00\n\v\f\r]")
# Longer header lines than any engine sends.
_LONGEST_LINE = 65_536
# Bytes; longer bodies are written in pieces, between which the event loop's other connections go on.
_LARGE = 256 * 1024
_OURS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What the client library would add of its own."""


class EngineDownError(Exception):
    """The engine takes no connections; nothing of the request has reached it."""


class EngineLostError(Exception):
    """The connection broke off before the reply began."""


class Upstream:
    """One engine. To be opened in the event loop that uses it.

    Args:
        url: the engine's base address, with or without ``/v1``.
        controller: of its agents; started and closed with this.
        rank: the data-parallel rank that this is, of an engine that has several and takes :data:`RANK_HEADER`.

    Raises:
        ValueError: ``url`` is no such address.
    """

    def __init__(self, url: str, controller: Controller, *, rank: int | None = None) -> None:
        base = engine_url(url)
        self.url: Final = str(base)
        """The address, as it is shown."""
        self.rank: Final = rank
        self.name: Final = self.url if rank is None else f"{self.url}#{rank}"
        """What it is called: the address, and the rank if it is one."""
        self.controller: Final = controller
        self.agents = 0
        """Agents placed here."""
        self.requests = 0
        """Requests that are with it, or on their way."""
        self.on_change: Callable[[bool], None] | None = None
        """Told whether it is down, when that changes."""
        self._down = False
        self._host = f"[{base.host}]" if ":" in str(base.host) and not str(base.host).startswith("[") else base.host
        self._scheme, self._port, self._prefix = str(base.scheme), base.port, base.path or ""
        self._session: aiohttp.ClientSession | None = None

    @property
    def down(self) -> bool:
        """The last try to connect failed."""
        return self._down

    @down.setter
    def down(self, down: bool) -> None:
        changed, self._down = down != self._down, down
        if changed and self.on_change is not None:
            self.on_change(down)

    @property
    def waiting(self) -> int:
        """Agents that wait for a seat here."""
        return self.controller.stats().population.waiting

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_KEEP_ALIVE_S,
                ttl_dns_cache=10,
                ssl=ssl.create_default_context(),
                socket_factory=connecting,
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
        )
        self.controller.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
        await asyncio.to_thread(self.controller.close)

    async def send(
        self, method: str, path: str, query: str, headers: Iterable[tuple[str, str]], body: bytes | None
    ) -> aiohttp.ClientResponse:
        """Send a request, as it is, and return when the reply begins. Redirects are the client's to follow.

        Args:
            method: HTTP's.
            path: as it came, percent-encoded; appended to the engine's own, so it must begin with ``/``. No other
                server is ever reached.
            query: as it came, without ``?``.
            headers: those of the connection itself left out.
            body: None for no body at all, which is not the same as an empty one.

        Raises:
            EngineDownError: nothing was sent, and it may be sent again.
            EngineLostError: it may have been read.
            ValueError: ``path`` does not begin with ``/``.
        """
        assert self._session is not None, "an upstream is used inside `async with`"  # noqa: S101
        if not path.startswith("/"):  # else ``@elsewhere`` would make the engine's address a user's name
            raise ValueError(f"path must begin with /, got {path!r:.80}")
        target = f"{self._scheme}://{self._host}{'' if self._port is None else f':{self._port}'}{self._prefix}{path}"
        url = URL(f"{target}?{query}" if query else target, encoded=True)
        try:
            response = await self._session.request(
                method,
                url,
                headers=self._headers(headers),
                data=body if body is None or len(body) <= _LARGE else io.BytesIO(body),
                allow_redirects=False,
                skip_auto_headers=_OURS,
            )
        except aiohttp.ClientConnectorError as error:
            self.down = True
            raise EngineDownError(f"{self.name} takes no connections: {error.os_error}") from error
        except (aiohttp.ConnectionTimeoutError, aiohttp.ServerTimeoutError) as error:
            self.down = True
            raise EngineDownError(f"{self.name} takes no connections: no answer in {_CONNECT_S:g} s") from error
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise EngineLostError(f"{self.name} broke off before its reply: {type(error).__name__}: {error}") from error
        self.down = False
        if response.status not in _STATUSES or any(_LINE_ENDS.search(value) for _, value in response.raw_headers):
            response.close()
            raise EngineLostError(f"{self.name} answers with what is no HTTP: status {response.status}, or its headers")
        return response

    def _headers(self, headers: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
        sent = CIMultiDict(headers)
        if self.rank is not None:
            sent[RANK_HEADER] = str(self.rank)
        return sent

    async def probe(self) -> None:
        """See whether an engine that took no connections does again. Never raises for one that does not."""
        with contextlib.suppress(EngineDownError, EngineLostError):
            response = await self.send("GET", "/health", "", (), None)
            response.close()
