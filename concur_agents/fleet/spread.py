"""Seats in many shards, one for each engine, as one process sees them: told by a directory which engine is whose."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Protocol, Self

from concur_agents.base import BaseController
from concur_agents.engines.url import engine_url
from concur_agents.fleet.directory import LONGEST_WATCH_S
from concur_agents.fleet.seats import FleetSeats
from concur_agents.fleet.words import EngineState, Scene
from concur_agents.remote.background import Background
from concur_agents.remote.protocol import ReadHistory, ReadStats, UnreachableError
from concur_agents.remote.seats import RemoteSeats
from concur_agents.remote.values import from_json
from concur_agents.samples import Stats, WindowChange

__all__ = ["DirectoryClient", "SpreadController"]

_log = logging.getLogger("concur_agents.fleet")

_PLACE_S = 5.0
"""For the directory to place an agent, at most; then it is placed by what this process knows."""
_AGAIN_S = 1.0
"""After the directory gave no answer, and until it is asked again."""
_TIDY_S = 60.0
_REFUSED_S = 10.0
"""For which an engine that refused a connection of ours gets no agents of ours; by then the directory knows better."""


class DirectoryClient(Protocol):
    """How the directory is asked."""

    async def place(self, agent_id: str, parent: str | None, *, timeout_s: float) -> str | None:
        """See ``Directory.place``.

        Raises:
            UnreachableError: it does not answer.
        """

    async def watch(self, version: tuple[str, int] | None, *, timeout_s: float) -> Scene:
        """See ``Directory.watch``.

        Raises:
            UnreachableError: it does not answer.
        """


class SpreadController(BaseController):
    """Admits the agents of this process, beside those of others, at the shards of several engines.

    Agents, steps, primitives, decorators and wrapped clients are those of a ``Controller``. Beside them:

    * :meth:`engine` says which engine an agent is on; a client wrapped by :meth:`wrap_client` sends there.
    * When an engine is down, its agents go on at another with their next steps; who waits for a seat there, at once.
    * While a shard is gone, its agents go on without control; that is said once, and when it is back.

    Args:
        directory: asks the directory.
        open_seats: the seats of one engine's shard, as this process sees them.
        scene: the engines, as the directory showed them.
        patience_s: seconds without an answer after which a shard is taken to be gone. > 0.
    """

    def __init__(
        self,
        directory: DirectoryClient,
        open_seats: Callable[[EngineState], RemoteSeats],
        scene: Scene,
        *,
        patience_s: float,
    ) -> None:
        self._patience_s = patience_s
        self._directory = directory
        self._open_shard = open_seats
        self._engines: Mapping[str, EngineState] = {each.url: each for each in scene.engines}
        self._version = scene.version
        self._silent_until = 0.0
        self._refused_until: dict[str, float] = {}
        """By engine: monotonic seconds."""
        self._here: Counter[str] = Counter()
        """Agents that this process has placed without the directory, by engine."""
        self._background = Background()
        self._loop = self._background.ask(_this_loop(), patience_s)
        self._fleet: Final = FleetSeats(self, self._open_seats, self._run)
        self._watching = self._run(self._watch())
        super().__init__(self._fleet, scene.session_header)

    # --- engines ---

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines' addresses, as far as they take agents now; all of them if none does."""
        return tuple(url for url in self._engines if self.accepts(url)) or tuple(self._engines)

    def engine(self, agent_id: str) -> str | None:
        """The address of the engine that an agent of this process is on, fixed while it generates.

        None for one that has not begun its first step.
        """
        return self._fleet.engine(agent_id)

    def pin(self, agent_id: str, url: str) -> None:
        """Have the agent be at that engine from its next step on: some other router has put it there, and will again.

        Args:
            agent_id: of an agent of this process, whose context is open.
            url: one of :attr:`engines`, with or without ``/v1``.

        Raises:
            ValueError: there is no such engine.
            UnknownAgentError: it is no agent of this process.
        """
        engine = engine_url(url).url
        if engine not in self._engines:
            raise ValueError(f"url must be one of {', '.join(self._engines)}, got {url!r:.200}")
        self._fleet.pin(agent_id, engine)

    def refused(self, url: str) -> None:
        """An engine refused this process a connection: its agents here go on at others, before the directory says so.

        Wrapped clients say it by themselves. What is no engine's address is passed over.
        """
        if url in self._engines:
            self._refused_until[url] = time.monotonic() + _REFUSED_S
            self._fleet.refused(url)

    # --- seeing ---

    def stats_of(self, engine: str) -> Stats:
        """This moment, at one engine's shard.

        Raises:
            UnreachableError: it does not answer.
        """
        return from_json(Stats, self._fleet.of(engine).ask(ReadStats()))

    def stats(self) -> Mapping[str, Stats]:
        """This moment, by engine; those whose shards do not answer are left out."""
        found = {}
        for url in tuple(self._engines):
            try:
                found[url] = self.stats_of(url)
            except UnreachableError as error:
                _log.warning("no statistics of %s: %s", url, error)
        return MappingProxyType(found)

    def history(self, engine: str) -> tuple[WindowChange, ...]:
        """The last changes of one engine's window, oldest first.

        Raises:
            UnreachableError: its shard does not answer.
        """
        answer = self._fleet.of(engine).ask(ReadHistory())
        return tuple(from_json(WindowChange, each) for each in answer["history"])

    def flush(self) -> None:
        """Block until the shards know everything that was said so far, or are gone."""
        for url in tuple(self._engines):
            self._fleet.of(url).flush()

    # --- running ---

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._fleet.closed

    def close(self, *, timeout: float | None = None) -> None:
        """Leave: whoever waits for a seat gets ControllerClosedError, this process's agents end as cancelled.

        The shards stay. Idempotent.

        Args:
            timeout: seconds to tell each shard, at most. >= 0.
        """
        if self._fleet.closed:
            return
        self._fleet.close(timeout)
        self._background.stop(self._patience_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # --- where agents are ---

    @property
    def all_engines(self) -> tuple[str, ...]:
        """The engines' addresses, those that take no agents too."""
        return tuple(self._engines)

    def accepts(self, engine: str) -> bool:
        """Whether an engine takes agents, as far as this process knows."""
        state = self._engines.get(engine)
        return state is not None and state.accepts and time.monotonic() >= self._refused_until.get(engine, 0.0)

    async def place(self, agent_id: str, parent: str | None) -> str:
        """The engine for an agent's next step: as the directory says, or as well as can be without it."""
        clock = asyncio.get_running_loop().time
        if clock() >= self._silent_until:
            try:
                engine = await self._directory.place(agent_id, parent, timeout_s=_PLACE_S)
                if engine is not None and engine in self._engines and (self.accepts(engine) or len(self._engines) == 1):
                    return engine
            except UnreachableError as error:
                self._silent_until = clock() + _AGAIN_S
                _log.debug("an agent is placed without the directory: %s", error)
        here = self._fleet.engine(agent_id)
        if here is not None and here in self.engines:
            return here
        above = None if parent is None else self._fleet.engine(parent)
        if above is not None and self.accepts(above):
            return above
        engine = min(self.engines, key=self._here.__getitem__)
        self._here[engine] += 1
        return engine

    # --- inside ---

    def _open_seats(self, url: str) -> RemoteSeats:
        return self._open_shard(self._engines[url])

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def _watch(self) -> None:
        """Learn of engines that come and go, for as long as we are there."""
        clock = asyncio.get_running_loop().time
        tidied_at, pause_s = clock(), _AGAIN_S
        while True:
            try:
                scene = await self._directory.watch(self._version, timeout_s=LONGEST_WATCH_S + self._patience_s)
                self._see(scene)
                pause_s = _AGAIN_S
            except UnreachableError as error:
                _log.debug("no news of engines: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 2 * self._patience_s)
            except Exception:  # noqa: BLE001 - the next news may be better
                _log.exception("news of engines could not be taken")
                await asyncio.sleep(pause_s)
            if clock() - tidied_at >= _TIDY_S:
                tidied_at = clock()
                self._fleet.tidy()

    def _see(self, scene: Scene) -> None:
        if scene.version == self._version or not scene.engines:
            return
        before, self._engines = self._engines, {each.url: each for each in scene.engines}
        self._version = scene.version
        for url, engine in before.items():
            if engine.accepts and not self.accepts(url):
                _log.warning("engine %s takes no agents any more: its agents go on at others", url)
                self._fleet.refused(url)
        self._fleet.move(scene.moves)


async def _this_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
