"""Clients whose requests go to the engine that their agent is on, where there are several.

Two kinds of clients, each by a subclass of the client's own class that overrides the method everything goes through:
``request`` of OpenAI's and Anthropic's SDKs, and ``send`` of ``httpx`` and ``httpx2``, which others have underneath.
Only requests for an engine, or for the client's own address, are moved, and only to an engine.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

from concur_agents.agents import Agent
from concur_agents.steps import again, again_blocking

__all__ = ["Engines", "Routes", "Way", "at_engine", "is_sdk", "moved", "route", "unsent"]

_Client = TypeVar("_Client")

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PORTS = {"http": 80, "https": 443}


class Engines(Protocol):
    """Who knows where agents are; every controller does."""

    @property
    def all_engines(self) -> tuple[str, ...]:
        """See ``Controller.all_engines``."""

    @property
    def may_have_several(self) -> bool:
        """See ``Controller.may_have_several``."""

    def engine(self, agent_id: str) -> str | None:
        """See ``Controller.engine``."""

    def refused(self, engine: str) -> None:
        """See ``Controller.refused``."""

    def current_agent(self) -> Agent | None:
        """See ``Controller.current_agent``."""


def route(client: _Client, engines: Engines, *, base: bool = True) -> _Client:
    """A client of the same class whose requests go to their agent's engine; see ``Controller.route``.

    Args:
        client: of the ``openai`` or ``anthropic`` package, which is copied; or of ``httpx`` or ``httpx2``, which is
            changed in place, since it owns its connections.
        engines: where agents are. Routing twice by the same one changes nothing.
        base: the client's own ``base_url`` stands for the engines, whatever it is. False for clients that nobody has
            said so of: then only what is addressed to one of the engines is moved.

    Raises:
        TypeError: it is no such client.
    """
    kind: Any = type(client)
    if any(vars(each).get(_BY) is engines for each in kind.__mro__):
        return client
    if _is_httpx(kind):
        given: Any = client
        given.__class__ = _subclass(kind, engines, base=base)
        return client
    if not is_sdk(kind):
        raise TypeError(
            f"route takes a client of the openai, anthropic, httpx or httpx2 package, got {client!r:.80}: for others "
            "see Controller.engine"
        )
    # The class carries it, so that the copies which the client makes of itself have it too.
    routed: Any = cast("Any", client).copy()
    routed.__class__ = _subclass(kind, engines, base=base)
    return cast("_Client", routed)


def at_engine(client: _Client, engines: Engines) -> _Client:
    """For adapters, of a model's client that nobody has said anything of: what is for an engine goes to the agent's.

    Where there is one engine, or it is no client of an SDK, it is the client itself.
    """
    return route(client, engines, base=False) if engines.may_have_several and is_sdk(type(client)) else client


def is_sdk(kind: type) -> bool:
    """Whether that is a client of OpenAI's or Anthropic's SDK."""
    return all(callable(getattr(kind, name, None)) for name in ("request", "copy", "post", "with_options"))


def moved(url: str, engine: str, engines: Iterable[str]) -> str | None:
    """``url`` as it is at ``engine``, where it is at one of ``engines`` now; None where it is at none of them."""
    for each in sorted(engines, key=len, reverse=True):  # the longest first: paths may tell them apart
        if _is_under(url, each):
            return _at(engine, url, without=each)
    return None


def unsent(error: BaseException | None) -> bool:
    """Whether a request failed because nobody took the connection: it was never sent."""
    while error is not None:
        if type(error).__name__ == "ConnectError":  # httpx's and httpx2's, which the SDKs keep as the cause
            return True
        # LiteLLM raises its own without saying of what; elsewhere a context may be an earlier request's.
        of_litellm = type(error).__module__.partition(".")[0] == "litellm"
        error = error.__cause__ or (error.__context__ if of_litellm else None)
    return False


_BY: Final = "_concur_routed_by"
_CLASSES: Final = "_concur_routed_classes"


class Routes:
    """Where requests go, whichever client sends them.

    Args:
        engines: where agents are.
        base: see :func:`route`.
    """

    def __init__(self, engines: Engines, *, base: bool = False) -> None:
        self._engines: Final = engines
        self._base: Final = base
        self._known: set[str] = set()
        """Engines ever heard of: clients keep the address of one that has left."""

    def of(self, url: str, base: str = "") -> Way | None:
        """The way of a request; None for one that stays as it is.

        Args:
            url: of the request.
            base: the client's own; empty if it has none.
        """
        agent = self._engines.current_agent()
        engine = None if agent is None else agent.engine
        if agent is None or engine is None:
            return None
        way = Way(self, self._engines, agent, url, base)
        return way if way.look() else None

    def moved(self, url: str, base: str, engine: str) -> str | None:
        """A request's address at an engine; None for one that stays as it is."""
        self._known.update(self._engines.all_engines)
        there = moved(url, engine, self._known)
        if there is None and self._base and base and _is_under(url, base):
            return _at(engine, url)
        return there


