"""Several engines, and their agents, as one controller in this process."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from concur_agents.agents import SESSION_HEADER
from concur_agents.base import RunningController
from concur_agents.controller import Controller
from concur_agents.engines import AnyEngine
from concur_agents.engines.base import EngineReader
from concur_agents.engines.reader import MetricsReader
from concur_agents.engines.url import engine_url
from concur_agents.errors import LifecycleError
from concur_agents.eventlog import EventLog
from concur_agents.events import EventStream
from concur_agents.fleet.joined import joined
from concur_agents.fleet.limiter import FleetLimiter
from concur_agents.fleet.load import EngineLoad, Refill
from concur_agents.fleet.probe import Probe
from concur_agents.fleet.totals import total
from concur_agents.remote.background import Background
from concur_agents.samples import Stats, WindowChange

if TYPE_CHECKING:
    from concur_agents.config.models import Config

__all__ = ["FleetController"]

_log = logging.getLogger("concur_agents.fleet")

_EVERY_S = 1.0
_PATIENCE_S = 5.0


class FleetController(RunningController):
    """Admits, pauses and resumes the agents of several engines, each with a window of its own.

    ::

        async with FleetController([SGLang("http://10.0.0.1:30000"), SGLang("http://10.0.0.2:30000")]) as concur:
            llm = concur.wrap_client(client)  # each call waits for a seat, and goes to the engine its agent is on
            async with concur.agent("task-17"):
                reply = await llm.chat.completions.create(...)

    Agents, steps, primitives, decorators and wrapped clients are those of a ``Controller``. A new agent goes to the
    engine under the least pressure, and stays there, where its prefix is. It moves, between steps, when its engine
    takes no connections, and when it waits for a seat, has nothing to lose, and another engine is idle. :meth:`engine`
    says where it is.

    Args:
        engines: readers such as ``SGLang(url)``, or addresses, whose engines' kinds are found out; or readers of your
            own, by the engines' addresses.
        session_header: HTTP header that names an agent to its engine, in ``Agent.headers``; None for none.
        options: as for ``Controller``, for each engine's: ``law``, ``tick`` and so on.

    Raises:
        ValueError: there is no engine, or one twice; or a parameter is out of range.
    """

    def __init__(
        self,
        engines: Iterable[str | MetricsReader] | Mapping[str, EngineReader],
        *,
        session_header: str | None = SESSION_HEADER,
        **options: Any,
    ) -> None:
        readers = _readers(engines)
        self._controllers: Final[Mapping[str, Controller]] = {
            url: Controller(reader, session_header=session_header, **options) for url, reader in readers.items()
        }
        self._limiter: Final = FleetLimiter({url: each.limiter for url, each in self._controllers.items()})
        super().__init__(self._limiter, session_header)
        self._refills = {url: Refill() for url in readers}
        self._probes = {url: Probe(url) for url in readers}
        self._background: Background | None = None
        self._running = options.get("background", True)
        self._event_log: EventLog | None = None
        self._starting = threading.Lock()
        self._started = self._closed = False

    @classmethod
    def from_config(cls, config: str | Path | Mapping[str, Any] | Config | None = None, **overrides: Any) -> Self:
        """A controller as a file, a mapping and the environment say; not started yet.

        See ``Controller.from_config``. All engines have the same law and settings.

        Raises:
            ConfigError: lists every problem.
            ValueError: an override is out of range.
            ImportError: the extra ``concur-agents[config]`` is not installed.
        """
        from concur_agents.config import load_config  # pydantic is not for those who configure in code

        chosen = load_config(config, engine="engines" not in overrides).config
        settings = chosen.parameters()
        engines = overrides.pop("engines", None)
        if engines is None:
            engines = [each.reader() for each in chosen.engines]
        controller = cls(engines, **settings | overrides)
        if chosen.logging.events is not None:
            controller._event_log = EventLog(chosen.logging.events)
        if chosen.logging.level is not None:
            logging.getLogger("concur_agents").setLevel(chosen.logging.level.upper())
        return controller

    # --- engines ---

    @property
    def all_engines(self) -> tuple[str, ...]:
        """The engines' addresses, those too that take no agents now."""
        return self._limiter.all_engines

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines' addresses, as far as they take agents now; all of them if none does."""
        return tuple(url for url in self.all_engines if self.accepts(url)) or self.all_engines

    def accepts(self, engine: str) -> bool:
        """Whether an engine takes agents, as far as is known."""
        return self._limiter.accepts(engine)

    def pin(self, agent_id: str, url: str) -> None:
        """Have the agent be at that engine from its next step on: some other router has put it there, and will again.

        Args:
            agent_id: whose context is open.
            url: one of :attr:`all_engines`, with or without ``/v1``.

        Raises:
            ValueError: there is no such engine.
            UnknownAgentError: there is no such agent.
        """
        self._limiter.pin(agent_id, self._url(url))

    def follow(self, agent_id: str, engine: str) -> None:
        """The agent, which comes back from elsewhere soon, was on that engine: its prefix is there."""
        self._limiter.follow(agent_id, engine)

    @property
    def limiter(self) -> FleetLimiter:
        """The seats themselves, for what serves this controller to others."""
        return self._limiter

    # --- seeing ---

    def stats_of(self, engine: str) -> Stats:
        """This moment, at one engine.

        Raises:
            ValueError: there is no such engine.
        """
        return self._controllers[self._url(engine)].stats()

    def stats(self) -> Stats:
        """This moment, of all engines together; windows and counts are sums, and no engine's reading is in it."""
        return total({url: each.stats() for url, each in self._controllers.items()})

    def history(self, engine: str | None = None) -> tuple[WindowChange, ...]:
        """The last changes of one engine's window, or of all, oldest first.

        Raises:
            ValueError: there is no such engine.
        """
        if engine is not None:
            return self._controllers[self._url(engine)].history()
        changes = (change for each in self._controllers.values() for change in each.history())
        return tuple(sorted(changes, key=lambda change: change.at))

    def events(self, *, size: int = 10_000) -> EventStream:
        """A stream of everything that happens from now on at all engines, for ``async for`` or ``for``.

        An agent that moves finishes as cancelled at one engine, and is admitted or resumed at another.

        Args:
            size: events kept for a reader that is slower than they come; beyond it the oldest are dropped. >= 1.

        Raises:
            ValueError: ``size`` is out of range.
        """
        if size < 1:
            raise ValueError(f"FleetController: size must be a whole number >= 1, got {size!r}")
        return joined(tuple(each.limiter.streams for each in self._controllers.values()), size, closed=self._closed)

    # --- running ---

    def start(self) -> Self:
        """Begin to read the engines. Once; a closed controller does not start again.

        Raises:
            LifecycleError: it was started before.
        """
        with self._starting:
            if self._started or self._closed:
                raise LifecycleError("this controller was started before: make another one")
            self._started = True
            if self._event_log is not None:
                self._event_log.start(self.events())
            for each in self._controllers.values():
                each.start()
            if self._running:
                self._background = Background()
                self._background.post(lambda: asyncio.ensure_future(self._watch()))
        return self

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    def close(self, *, timeout: float | None = None) -> None:
        """Stop. Whoever waits for a seat gets ControllerClosedError; whoever is known ends as cancelled. Idempotent.

        Args:
            timeout: seconds for each engine's reading in progress, at most; by default a tick and some. >= 0.
        """
        with self._starting:
            background, self._background = self._background, None
            self._closed = True
        if background is not None:
            background.stop(_PATIENCE_S if timeout is None else timeout)
        self._limiter.close()
        for each in self._controllers.values():
            each.close(timeout=0)  # all of them end their readings before one is waited for
        for each in self._controllers.values():
            each.close(timeout=timeout)
        if self._event_log is not None:
            self._event_log.join(_PATIENCE_S if timeout is None else min(timeout, _PATIENCE_S))

    async def look(self) -> None:
        """See what the engines are doing, and who is to move; what is done about once a second."""
        await asyncio.gather(*(self._look_at(url) for url in self._controllers))
        self._limiter.balance()

    def tick(self) -> None:
        """Read every engine once, for a controller that was made with ``background=False``; see :meth:`look` too."""
        for each in self._controllers.values():
            each.tick()

    # --- inside ---

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - the next look may be better, and somebody has to see engines die
                _log.exception("the engines could not be looked after")
            await asyncio.sleep(_EVERY_S)

    async def _look_at(self, url: str) -> None:
        stats, refill, probe = self._controllers[url].stats(), self._refills[url], self._probes[url]
        refill.see(stats.sample)
        self._limiter.report(url, EngineLoad.of(stats, refill.seconds))
        if self._limiter.doubted(url) and await probe.connects():
            self._limiter.connected(url)
        before = self.accepts(url)
        self._limiter.mark(url, down=not await probe.up(stats))
        if before is not self.accepts(url):
            what = "takes no connections: its agents go on at others" if before else "is back"
            _log.warning("engine %s %s", url, what)

    def _url(self, url: str) -> str:
        engine = engine_url(url).url
        if engine not in self._controllers:
            raise ValueError(f"engine must be one of {', '.join(self._controllers)}, got {url!r:.200}")
        return engine


def _readers(engines: Iterable[str | MetricsReader] | Mapping[str, EngineReader]) -> dict[str, EngineReader]:
    if isinstance(engines, Mapping):
        pairs: list[tuple[str, EngineReader]] = [(engine_url(url).url, reader) for url, reader in engines.items()]
    else:
        readers = [AnyEngine(each) if isinstance(each, str) else each for each in engines]
        pairs = [(reader.url, reader) for reader in readers]
    if not pairs:
        raise ValueError("engines must hold at least one engine")
    found: dict[str, EngineReader] = {}
    for url, reader in pairs:
        if url in found:
            raise ValueError(f"engines must not hold an engine twice, got {url}")
        found[url] = reader
    return found
