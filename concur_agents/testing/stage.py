"""The engine the contract plays against: the embedded one over HTTP, which can hold, fail and watch requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from concur_agents.emulator import Emulator

__all__ = ["Stage"]

_App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]
_GENERATING = frozenset({"/v1/chat/completions", "/v1/completions", "/generate"})
# Engine seconds per second: replies come at once, and what takes time is the framework.
_SPEEDUP = 10_000


class Stage:
    """An engine; one for all tests of a process, by :meth:`shared`. Requests are told apart by ``X-Session-ID``."""

    _only: Stage | None = None
    _making = threading.Lock()

    def __init__(self) -> None:
        from concur_agents.emulator import Emulator, ServiceConfig

        config = ServiceConfig.preset("laptop", speedup=_SPEEDUP)
        self._emulator: Final[Emulator] = Emulator(config, middleware=lambda app: _Front(app, self))
        self._emulator.__enter__()  # ends with the process: its thread is a daemon
        self.url: Final = self._emulator.url
        self.on_request: Callable[[str], None] = lambda _: None
        """Called with the agent's id as a generation request comes in."""
        self.held: dict[str, threading.Event] = {}
        """Agents whose generations wait until the event is set."""
        self.failing: dict[str, int] = {}
        """HTTP status that an agent's generations end with."""

    def close(self) -> None:
        """Take no connections any more, and drop those there are."""
        self._emulator.__exit__(None, None, None)

    @classmethod
    def shared(cls) -> Stage:
        """The one of this process."""
        with cls._making:
            if cls._only is None:
                cls._only = cls()
            return cls._only

    def script(self, agent_id: str, replies: list[dict[str, Any]]) -> None:
        """What the model says to an agent, turn by turn."""
        from concur_agents.emulator.scripts import ScriptedReply

        parsed = [ScriptedReply.parse(reply, f"replies[{turn}]") for turn, reply in enumerate(replies)]
        self._emulator.service.scripts.register(agent_id, parsed)

    def tokens(self) -> tuple[int, int, int]:
        """Prompt, cached and output tokens of all requests that have ended so far."""
        stats = self._emulator.service.scheduler.stats
        modes = stats.by_mode.values()
        return (
            sum(mode.prompt_tokens for mode in modes),
            stats.cached_tokens,
            sum(mode.generation_tokens for mode in modes),
        )


class _Front:
    """In front of the engine."""

    def __init__(self, app: _App, stage: Stage) -> None:
        self._app = app
        self._stage = stage

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] not in _GENERATING:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        agent_id = unquote(headers.get(b"x-session-id", b"").decode("latin-1"))
        self._stage.on_request(agent_id)
        body = await _whole(receive)
        if (hold := self._stage.held.get(agent_id)) is not None and not await _held(hold, receive):
            return  # the client has left
        if (status := self._stage.failing.get(agent_id)) is not None:
            await _fail(send, status)
            return

        given = False

        async def again() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)


async def _whole(receive: Any) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body


async def _held(hold: threading.Event, receive: Any) -> bool:
    """Wait until the hold is over; False when the client leaves before."""
    leaving = asyncio.ensure_future(receive())
    over = asyncio.ensure_future(asyncio.to_thread(hold.wait))
    try:
        await asyncio.wait((leaving, over), return_when=asyncio.FIRST_COMPLETED)
        return not leaving.done()
    finally:
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving


async def _fail(send: Any, status: int) -> None:
    message = {"object": "error", "message": HTTPStatus(status).phrase, "type": "error", "code": status}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": message}).encode()})
