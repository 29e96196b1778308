"""Seats of several engines as one, where each engine's are elsewhere: in shards, of which a directory knows the places.

Each agent has its seat at the engine that it is on, and that may change. Nothing here blocks, since what is said to a
shard is said in the background; where the engines' seats are in this process, see ``limiter``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from concur_agents.errors import ControllerClosedError, LifecycleError, UnknownAgentError
from concur_agents.remote.seats import RemoteSeats
from concur_agents.samples import AgentState, AgentView, Outcome
from concur_agents.usage import TokenUsage

__all__ = ["FleetRequest", "FleetSeats", "Places"]


class Places(Protocol):
    """Says which engine an agent is to be on."""

    @property
    def all_engines(self) -> tuple[str, ...]:
        """Every engine that there is."""

    async def place(self, agent_id: str, parent: str | None) -> str:
        """The engine for its next step. Never raises Exception but ControllerClosedError, never hangs."""

    def accepts(self, engine: str) -> bool:
        """Whether the engine takes agents, as far as is known."""


@dataclass(slots=True, eq=False)
class _Here:
    """One agent of this process."""

    agent_id: str
    parent: str | None
    engine: str | None = None
    born: float = field(default_factory=time.monotonic)
    """When it was begun; at each engine it is as old as that."""
    moved: bool = False
    entered: bool = False
    """Its context is open, here."""
    settled: bool = False
    """And at the engine's seats too."""
    target: str | None = None
    """Where it was told to go."""
    pinned: bool = False
    """Where it is was said by the user."""
    running: int = 0
    """Steps that have begun and not ended: it does not move."""
    primitive: bool = False
    """It generates by a primitive: likewise."""
    waits: set[_Wait] = field(default_factory=set)

    @property
    def generates(self) -> bool:
        return self.running > 0 or self.primitive


