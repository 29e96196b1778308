"""Clients whose generations go to the engine that their agent is on."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

__all__ = ["route"]

_Client = TypeVar("_Client")


def route(client: _Client, engine: Callable[[], str | None], refused: Callable[[str], None]) -> _Client:
    """A client of the same class that sends to another address if there is one.

    Both SDKs send everything through one method, ``request``, and take an absolute address there as it is. The path of
    ``base_url`` stays: OpenAI's ends in ``/v1``, Anthropic's is empty.

    Args:
        client: of the ``openai`` or the ``anthropic`` package.
        engine: where to, at the moment of sending; None for the client's own address.
        refused: told which engine refused a connection.

    Raises:
        TypeError: it is no such client.
    """
    kind: Any = type(client)
    request = getattr(kind, "request", None)
    if not callable(request) or not callable(getattr(kind, "copy", None)):
        raise TypeError(f"wrap_client takes a client of the openai or anthropic package, got {client!r:.80}")

    def routed(self: Any, options: Any, url: str | None) -> Any:
        if url is None or "://" in str(options.url):
            return options
        ours = copy.copy(options)
        prefix = urlsplit(str(self.base_url)).path.rstrip("/")
        ours.url = f"{url.rstrip('/')}{prefix}/{str(options.url).lstrip('/')}"
        return ours

    async def request_async(self: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        url = engine()
        try:
            return await kind.request(self, cast_to, routed(self, options, url), **kwargs)
        except Exception as error:  # whatever the SDK raises: looked at, and raised again
            _tell(error, url, refused)
            raise

    def request_sync(self: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        url = engine()
        try:
            return kind.request(self, cast_to, routed(self, options, url), **kwargs)
        except Exception as error:  # whatever the SDK raises: looked at, and raised again
            _tell(error, url, refused)
            raise

    ours = request_async if inspect.iscoroutinefunction(request) else request_sync
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "request": ours}
    # The class carries it, so that the copies which the client makes of itself have it too.
    routed_client: Any = client.copy()  # type: ignore[attr-defined] # checked above
    routed_client.__class__ = type(kind.__name__, (kind,), names)
    typed: _Client = routed_client
    return typed


def _tell(error: Exception, url: str | None, refused: Callable[[str], None]) -> None:
    # The SDKs keep the HTTP library's own error as the cause. One that never connected was never sent.
    if url is not None and type(error.__cause__).__name__ == "ConnectError":
        refused(url)
