"""The running thing: one engine's control loop, and the seats of all agents that use the engine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

from concur_agents.agents import INHERIT, SESSION_HEADER, Agent, Inherit, SyncAgent, check_header, current_agent
from concur_agents.clients import wrap_client
from concur_agents.decorator import Decorated, Decorator, decorator
from concur_agents.engines.base import EngineReader
from concur_agents.errors import EngineReadError, LifecycleError, UnknownAgentError
from concur_agents.eventlog import EventLog
from concur_agents.events import EventStream, ProblemEvent
from concur_agents.governor import Governor
from concur_agents.laws import Law, TokenBudget
from concur_agents.limiter import Limiter
from concur_agents.samples import AgentState, AgentView, EngineSample, Outcome, Reason, Stats, WindowChange
from concur_agents.usage import TokenUsage

if TYPE_CHECKING:
    from concur_agents.config.models import Config

__all__ = ["Controller", "SyncController"]

_log = logging.getLogger("concur_agents")
_Client = TypeVar("_Client")

# Of a tick: leaves time to decide before the next reading is due, so that readings never overlap.
_SCRAPE_SHARE = 0.8
# Seconds beyond a tick for the control loop to end: a reader that overran its timeout must not keep close() for ever.
_PATIENCE = 5.0


class Controller:
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
        if session_header is not None:
            check_header(session_header)
        self.session_header: Final = session_header
        """HTTP header that names an agent to the engine; None for none."""
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
        self._problem: str | None = None
        self._started = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._event_log: EventLog | None = None
        self.sync: Final = SyncController(self, self._limiter)
        """The same agents and primitives for threads: blocking instead of awaiting."""

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
            ConfigError: lists every problem.
            ValueError: an override is out of range.
            ImportError: the extra ``concur-agents[config]`` is not installed.
        """
        from concur_agents.config import load_config  # pydantic is not for those who configure in code

        chosen = load_config(config, engine="reader" not in overrides).config
        settings: dict[str, Any] = {
            "law": chosen.law.build(),
            "tick": chosen.tick,
            "stale_after": chosen.stale_after,
            "fallback": chosen.fallback,
            "history": chosen.history,
            "session_header": chosen.identity.header,
        }
        if "reader" not in overrides:
            settings["reader"] = chosen.engines[0].reader()
        controller = cls(**settings | overrides)
        if chosen.logging.events is not None:
            controller._event_log = EventLog(chosen.logging.events)
        if chosen.logging.level is not None:
            _log.setLevel(chosen.logging.level.upper())
        return controller

    # --- agents ---

    @overload
    def agent(self, agent_id: str | None = None, *, parent: str | Inherit | None = INHERIT) -> Agent: ...

    @overload
    def agent(self, function: Decorated, /) -> Decorated: ...

    @overload
    def agent(self, *, id_of: Callable[..., str], parent: str | Inherit | None = INHERIT) -> Decorator: ...

    def agent(
        self,
        agent_id: Any = None,
        *,
        id_of: Callable[..., str] | None = None,
        parent: str | Inherit | None = INHERIT,
    ) -> Any:
        """One agent, as a context manager; or a decorator, under which each call of a function is one.

        ::

            async with concur.agent("task-17") as agent: ...

            @concur.agent  # or @concur.agent(id_of=lambda task: task.name)
            async def solve(task): ...

        A decorated function may be ``async def``, ``def`` or a generator of either kind. Its agent is finished however
        the call ends, and a failure of Concur's own never reaches it; its model calls are steps by :meth:`wrap_client`
        or by :meth:`current_agent`.

        Args:
            agent_id: stable over its life, and nobody else's; made up when None.
            id_of: the id, from the arguments of a decorated function's call. While another agent has that id, this one
                is called ``<id>~<8 hex digits>``.
            parent: the agent whose seat it shares. By default the agent in whose context this is called, so that
                sub-agents share without being told to; None for a seat of its own.
        """
        if id_of is not None:
            return decorator(self, id_of, parent)
        if callable(agent_id):
            return decorator(self)(agent_id)
        return Agent(self._limiter, agent_id or uuid.uuid4().hex, parent, self.session_header)

    def current_agent(self) -> Agent | None:
        """The agent in whose context this is called; None outside of any. Of several it is the innermost."""
        return current_agent(self._limiter)

    def wrap_client(self, client: _Client) -> _Client:
        """A client of the same class, of which each generation is a step of the agent around it.

        For the clients of the ``openai`` package (2.0 or later: ``OpenAI``, ``AsyncOpenAI``, Azure) and the
        ``anthropic`` package. Generations are chat completions, completions, responses and messages, by ``create``,
        ``parse`` or ``stream``, raw or not: each waits for a seat, names the agent to the engine (a header of the
        user's own wins), observes the reply's usage, and is at its boundary when the reply is there, or its stream is
        exhausted, closed or collected. The SDK's retries are within the step. Everything else, and a generation outside
        of any agent, goes through as it was. ``client`` is not changed, and shares its connections.

        Raises:
            TypeError: ``client`` is no client of that kind.
        """
        return wrap_client(client, self)

    async def admit(self, agent_id: str, *, parent: str | None = None) -> None:
        """Primitive: let a new agent take its first step. Waits for a seat; returns at once when it generates already.

        Cancelling the wait takes the request back.

        Raises:
            LifecycleError: the agent was admitted before and is paused or parked.
            ControllerClosedError: the controller is closed.
        """
        _check_admit(agent_id, self._limiter.state(agent_id))
        await self._limiter.wait(self._limiter.request(agent_id, parent))

    async def resume(self, agent_id: str) -> None:
        """Primitive: let a paused or parked agent take its next step. Waits for a seat if it has none.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
            ControllerClosedError: the controller is closed.
        """
        _check_resume(agent_id, self._limiter.state(agent_id))
        await self._limiter.wait(self._limiter.request(agent_id, None))

    def pause(self, agent_id: str) -> bool:
        """Primitive: the agent's generation ended. It keeps its seat, unless the window has shrunk below it.

        Returns False when it was not generating.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        return self._limiter.pause(agent_id)

    def park(self, agent_id: str) -> bool:
        """Pause the agent and give its seat back until it resumes, for waits without end, such as a person's.

        Returns False when it held no seat.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        return self._limiter.park(agent_id)

    def park_idle(self, longer_than_s: float) -> None:
        """Park agents that have been in their tools for longer than that, the longest first, while others wait.

        For agents whose end nobody tells: the law's own patience is not every law's.
        """
        self._limiter.park_idle(longer_than_s)

    def finish(self, agent_id: str, outcome: Outcome = Outcome.COMPLETED) -> bool:
        """The agent ended, and its sub-agents with it. False, and no error, when it is not known (any more)."""
        return self._limiter.finish(agent_id, Outcome(outcome))

    def observe(self, agent_id: str, usage: object) -> None:
        """Take the usage of the agent's running step, of any client. Optional, and never raises.

        Dropped when none runs: call it before :meth:`pause`.
        """
        self._limiter.observe(agent_id, TokenUsage.of(usage))

    # --- seeing ---

    def agents(self) -> tuple[AgentView, ...]:
        """Every agent that has begun and not finished."""
        return self._limiter.views()

    def view(self, agent_id: str) -> AgentView | None:
        """One of them; None when it is not known (any more)."""
        return self._limiter.view(agent_id)

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

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.start()

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


