"""The transport over HTTP: keep-alive connections of one event loop, as many as there are questions under way."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import quote

try:
    import aiohttp
    from yarl import URL
except ImportError as missing:
    raise ImportError(f"a remote controller needs {missing.name}: pip install 'concur-agents[remote]'") from missing

from concur_agents.remote.protocol import PROTOCOL, UnreachableError
from concur_agents.remote.service import PROTOCOL_HEADER

__all__ = ["HttpTransport"]

_IDLE_S = 60.0
# Of one answer: a thousand agents are some 200 kB.
_LONGEST_ANSWER = 64 * 2**20
_OF_WORKERS = frozenset({"register", "heartbeat", "leave", "refused"})
_SEEING = frozenset({"agents", "stats", "history", "events"})


class HttpTransport:
    """Carries operations to what ``concur serve`` runs.

    Args:
        url: its base address, checked before.
        token: its token, if it wants one.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._base: Final = url + "/concur/v1/"
        self._where: Final = url
        authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._headers: Final = {PROTOCOL_HEADER: str(PROTOCOL)} | authorization
        self._session: aiohttp.ClientSession | None = None

    async def call(self, operation: str, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """See ``Transport``."""
        session = self._session
        if session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S)
            # Its own time limits are off: ours costs no timer of its own for each phase, and covers all.
            session = self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(), headers=self._headers, trust_env=False
            )
        method, path, rest = _where(operation, body)
        data = json.dumps(rest).encode() if method == "POST" else None
        try:
            async with (
                asyncio.timeout(timeout_s),
                session.request(
                    method, URL(self._base + path, encoded=True), data=data, allow_redirects=False
                ) as response,
            ):
                raw = await _whole(response)
                status = response.status
        except TimeoutError:
            raise UnreachableError(f"no answer within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise UnreachableError(f"{type(error).__name__}: {error}") from None
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or "controller" not in answer:
            raise UnreachableError(f"HTTP {status}, and no answer of a controller")
        return answer

    async def aclose(self) -> None:
        """See ``Transport``."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _where(operation: str, body: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Method, path and body of an operation."""
    if operation in _SEEING:
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in body.items())
        return "GET", operation + (f"?{query}" if query else ""), {}
    kind = "worker" if operation in _OF_WORKERS else "agent"
    # Half a character is a name too; the address's own parser must not touch what is encoded.
    name = quote(body[kind], safe="", errors="surrogatepass")
    if operation == "agent":
        return "GET", f"agents/{name}", {}
    return "POST", f"{kind}s/{name}/{operation}", {field: value for field, value in body.items() if field != kind}


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await response.content.readany():
        size += len(chunk)
        if size > _LONGEST_ANSWER:
            raise UnreachableError(f"an answer of more than {_LONGEST_ANSWER} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