class Way:
    """One request's way: to its agent's engine, and to the next one where that takes no connection."""

    def __init__(self, routes: Routes, engines: Engines, agent: Agent, url: str, base: str) -> None:
        self._routes = routes
        self._engines = engines
        self._agent = agent
        self._whose = agent._seats, agent.agent_id
        self._given: Final = url, base
        self._engine = ""
        self._refused: set[str] = set()
        self.url: str | None = None

    def look(self) -> bool:
        """See where it goes now; False when that is nowhere new."""
        self._engine = self._agent.engine or ""
        if not self._engine or self._engine in self._refused:
            return False
        self.url = self._routes.moved(*self._given, self._engine)
        return self.url is not None

    def lost(self, error: Exception) -> bool:
        """Whether it failed where trying again elsewhere is safe; the engine's failure is told."""
        if not unsent(error):
            return False
        self._refused.add(self._engine)
        self._engines.refused(self._engine)
        return True

    async def send(self, once: Callable[[str | None], Awaitable[Any]]) -> Any:
        """Send the request, ``once`` with an address; and again with another while nobody takes the connection."""
        while True:
            try:
                return await once(self.url)
            except Exception as error:  # whatever the client raises: looked at, and raised again
                if not self.lost(error) or not await again(*self._whose, self._engine) or not self.look():
                    raise

    def send_blocking(self, once: Callable[[str | None], Any]) -> Any:
        """The same for threads."""
        while True:
            try:
                return once(self.url)
            except Exception as error:  # as above
                if not self.lost(error) or not again_blocking(*self._whose, self._engine) or not self.look():
                    raise


def _sdk_request(kind: Any, routes: Routes) -> Any:
    """Both SDKs take an absolute address in a request's options as it is."""

    def way_of(client: Any, options: Any) -> Way | None:
        base, url = str(client.base_url), str(options.url)
        return routes.of(url if "://" in url else f"{base.rstrip('/')}/{url.lstrip('/')}", base)

    def at(url: str | None, options: Any) -> Any:
        ours = copy.copy(options)
        ours.url = url
        return ours

    async def request(self: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        way = way_of(self, options)
        if way is None:
            return await kind.request(self, cast_to, options, **kwargs)
        return await way.send(lambda url: kind.request(self, cast_to, at(url, options), **kwargs))

    def request_blocking(self: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        way = way_of(self, options)
        if way is None:
            return kind.request(self, cast_to, options, **kwargs)
        return way.send_blocking(lambda url: kind.request(self, cast_to, at(url, options), **kwargs))

    return request if inspect.iscoroutinefunction(kind.request) else request_blocking


def _http_send(kind: Any, routes: Routes) -> Any:
    """Redirects are followed in there, and so are not moved."""

    def to(url: str | None, request: Any) -> Any:
        before, request.url = request.url, type(request.url)(url)
        if request.headers.get("Host") == before.netloc.decode("ascii"):
            request.headers["Host"] = request.url.netloc.decode("ascii")
        return request

    async def send(self: Any, request: Any, **kwargs: Any) -> Any:
        way = routes.of(str(request.url), str(self.base_url))
        if way is None:
            return await kind.send(self, request, **kwargs)
        return await way.send(lambda url: kind.send(self, to(url, request), **kwargs))

    def send_blocking(self: Any, request: Any, **kwargs: Any) -> Any:
        way = routes.of(str(request.url), str(self.base_url))
        if way is None:
            return kind.send(self, request, **kwargs)
        return way.send_blocking(lambda url: kind.send(self, to(url, request), **kwargs))

    return send if inspect.iscoroutinefunction(kind.send) else send_blocking


def _subclass(kind: Any, engines: Engines, *, base: bool) -> Any:
    classes: dict[Any, Any] = vars(engines).setdefault(_CLASSES, {})  # kept there, to go when it goes
    if (kind, base) not in classes:
        routes = Routes(engines, base=base)
        override = {"send": _http_send(kind, routes)} if _is_httpx(kind) else {"request": _sdk_request(kind, routes)}
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, _BY: engines, **override}
        classes[kind, base] = type(kind.__name__, (kind,), names)
    return classes[kind, base]


def _is_httpx(kind: type) -> bool:
    return any(
        each.__name__ in ("Client", "AsyncClient") and each.__module__.partition(".")[0] in ("httpx", "httpx2")
        for each in kind.__mro__
    )


def _is_under(url: str, base: str) -> bool:
    one, other = urlsplit(url), urlsplit(base)
    prefix = other.path.rstrip("/")
    return _place(one) == _place(other) and (one.path == prefix or one.path.startswith(f"{prefix}/"))


def _at(engine: str, url: str, *, without: str = "") -> str:
    parts = urlsplit(url)
    path = parts.path[len(urlsplit(without).path.rstrip("/")) :]
    return f"{engine.rstrip('/')}{path}{f'?{parts.query}' if parts.query else ''}"


def _place(parts: SplitResult) -> tuple[str, str, int | None]:
    """Scheme, host and port. This machine has several names for itself."""
    host = (parts.hostname or "").lower()
    return parts.scheme, "127.0.0.1" if host in _LOOPBACK else host, parts.port or _PORTS.get(parts.scheme)
