"""Which engine each agent is on, for all processes. No generation waits for it but an agent's first.

It keeps nothing that must not be lost: which shards there are it is told, and who is where it learns from these, once a
second. So a new life of it goes on where the last one ended. Runs in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from concur_agents.fleet.board import Board
from concur_agents.fleet.words import EngineState, Scene, ShardReport
from concur_agents.remote.protocol import UnreachableError

__all__ = ["LONGEST_WATCH_S", "Directory", "Shards"]

_log = logging.getLogger("concur_agents.fleet")

_EVERY_S = 1.0
_PATIENCE_S = 5.0
"""For a shard's report. One without a report is no engine that is down: its agents go on without control."""
_LISTED_S = 5.0
"""Between looks at the list of shards: engines that joined or left."""
LONGEST_WATCH_S: Final = 30.0
"""Of one look for news."""


class Shards(Protocol):
    """How shards are found and asked."""

    async def list(self) -> Mapping[str, str]:
        """What each engine's shard is called, by the engine's address."""

    async def report(self, shard: str, *, timeout_s: float) -> ShardReport:
        """What a shard says.

        Raises:
            UnreachableError: it does not answer.
        """


class Directory:
    """Places agents on engines, and tells every process which engines there are.

    Args:
        shards: finds and asks them.
        session_header: that names an agent to the engine.
        clock: monotonic seconds.
    """

    def __init__(self, shards: Shards, session_header: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = shards
        self._header = session_header
        self._clock = clock
        self._board = Board()
        self._shards: dict[str, str] = {}
        """Names, by engine."""
        self._draining: set[str] = set()
        self._listed_at: float | None = None
        self._life, self._version = uuid.uuid4().hex, 0
        self._scene = Scene((self._life, 0))
        self._changed = asyncio.Event()
        self._ready = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._problem: str | None = None

    async def place(self, agent_id: str, parent: str | None) -> str | None:
        """The engine for an agent's next step; None when there is none."""
        self._run()
        await self._ready.wait()
        try:
            return self._board.place(agent_id, parent, self._clock())
        except LookupError:
            return None

    async def watch(self, version: tuple[str, int] | None) -> Scene:
        """The scene, once it is another than that version, or after a while."""
        self._run()
        await self._ready.wait()
        if self._scene.version == version:
            try:
                async with asyncio.timeout(LONGEST_WATCH_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self._scene

    async def look(self) -> None:
        """Look at once for engines that joined or left."""
        self._listed_at = None
        self._run()
        await self._turn()

    async def drain(self, url: str, *, drain: bool = True) -> None:
        """An engine takes no new agents, and those it has move at their next steps. A new life of ours forgets it."""
        self._run()
        await self._ready.wait()
        self._draining = self._draining | {url} if drain else self._draining - {url}
        self._show({})

    # --- inside ---

    def _run(self) -> None:
        if self._running is None:  # not before: the event loop may not be there while it is made
            self._running = asyncio.create_task(self._loop())

    async def _loop(self) -> None:
        while True:
            try:
                await self._turn()
                self._problem = None
            except Exception as error:  # noqa: BLE001 - the next turn may be better, and somebody has to place agents
                if self._problem is None:
                    _log.exception("the directory could not look after its shards")
                self._problem = repr(error)
            self._ready.set()
            await asyncio.sleep(_EVERY_S)

    async def _turn(self) -> None:
        now = self._clock()
        if self._listed_at is None or now - self._listed_at >= _LISTED_S:
            self._listed_at = now
            self._list(await self._ask.list())
        answers = await asyncio.gather(*(self._report(shard) for shard in self._shards.values()))
        reports = [each for each in answers if each is not None]
        now = self._clock()
        for report in reports:
            self._board.report(report, now)
        self._show(self._board.steal(reports, now))

    def _list(self, shards: Mapping[str, str]) -> None:
        for url, name in shards.items():
            if url not in self._shards:
                self._shards[url] = name
                self._board.join(url)
        for url in set(self._shards) - set(shards):
            del self._shards[url]
            self._board.leave(url)

    async def _report(self, shard: str) -> ShardReport | None:
        try:
            return await self._ask.report(shard, timeout_s=_PATIENCE_S)
        except UnreachableError as error:
            _log.debug("no report: %s", error)
            return None

    def _show(self, moves: dict[str, str]) -> None:
        """Tell everybody, if it is news."""
        fleet = self._board.fleet
        for url in self._shards:
            (fleet.drain if url in self._draining else fleet.join)(url)
        engines = tuple(EngineState(url, name, accepts=fleet.accepts(url)) for url, name in self._shards.items())
        if engines == self._scene.engines and not moves:
            return
        self._version += 1
        self._scene = Scene((self._life, self._version), engines, moves, self._header)
        self._changed.set()
        self._changed = asyncio.Event()
