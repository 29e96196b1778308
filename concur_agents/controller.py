"""The running thing: one engine's control loop, and the seats of all agents that use the engine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from concur_agents.agents import SESSION_HEADER
from concur_agents.base import RunningController
from concur_agents.engines.base import EngineReader
from concur_agents.errors import ConfigError, EngineReadError, LifecycleError
from concur_agents.eventlog import EventLog
from concur_agents.events import EventStream, ProblemEvent
from concur_agents.governor import Governor
from concur_agents.laws import Law, TokenBudget
from concur_agents.limiter import Limiter
from concur_agents.samples import EngineSample, Reason, Stats, WindowChange

if TYPE_CHECKING:
    from concur_agents.config.models import Config
    from concur_agents.remote.client import RemoteController

__all__ = ["Controller"]

_log = logging.getLogger("concur_agents")

# Of a tick: leaves time to decide before the next reading is due, so that readings never overlap.
_SCRAPE_SHARE = 0.8
# Seconds beyond a tick for the control loop to end: a reader that overran its timeout must not keep close() for ever.
_PATIENCE = 5.0


class Controller(RunningController):
    """Admits, pauses and resumes the agents of one engine.

    ::

        async with Controller(SGLang("http://127.0.0.1:30000")) as concur:
            async with concur.agent("task-17") as agent:
                async with agent.step() as step:
                    reply = await client.chat.completions.create(...)
                    step.observe(reply.usage)

    Use it from any number of event loops and threads at once (``concur.sync`` blocks instead of awaiting). The control
    loop runs in a thread of its own, so that a blocked event loop never stops it, and admission never waits for a
    reading. When readings or the law fail, the window is held, then opened to ``fallback``: agents always go on.

    Args:
        reader: reads the engine, e.g. ``SGLang(url)``.
        law: decides the window; ``TokenBudget()`` by default.
        tick: seconds between readings. > 0. SGLang updates its metrics with each prefill batch and every 40 decode
            steps, so much less than a second reads the same thing again.
        stale_after: seconds without news from the engine, while agents generate, before the fallback. > 0. Long enough
            for one long prefill, during which some engines do not answer.
        fallback: agents that may be seated then. >= 1; ``inf`` opens up.
        clock: monotonic seconds.
        background: run the control loop in a thread; else call :meth:`tick` yourself.
        history: window changes to remember. >= 1.
        session_header: HTTP header that names an agent to the engine, in ``Agent.headers``; None for none.

    Raises:
        ValueError: a parameter is out of range; names it and its value.
    """

    def __init__(
        self,
        reader: EngineReader,
        *,
        law: Law | None = None,
        tick: float = 1.0,
        stale_after: float = 30.0,
        fallback: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        background: bool = True,
        history: int = 1000,
        session_header: str | None = SESSION_HEADER,
    ) -> None:
        _check("tick", tick, "a finite number of seconds > 0", lambda: tick > 0 and math.isfinite(tick))
        _check("stale_after", stale_after, "a number of seconds > 0", lambda: stale_after > 0)
        _check("fallback", fallback, "a number of agents >= 1", lambda: fallback >= 1)
        _check("history", history, "a whole number >= 1", lambda: history >= 1 and isinstance(history, int))
        self._reader = reader
        self._tick_s = tick
        self._clock = clock
        self._background = background
        self._governor = Governor(
            law if law is not None else TokenBudget(),
            stale_after=stale_after,
            fallback=fallback,
            now=clock(),
            history=history,
        )
        self._governing = threading.RLock()
        """Guards the governor; the limiter has its own lock, which this one's holder may take."""
        self._limiter = Limiter(self._governor.window, clock)
        super().__init__(self._limiter, session_header)
        self._problem: str | None = None
        self._started = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._event_log: EventLog | None = None

    @classmethod
    def from_config(cls, config: str | Path | Mapping[str, Any] | Config | None = None, **overrides: Any) -> Self:
        """A controller as a file, a mapping and the environment say; not started yet.

        Stronger first: ``overrides``, environment variables, the file or mapping, defaults. The fields and variables
        are in ``docs/configuration.md`` and in ``concur config schema``.

        Args:
            config: a YAML or TOML file, or what it would hold; of a file or mapping with a top-level ``concur`` block
                that block is taken. None: the file that ``CONCUR_CONFIG`` names, else the environment alone.
            overrides: parameters of the controller itself. With a ``reader`` no engine need be configured.

        Raises:
            ConfigError: lists every problem; or there are several engines, which are a ``FleetController``'s.
            ValueError: an override is out of range.
            ImportError: the extra ``concur-agents[config]`` is not installed.
        """
        from concur_agents.config import load_config  # pydantic is not for those who configure in code

        chosen = load_config(config, engine="reader" not in overrides).config
        settings = chosen.parameters()
        if "reader" not in overrides:
            if len(chosen.engines) > 1:
                raise ConfigError(
                    f"engines are {len(chosen.engines)}, and a Controller has one: use FleetController.from_config,"
                    " or shared_controller"
                )
            settings["reader"] = chosen.engines[0].reader()
        controller = cls(**settings | overrides)
        if chosen.logging.events is not None:
            controller._event_log = EventLog(chosen.logging.events)
        if chosen.logging.level is not None:
            _log.setLevel(chosen.logging.level.upper())
        return controller

    # --- beside the primitives ---

    @staticmethod
    def connect(url: str, *, token: str | None = None, **options: Any) -> RemoteController:
        """The controller that ``concur serve`` runs at ``url``, for the agents of this process; not started yet.

        It may have several engines; ``engine`` says which one an agent is on.

        Args:
            url: as ``concur serve`` prints it.
            token: its token; by default the environment's ``CONCUR_TOKEN``.
            options: see :class:`~concur_agents.remote.client.RemoteController`.

        Raises:
            ValueError: one of them is out of range.
            ImportError: the extra ``concur-agents[remote]`` is not installed.
        """
        from concur_agents.remote.client import RemoteController  # its HTTP client is an extra's

        return RemoteController.at(url, token=token, **options)

    @property
    def limiter(self) -> Limiter:
        """The seats themselves, for what serves this controller to others."""
        return self._limiter

    def park_idle(self, longer_than_s: float) -> None:
        """Park agents that have been in their tools for longer than that, the longest first, while others wait.

        For agents whose end nobody tells: the law's own patience is not every law's.
        """
        self._limiter.park_idle(longer_than_s)

    def stats(self) -> Stats:
        """This moment."""
        with self._governing:
            governor = self._governor
            now = self._clock()
            population, totals, finished, known = self._limiter.snapshot()
            return Stats(
                at=now,
                window=governor.window,
                reason=governor.reason,
                population=population,
                known=known,
                finished=MappingProxyType(finished),
                sample=governor.sample,
                sample_age_s=None if governor.sample_at is None else now - governor.sample_at,
                problem=governor.problem,
                prompt_tokens=totals.prompt,
                cached_tokens=totals.cached,
                output_tokens=totals.output,
                recomputed_tokens=totals.recomputed,
            )

    def history(self) -> tuple[WindowChange, ...]:
        """The last changes of the window, oldest first."""
        with self._governing:
            return tuple(self._governor.history)

    def events(self, *, size: int = 10_000) -> EventStream:
        """A stream of everything that happens from now on, for ``async for`` or ``for``.

        Args:
            size: events kept for a reader that is slower than they come; beyond it the oldest are dropped. >= 1.

        Raises:
            ValueError: ``size`` is out of range.
        """
        _check("size", size, "a whole number >= 1", lambda: size >= 1 and isinstance(size, int))
        stream = EventStream(size, self._unsubscribe)
        self._limiter.streams.append(stream)
        if self._stop.is_set():
            stream.close()  # nothing will happen any more
        return stream

    # --- running ---

    def start(self) -> Self:
        """Begin the control loop. Once; a closed controller does not start again.

        Raises:
            LifecycleError: it was started before.
        """
        with self._governing:
            if self._started or self._stop.is_set():
                raise LifecycleError("this controller was started before: make another one")
            self._started = True
            if self._event_log is not None:
                self._event_log.start(self.events())
            if self._background:
                thread = threading.Thread(target=self._loop, name="concur-control", daemon=True)
                thread.start()
                self._thread = thread
        return self

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._stop.is_set()

    def close(self, *, timeout: float | None = None) -> None:
        """Stop. Whoever waits for a seat gets ControllerClosedError; whoever is known ends as cancelled. Idempotent.

        Blocks for as long as a reading in progress takes.

        Args:
            timeout: seconds for that, at most; by default a tick and some. >= 0.
        """
        self._stop.set()
        self._limiter.close()
        patience = self._tick_s + _PATIENCE if timeout is None else timeout
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(patience)
        if self._event_log is not None:
            self._event_log.join(min(patience, _PATIENCE))
        self._reader.close()

    def tick(self) -> None:
        """Take one reading and act on it; what the control loop does every ``tick`` seconds. Never raises Exception."""
        try:
            self._control()
        except Exception as error:  # noqa: BLE001 - a bug of ours must not leave agents waiting for ever: open up
            self._fail(error)
        self._report()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A reading in progress may take most of a tick; the caller's other tasks go on meanwhile.
        await asyncio.to_thread(self.close) if self._background else self.close()

    # --- inside ---

    def _loop(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                self.tick()
            except BaseException as error:  # noqa: BLE001 - CancelledError or SystemExit of a reader, in our own thread
                self._fail(error)
                self._report()
            due = max(due + self._tick_s, time.monotonic())  # a late tick is not made up for by a burst
            self._stop.wait(due - time.monotonic())

    def _control(self) -> None:
        reading, problem = self._read()
        with self._governing:
            governor, now, before = self._governor, self._clock(), self._governor.window
            latest = governor.history[-1]
            population, over = self._limiter.measure()
            if reading is None:
                restarted = governor.missed(problem, population, over, now)
            else:
                restarted = governor.read(reading, population, over, now)
            if governor.decided:
                self._limiter.reset()
            change = governor.history[-1]
            window, tokens = governor.window, governor.tokens
            ahead, patience_s = governor.ahead, governor.patience_s
        cut = window < before
        if change is not latest:
            self._limiter.announce(change)
            cut |= change.reason is Reason.CUT
        self._limiter.set_window(window, tokens=tokens, ahead=ahead, patience_s=patience_s, new_epoch=restarted or cut)

    def _fail(self, error: BaseException) -> None:
        """Open up until the next good decision."""
        with self._governing:
            governor = self._governor
            if self._problem is None:  # once, not each tick
                _log.error("Concur's control loop failed", exc_info=error)
            before = governor.window
            governor.failed(f"control loop failed: {type(error).__name__}: {error}", self._clock())
            change = governor.history[-1] if governor.window != before else None
        if change is not None:
            self._limiter.announce(change)
        self._limiter.set_window(self._governor.window, new_epoch=False)

    def _read(self) -> tuple[EngineSample | None, str]:
        name = type(self._reader).__name__
        try:
            reading: object = self._reader.read(self._tick_s * _SCRAPE_SHARE)
        except EngineReadError as error:
            return None, str(error)
        except Exception as error:  # noqa: BLE001 - a user's reader may raise anything, and must not stop the batch
            return None, f"reader {name} failed: {type(error).__name__}: {error}"
        if not isinstance(reading, EngineSample):
            return None, f"reader {name} returned no EngineSample but {reading!r:.80}"
        return reading, ""

    def _report(self) -> None:
        """Say once what is wrong, and once that it no longer is."""
        if self._stop.is_set():
            return  # a reading that was cut by closing is no news
        problem = self._governor.problem
        if (problem is None) == (self._problem is None):
            return
        self._problem = problem
        if problem is not None:
            _log.warning("%s (agents go on, window %g)", problem, self._governor.window)
        else:
            _log.info("readings are back (window %g)", self._governor.window)
        self._limiter.announce(ProblemEvent(at=self._clock(), problem=problem))

    def _unsubscribe(self, stream: EventStream) -> None:
        with contextlib.suppress(ValueError):  # closing twice is no error
            self._limiter.streams.remove(stream)


def _check(field: str, value: object, wanted: str, good: Callable[[], bool]) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not good():
        raise ValueError(f"Controller: {field} must be {wanted}, got {value!r}")
