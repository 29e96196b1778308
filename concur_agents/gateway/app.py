"""The ASGI application: what is a generation waits for its agent's seat, what is ours is answered, all else goes on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import aiohttp
import anyio
from starlette.types import Receive, Scope, Send

from concur_agents.adapters import ModelCall
from concur_agents.agents import check_header, header_value
from concur_agents.gateway.api import build_api
from concur_agents.gateway.conversation import read_conversation
from concur_agents.gateway.engines import Engines, Opener
from concur_agents.gateway.exchange import ClientGoneError, Exchange, Held, Refusal
from concur_agents.gateway.holds import Hold, hold_of
from concur_agents.gateway.identity import DEFAULT_IDENTITY, Claim, Identity, is_final, previous_response
from concur_agents.gateway.limits import GatewayLimits
from concur_agents.gateway.patterns import AllowedEngines
from concur_agents.gateway.relay import relay
from concur_agents.gateway.replies import ReplyWatch
from concur_agents.gateway.roster import Member, Roster
from concur_agents.gateway.steps import AgentStep
from concur_agents.gateway.upstream import EngineDownError, EngineLostError, Upstream

__all__ = ["GENERATIONS", "Gateway"]

_log = logging.getLogger("concur_agents.gateway")

GENERATIONS: Final = frozenset(
    ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate")
)
"""POSTs to these are steps of agents."""
_SWEEP_S = 1.0
_RECONNECT_S = 0.5


class Gateway:
    """An ASGI application in front of one or more engines.

    Args:
        upstreams: the engines. Opened and closed with the application (ASGI's lifespan).
        identity: where an agent's id is looked for; see :data:`DEFAULT_IDENTITY`.
        limits: of everything that grows, and of every wait.
        clock: monotonic seconds.
        agent_header: HTTP header in which the engine, or a router before it, is told whose request it is, where the
            request itself does not have it; None: requests go on as they came.
        opener: makes the upstreams of an engine that joins while the gateway runs; None: none may.
        allowed: which may join; by default none.

    Raises:
        ValueError: there is no engine, or one twice, or ``identity`` or ``agent_header`` is malformed.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        identity: tuple[str, ...] = DEFAULT_IDENTITY,
        limits: GatewayLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        agent_header: str | None = None,
        opener: Opener | None = None,
        allowed: AllowedEngines | None = None,
    ) -> None:
        if agent_header is not None:
            check_header(agent_header)
        self._agent_header = agent_header
        self.engines: Final = Engines(upstreams, clock, opener=opener, allowed=allowed)
        self.limits: Final = limits or GatewayLimits()
        self._identity = Identity(identity)
        self.roster: Final = Roster(self.engines, self.limits, clock)
        self.held: Final = Held(self.limits.max_held)
        self.requests = 0
        """In flight, queued ones included."""
        self._waiting: set[anyio.CancelScope] = set()
        """Of requests that wait for a seat; ``_open`` of all requests."""
        self._open: set[anyio.CancelScope] = set()
        self._draining = False
        self._chats: OrderedDict[str, str] = OrderedDict()
        """Agents of the last replies of the responses API, by the reply's id."""
        self._api = build_api(self)

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """The engines there are now."""
        return tuple(self.engines)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's entry."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            if scope["path"].startswith("/concur/"):
                await self._api(scope, receive, send)
            else:
                await self._serve(Exchange(scope, receive, send, self.held))
        else:  # an engine's API has no WebSockets: HTTP 403
            await send({"type": "websocket.close", "code": 1003})

    def drain(self) -> None:
        """Answer everyone who waits, and everyone who still comes: the gateway is about to stop."""
        self._draining = True
        for scope in tuple(self._waiting):
            scope.cancel()

    def abort(self) -> None:
        """End whatever is still under way. After :meth:`drain`."""
        for scope in tuple(self._open):
            scope.cancel()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Engines open, agents swept; what a server's lifespan does."""
        async with self.engines.running():
            sweeper = asyncio.create_task(self._sweep())
            try:
                yield
            finally:
                self.drain()
                sweeper.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sweeper
                self.roster.end()

    # --- a request ---

    async def _serve(self, exchange: Exchange) -> None:
        self.requests += 1
        try:
            if self.requests > self.limits.max_requests:
                raise Refusal(503, f"the gateway holds {self.limits.max_requests} requests", "server_error", 5)
            if self._draining:
                raise _stopping()
            await exchange.read(self.limits.max_body)
            async with self._while_connected(exchange):
                if exchange.method == "POST" and exchange.path in GENERATIONS:
                    await self._generate(exchange)
                else:
                    await self._pass(exchange, self.engines.any())
        except ClientGoneError:
            exchange.cut()
        except Refusal as refusal:
            await exchange.refuse(refusal)
        finally:
            self.requests -= 1
            if exchange.upstream is not None:
                exchange.upstream.requests -= 1
            exchange.close()

    @contextlib.asynccontextmanager
    async def _while_connected(self, exchange: Exchange) -> AsyncIterator[None]:
        """Cancel the body when the client hangs up.

        Raises:
            ClientGoneError: it did.
            Refusal: the gateway stops, and no reply has begun.
        """
        scope = anyio.CancelScope()
        gone = False

        async def watch() -> None:
            nonlocal gone
            await exchange.gone()
            if not exchange.ended:  # a server says the same once the reply is through
                gone = True
                scope.cancel()

        watcher = asyncio.create_task(watch())
        self._open.add(scope)
        try:
            with scope:
                yield
        finally:
            self._open.discard(scope)
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
        if scope.cancelled_caught:
            if gone or exchange.begun:
                raise ClientGoneError
            raise _stopping()

    async def _pass(self, exchange: Exchange, upstream: Upstream) -> None:
        """Uncounted."""
        while True:
            try:
                response = await self._sent(exchange, upstream, None)
                break
            except _ElsewhereError as elsewhere:
                upstream = elsewhere.upstream
        exchange.sent()
        await relay(exchange, response)

    async def _generate(self, exchange: Exchange) -> None:
        member = await self._whose(exchange)
        if member is None:
            await self._pass(exchange, self.engines.any())
            return
        step = AgentStep(self.roster, member)
        hold = hold_of(exchange.headers, self.limits)
        until = anyio.current_time() + hold.seconds
        try:
            while True:
                self.roster.settle(member)
                call = step.call = member.run.step()
                try:
                    await self._seat(exchange, member, call, hold, until)
                    response = await self._sent(exchange, member.upstream, member)
                    break
                except _ElsewhereError as elsewhere:
                    call.end()
                    self.roster.moved(member, elsewhere.upstream)
            exchange.sent()
            watch = ReplyWatch(response.status, response.content_type, response.headers.get("content-encoding", ""))
            await relay(exchange, response, watch, lambda: step.over(watch))
            self._remember(watch, member)
        finally:
            step.over(None)
            if step.answered and is_final(exchange.headers):  # else the client asks again, and has kept its place
                self.roster.finish(member.agent_id)

    async def _whose(self, exchange: Exchange) -> Member | None:
        """The agent, with this request in flight; None where nothing tells, and the request goes on uncounted."""
        try:
            claim = await self._identity.claim(exchange.headers, exchange.body)
            if claim is not None:
                return self.roster.claimed(claim)
            if not self._identity.by_prefix:
                return None
            body = await exchange.body.parsed()
            before = self._chats.get(previous_response(body) or "")
            if before is not None and self.roster.get(before) is not None:
                return self.roster.claimed(Claim(before))
            apart = (exchange.headers.get("authorization", ""), str(body.get("model")), str(body.get("user")))
            conversation = await exchange.body.read(lambda: read_conversation(exchange.path, body, apart))
            return None if conversation is None else self.roster.matched(conversation)
        except Exception:  # noqa: BLE001 - a bug of ours must not stop a batch; the request does not need us
            _log.exception("whose request it is could not be told: it goes on uncounted")
            return None

    async def _seat(self, exchange: Exchange, member: Member, call: ModelCall, hold: Hold, until: float) -> None:
        """Wait for the agent's seat, for as long as the client lets us.

        Raises:
            Refusal: it is not granted in time.
            _ElsewhereError: it is to be waited for at another engine.
        """
        if not exchange.begun and await self._waited(member, call, until - anyio.current_time()):
            return
        if not hold.last_try:
            raise Refusal(503, f"the agent waits for its turn, for {hold.seconds:g} s so far", "server_error", 1)
        if not exchange.begun:
            exchange.streams = bool((await exchange.body.parsed()).get("stream"))
        kind, sign = (b"text/event-stream", b": queued\n\n") if exchange.streams else (b"application/json", b" ")
        if not exchange.begun:  # else it waited at another engine before
            await exchange.begin(200, [(b"content-type", kind)])
            await exchange.more(sign)
        while not await self._waited(member, call, self.limits.heartbeat):
            await exchange.more(sign)

    async def _waited(self, member: Member, call: ModelCall, seconds: float) -> bool:
        """Whether the seat was granted in time. Who gives up, and asks again, keeps the agent's age."""
        scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._waiting.add(scope)
        member.waits.add(scope)
        granted = False
        try:
            with scope:
                await call.__aenter__()
                granted = True
        finally:
            self._waiting.discard(scope)
            member.waits.discard(scope)
            called, member.called = member.called, None
        if not granted and self._draining:
            raise _stopping()
        if not granted and called is not None:
            raise _ElsewhereError(called)
        return granted

    async def _sent(self, exchange: Exchange, upstream: Upstream, member: Member | None) -> aiohttp.ClientResponse:
        """Send the request; an engine that takes no connections is waited for, or another one is taken."""
        waits_until = anyio.current_time() + self.limits.engine_wait
        body = exchange.body.raw if exchange.has_body else None
        headers = exchange.forwarded
        if member is not None and self._agent_header is not None and self._agent_header.lower() not in exchange.headers:
            headers = [*headers, (self._agent_header, header_value(member.agent_id))]
        if exchange.upstream is not None:
            exchange.upstream.requests -= 1
        exchange.upstream = upstream
        upstream.requests += 1
        while True:
            try:
                return await upstream.send(exchange.method, exchange.raw_path, exchange.query, headers, body)
            except EngineDownError as error:
                other = self.engines.elsewhere(None if member is None else member.agent_id)
                if other is not None and other is not upstream:
                    raise _ElsewhereError(other) from error
                if self._draining:
                    raise _stopping() from error
                if anyio.current_time() >= waits_until:
                    raise Refusal(503, str(error), "server_error", 5) from error
            except EngineLostError as error:
                _log.warning("%s", error)
                raise Refusal(502, str(error), "server_error") from error
            await asyncio.sleep(_RECONNECT_S)

    def _remember(self, watch: ReplyWatch, member: Member) -> None:
        if watch.response_id is not None:
            self._chats[watch.response_id] = member.agent_id
            if len(self._chats) > self.limits.max_agents:
                self._chats.popitem(last=False)

    # --- the server ---

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.running())
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                self.roster.sweep()
                self.roster.steal()
                await self.engines.sweep()
            except Exception:  # noqa: BLE001 - a bug of ours must not end the sweeps: unreported agents would pile up
                _log.exception("agents that have ended could not be looked for")  # and are in a second


class _ElsewhereError(Exception):
    """Another engine is to have the request: this one takes no connections, or the other is idle."""

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(upstream.name)
        self.upstream = upstream


def _stopping() -> Refusal:
    return Refusal(503, "the gateway is stopping", "server_error", 1)