@dataclass(slots=True, eq=False)
class _Wait:
    """Somebody who waits for a seat, and can be called away from there."""

    loop: asyncio.AbstractEventLoop
    timeout: asyncio.Timeout

    def call_away(self) -> None:
        with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(self._now)

    def _now(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has its seat
            self.timeout.reschedule(self.loop.time())


@dataclass(slots=True, eq=False)
class FleetRequest:
    """One request for an agent's next generation."""

    agent_id: str
    parent: str | None
    step: bool
    here: _Here | None = None
    seats: RemoteSeats | None = None
    inner: Any = None
    """Since it was granted, and until it has ended: whose, of which engine's seats, and what these call it."""
    over: bool = False


class FleetSeats:
    """A ``Seats``: those of each engine's shard, by the engine that the agent is on. From any thread.

    Args:
        places: says which that is.
        open_seats: those of one engine.
        run: runs a coroutine in a loop that is not the caller's.
    """

    def __init__(
        self,
        places: Places,
        open_seats: Callable[[str], RemoteSeats],
        run: Callable[[Coroutine[Any, Any, None]], concurrent.futures.Future[None]],
    ) -> None:
        self.closed = False
        self._places: Final = places
        self._open_seats = open_seats
        self._run = run
        self._lock = threading.RLock()  # a finalizer may end an agent in the midst of anything
        self._here: dict[str, _Here] = {}
        self._seats: dict[str, RemoteSeats] = {}
        """By engine."""
        self._changes: Counter[str] = Counter()
        """By engine: how often it has ceased to take agents."""

    # --- engines ---

    def engine(self, agent_id: str) -> str | None:
        """The engine that an agent of this process is on; None while it has not been placed."""
        here = self._here.get(agent_id)
        return None if here is None else here.engine

    def pin(self, agent_id: str, engine: str) -> None:
        """Have the agent be at that engine from its next step on, whatever others say.

        Raises:
            UnknownAgentError: it is no agent of this process.
        """
        with self._lock:
            here = self._here.get(agent_id)
            if here is None:
                raise UnknownAgentError(f"agent {agent_id!r} is not known (any more) in this process")
            here.target, here.pinned = engine, True

    def refused(self, engine: str) -> None:
        """An engine takes no agents any more: who waits there for a seat is placed anew."""
        with self._lock:
            self._changes[engine] += 1
            waits = [wait for here in self._here.values() if here.engine == engine for wait in here.waits]
        for wait in waits:
            wait.call_away()

    def move(self, moves: Mapping[str, str]) -> None:
        """Agents are to wait elsewhere; those that do not wait stay."""
        for agent_id, engine in moves.items():
            with self._lock:
                here = self._here.get(agent_id)
                if here is None or not here.waits or here.generates or here.pinned or here.engine == engine:
                    continue
                here.target = engine
                waits = tuple(here.waits)
            for wait in waits:
                wait.call_away()

    def of(self, engine: str) -> RemoteSeats:
        """An engine's own."""
        with self._lock:
            seats = self._seats.get(engine)
            if seats is None:
                if self.closed:
                    raise ControllerClosedError("the controller is closed")
                seats = self._seats[engine] = self._open_seats(engine)
        return seats

    def tidy(self) -> None:
        """Forget agents that have ended with their parents, and nobody said so."""
        with self._lock:
            for here in list(self._here.values()):
                if not here.entered and not here.waits and here.engine is not None and not self._known(here):
                    self._end(here)

    def close(self, timeout_s: float | None = None) -> None:
        """Nobody is admitted any more; whoever is known ends as cancelled."""
        self.closed = True
        with self._lock:
            everyone = tuple(self._seats.values())
        for seats in everyone:
            seats.close(timeout_s)

    # --- Seats ---

    def enter(self, agent_id: str) -> None:
        """See ``Seats``. Where its seat will be shows at the first step."""
        self._check_open(agent_id)
        with self._lock:
            here = self._here.get(agent_id) or self._begin(agent_id, None)
            if here.entered:
                raise LifecycleError(f"agent {agent_id!r} runs already: two agents need two ids")
            here.entered = True
            if here.engine is not None and self._known(here):
                self.of(here.engine).enter(agent_id)
                here.settled = True

    def leave(self, agent_id: str, outcome: Outcome | None) -> None:
        """See ``Seats``."""
        with self._lock:
            here = self._here.get(agent_id)
            if here is None:
                return
            settled, here.entered, here.settled = here.settled, False, False
            if here.engine is not None and settled:
                self.of(here.engine).leave(agent_id, outcome)
            elif here.engine is not None and outcome is not None and self._known(here):
                self.of(here.engine).finish(agent_id, outcome)
            if outcome is not None or not self._known(here):
                self._end(here)

    def request(self, agent_id: str, parent: str | None, *, step: bool = False) -> FleetRequest:
        """See ``Seats``."""
        self._check_open(agent_id)
        with self._lock:
            here = self._here.get(agent_id) or self._begin(agent_id, parent)
            here.parent = here.parent or parent
        return FleetRequest(agent_id, parent, step)

    async def wait(self, request: FleetRequest) -> None:
        """See ``Seats``: at the engine the agent is on, or is sent to meanwhile."""
        there = False
        while not there:
            changes = self._changes.total()
            engine = await self._engine_of(request)
            there = await self._wait_there(request, engine, changes)

    def wait_blocking(self, request: FleetRequest) -> None:
        """See ``Seats``."""
        waiting = self._run(self.wait(request))
        try:
            waiting.result()
        except concurrent.futures.CancelledError:
            raise ControllerClosedError(f"the controller was closed while agent {request.agent_id!r} waited") from None
        except BaseException:  # an interrupt, too: it may have been granted at this very moment
            waiting.cancel()
            self.end_step(request)
            raise

    def end_step(self, request: FleetRequest) -> None:
        """See ``Seats``."""
        with self._lock:
            request.over = True
            if request.here is None or request.seats is None:
                return
            here, request.here = request.here, None
            if request.step:
                here.running -= 1
            else:
                here.primitive = False
            request.seats.end_step(request.inner)

    def pause(self, agent_id: str) -> bool:
        """See ``Seats``."""
        with self._lock:
            here, seats = self._its(agent_id)
            here.primitive = False
            return seats.pause(agent_id)

    def park(self, agent_id: str) -> bool:
        """See ``Seats``."""
        with self._lock:
            here, seats = self._its(agent_id)
            here.primitive = False
            return seats.park(agent_id)

    def finish(self, agent_id: str, outcome: Outcome) -> bool:
        """See ``Seats``. Of an agent that is not this process's, every shard is asked, which blocks."""
        with self._lock:
            here = self._here.get(agent_id)
            if here is not None:
                here.primitive = False
                if not here.entered:
                    self._end(here)
                return here.engine is not None and self._known(here) and self.of(here.engine).finish(agent_id, outcome)
        return any(self.of(engine).finish(agent_id, outcome) for engine in self._places.all_engines)

    def observe(self, agent_id: str, usage: TokenUsage, request: FleetRequest | None = None) -> None:
        """See ``Seats``."""
        if request is not None:
            if request.seats is not None:
                request.seats.observe(agent_id, usage, request.inner)
            return
        with contextlib.suppress(UnknownAgentError):
            self._its(agent_id)[1].observe(agent_id, usage)

    def state(self, agent_id: str) -> AgentState | None:
        """See ``Seats``: what this process knows of its own agents."""
        here = self._here.get(agent_id)
        if here is None or here.engine is None:
            return None
        seats = self._seats.get(here.engine)
        return None if seats is None else seats.state(agent_id)

    def views(self) -> tuple[AgentView, ...]:
        """See ``Seats``: every agent of all processes, at all engines."""
        return tuple(view for engine in self._places.all_engines for view in self.of(engine).views())

    def view(self, agent_id: str) -> AgentView | None:
        """See ``Seats``."""
        here = self._here.get(agent_id)
        if here is not None and here.engine is not None:
            return self.of(here.engine).view(agent_id)
        views = (self.of(engine).view(agent_id) for engine in self._places.all_engines)
        return next((view for view in views if view is not None), None)

    # --- inside ---

    async def _engine_of(self, request: FleetRequest) -> str:
        """Where the next step is to be."""
        with self._lock:
            here = self._here.get(request.agent_id)
            if here is None:
                raise UnknownAgentError(f"agent {request.agent_id!r} was finished while it waited for a seat")
            chosen = here.target or self._parents(here)
            if here.engine is not None and (here.generates or (chosen is None and self._may_stay(here))):
                return here.engine
        if chosen is None:
            chosen = await self._places.place(request.agent_id, here.parent)
        with self._lock:
            if here.engine is not None and here.generates:  # by another request, meanwhile
                return here.engine
            here.target = None
            one: _Here | None = here
            # A family stays together: what waits for its sub-agents must not keep a seat where others wait for it.
            while one is not None and not one.generates and not (one.pinned and one is not here):
                if one.engine is not None or one is here:
                    self._carry(one, chosen)
                one = self._here.get(one.parent or "")
            return chosen

    def _parents(self, here: _Here) -> str | None:
        """Where its parent is, if that is elsewhere, and takes agents."""
        parent = None if here.pinned else self._here.get(here.parent or "")
        engine = None if parent is None else parent.engine
        return engine if engine is not None and engine != here.engine and self._places.accepts(engine) else None

    def _may_stay(self, here: _Here) -> bool:
        return here.pinned or self._places.accepts(here.engine or "")

    def _carry(self, here: _Here, engine: str) -> None:
        if here.engine == engine:
            return
        before, here.engine = here.engine, engine
        if before is not None:
            here.moved = True
            seats = self.of(before)
            if here.settled:
                seats.leave(here.agent_id, Outcome.CANCELLED)
            elif seats.state(here.agent_id) is not None:
                seats.finish(here.agent_id, Outcome.CANCELLED)
            here.settled = False
        for wait in tuple(here.waits):  # for the same agent's seat, where it was
            wait.call_away()

    async def _wait_there(self, request: FleetRequest, engine: str, changes: int) -> bool:
        """Wait at one engine; False when it is to be elsewhere.

        Args:
            request: whose.
            engine: where.
            changes: how often an engine had ceased to take agents when this one was chosen.
        """
        with self._lock:
            here = self._here.get(request.agent_id)
            if here is None or here.engine != engine:
                return False
            seats = self.of(engine)
            if here.entered and not here.settled:
                seats.enter(here.agent_id)
                here.settled = True
            age_s = time.monotonic() - here.born if here.moved else 0.0
            inner = seats.request(here.agent_id, here.parent, step=request.step, age_s=age_s)
        wait = None
        try:
            async with asyncio.timeout(None) as timeout:
                wait = _Wait(asyncio.get_running_loop(), timeout)
                with self._lock:
                    here.waits.add(wait)
                    late = here.engine != engine or here.target is not None or self._changes.total() != changes
                if late:
                    wait.call_away()
                await seats.wait(inner)
        except TimeoutError:
            if wait is None or not wait.timeout.expired():
                raise
            return False
        finally:
            if wait is not None:
                here.waits.discard(wait)
        with self._lock:
            if request.over:  # who waited has gone
                seats.end_step(inner)
                return True
            request.here, request.seats, request.inner = here, seats, inner
            if request.step:
                here.running += 1
            else:
                here.primitive = True
        return True

    def _begin(self, agent_id: str, parent: str | None) -> _Here:
        here = self._here[agent_id] = _Here(agent_id, parent)
        return here

    def _end(self, here: _Here) -> None:
        if self._here.get(here.agent_id) is here:
            del self._here[here.agent_id]

    def _known(self, here: _Here) -> bool:
        return here.engine is not None and self.of(here.engine).state(here.agent_id) is not None

    def _its(self, agent_id: str) -> tuple[_Here, RemoteSeats]:
        here = self._here.get(agent_id)
        if here is None or here.engine is None:
            raise UnknownAgentError(f"agent {agent_id!r} was never admitted, or has finished")
        return here, self.of(here.engine)

    def _check_open(self, agent_id: str) -> None:
        if self.closed:
            raise ControllerClosedError(f"agent {agent_id!r} asks for a seat, but the controller is closed")