class SyncController:
    """A controller's primitives for threads. Use ``Controller.sync``; :meth:`Controller.pause` and such never block."""

    def __init__(self, controller: Controller, limiter: Limiter) -> None:
        self._controller = controller
        self._limiter = limiter

    def agent(self, agent_id: str | None = None, *, parent: str | Inherit | None = INHERIT) -> SyncAgent:
        """See :meth:`Controller.agent`, which also decorates blocking functions."""
        return SyncAgent(self._limiter, agent_id or uuid.uuid4().hex, parent, self._controller.session_header)

    def admit(self, agent_id: str, *, parent: str | None = None) -> None:
        """See :meth:`Controller.admit`; blocks the calling thread."""
        _check_admit(agent_id, self._limiter.state(agent_id))
        self._limiter.wait_blocking(self._limiter.request(agent_id, parent))

    def resume(self, agent_id: str) -> None:
        """See :meth:`Controller.resume`; blocks the calling thread."""
        _check_resume(agent_id, self._limiter.state(agent_id))
        self._limiter.wait_blocking(self._limiter.request(agent_id, None))


def _check(field: str, value: object, wanted: str, good: Callable[[], bool]) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not good():
        raise ValueError(f"Controller: {field} must be {wanted}, got {value!r}")


def _check_admit(agent_id: str, state: AgentState | None) -> None:
    if state in (AgentState.IN_TOOL, AgentState.PARKED, AgentState.RETURNING):
        raise LifecycleError(f"agent {agent_id!r} was admitted before and is {state}: resume it instead")


def _check_resume(agent_id: str, state: AgentState | None) -> None:
    if state is None:
        raise UnknownAgentError(f"agent {agent_id!r} was never admitted, or has finished: admit it first")
