"""A remote controller's seats, as agents and steps of this process see them.

Calls come from any thread; they are handed to one background loop, in order, and what they have to say there waits in a
line for each agent: its boundary is told before its next request is, and nobody waits for it to be told. Agents go on
without control while the controller is gone.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import socket
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any, Final

from concur_agents.errors import ConcurError, ControllerClosedError, LifecycleError, UnknownAgentError
from concur_agents.events import EventStream
from concur_agents.remote.background import Background
from concur_agents.remote.lives import RemoteRequest
from concur_agents.remote.own import OwnAgents
from concur_agents.remote.protocol import (
    Finish,
    Kind,
    ListAgents,
    OneAgent,
    Operation,
    RefusedError,
    Transport,
    UnreachableError,
)
from concur_agents.remote.values import from_json
from concur_agents.samples import AgentState, AgentView, Outcome
from concur_agents.usage import TokenUsage
from concur_agents.waits import Waits

__all__ = ["RemoteSeats"]


class RemoteSeats(Waits[RemoteRequest]):
    """Seats of a controller elsewhere.

    Args:
        transport: makes what carries operations there; called once in each process.
        where: the controller's name, for people.
        lease_s: seconds without a word after which the controller takes this process to be gone; None as it likes.
        patience_s: seconds without an answer after which the controller is taken to be gone. > 0.
    """

    def __init__(
        self, transport: Callable[[], Transport], where: str, *, lease_s: float | None = None, patience_s: float = 5.0
    ) -> None:
        self.where: Final = where
        self._make_transport = transport
        self._lease_s, self._patience_s = lease_s, patience_s
        self.closed = False
        self._inherited: list[object] = []
        """A parent process's; kept, since what they hold may be in use there when it is freed here."""
        self._begin_process()
        _remember(self)

    def _begin_process(self) -> None:
        self._starting = threading.Lock()
        self._background: Background | None = None
        self._hearing: dict[EventStream, concurrent.futures.Future[None]] = {}
        self._open: dict[str, object] = {}
        """Contexts that are open. This and the states are changed in one step each, so by any thread."""
        self._states: dict[str, AgentState] = {}
        worker = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._own = OwnAgents(
            self._make_transport,
            worker,
            self.where,
            self._states,
            lease_s=self._lease_s,
            patience_s=self._patience_s,
        )

    # --- from any thread ---

    def start(self) -> None:
        """Begin to look for the controller; the first agent does it else."""
        self._loop()

    def enter(self, agent_id: str) -> None:
        """See ``Seats``. That another process has an agent of this name shows at the first step."""
        self._check_open(agent_id)
        mine = object()
        if self._open.setdefault(agent_id, mine) is not mine:
            raise LifecycleError(f"agent {agent_id!r} runs already: two agents need two ids")
        self._post(self._own.entered, agent_id)

    def leave(self, agent_id: str, outcome: Outcome | None) -> None:
        """See ``Seats``."""
        self._open.pop(agent_id, None)
        if outcome is not None:
            self._states.pop(agent_id, None)
        self._post(self._own.left, agent_id, outcome)

    def request(self, agent_id: str, parent: str | None, *, step: bool = False, age_s: float = 0.0) -> RemoteRequest:
        """See ``Seats``; a new agent first asked for a seat so long ago, at another controller."""
        self._check_open(agent_id)
        request = RemoteRequest(agent_id, parent, step, age_s)
        self._states.setdefault(agent_id, AgentState.WAITING)
        self._post(self._own.requested, request)
        return request

    def withdraw(self, request: RemoteRequest) -> None:
        """Take a request back, even one granted while its taker was leaving."""
        self._post(self._own.withdrawn, request)

    def end_step(self, request: RemoteRequest) -> None:
        """See ``Seats``."""
        self._post(self._own.step_ended, request)

    def pause(self, agent_id: str) -> bool:
        """See ``Seats``; False and errors are by what this process knows."""
        state = self._known(agent_id)
        self._states[agent_id] = AgentState.IN_TOOL if state is AgentState.GENERATING else state
        self._post(self._own.paused, agent_id)
        return state is AgentState.GENERATING

    def park(self, agent_id: str) -> bool:
        """See ``Seats``; by what this process knows, which may not be that its seat was taken meanwhile."""
        state = self._known(agent_id)
        held = state in (AgentState.GENERATING, AgentState.IN_TOOL)
        if held:
            self._states[agent_id] = AgentState.PARKED
        self._post(self._own.parked, agent_id)
        return held

    def finish(self, agent_id: str, outcome: Outcome) -> bool:
        """See ``Seats``. Of an agent that is not this process's, the controller is asked."""
        if self._states.pop(agent_id, None) is not None or agent_id in self._open:
            self._post(self._own.finished, agent_id, outcome)
            return True
        if self.closed:
            return False
        with contextlib.suppress(ConcurError, TimeoutError):
            answer = self.ask(Finish(agent=agent_id, outcome=outcome))
            return bool(answer.get("changed"))
        return False

    def observe(self, agent_id: str, usage: TokenUsage, request: RemoteRequest | None = None) -> None:
        """See ``Seats``. Told with the boundary."""
        self._post(self._own.observed, agent_id, usage, request)

    def state(self, agent_id: str) -> AgentState | None:
        """See ``Seats``: what this process knows of its own agents."""
        return self._states.get(agent_id)

    def views(self) -> tuple[AgentView, ...]:
        """See ``Seats``: every agent of the controller, of all processes.

        Raises:
            UnreachableError: the controller does not answer.
        """
        views: list[AgentView] = []
        while True:
            page = self.ask(ListAgents(offset=len(views)))
            views += [from_json(AgentView, each) for each in page["agents"]]
            if not page["agents"] or len(views) >= page["total"]:
                return tuple(views)

    def view(self, agent_id: str) -> AgentView | None:
        """See ``Seats``.

        Raises:
            UnreachableError: the controller does not answer.
        """
        try:
            return from_json(AgentView, self.ask(OneAgent(agent=agent_id)))
        except RefusedError as refused:
            if refused.kind == Kind.UNKNOWN_AGENT:
                return None
            raise

    @property
    def all_engines(self) -> tuple[str, ...]:
        """The engines' addresses, where there are several and the controller has said so."""
        return self._own.engines.all

    @property
    def may_have_several(self) -> bool:
        """Whether it has, or has not been heard of."""
        return bool(self.all_engines) or not self._own.engines.known

    def engine(self, agent_id: str) -> str | None:
        """See ``Seats``: as the seat's grant said."""
        return self._own.engines.of(agent_id)

    def refused(self, engine: str) -> None:
        """See ``Seats``: the controller is told, before any agent of ours asks for its next seat."""
        if engine in self.all_engines:
            self._post(self._own.refused, engine)

    def ask(self, operation: Operation) -> dict[str, Any]:
        """Block for the answer to something that is no agent's, once everything said before is told.

        Raises:
            UnreachableError: the controller does not answer.
            RefusedError: it says no.
            LifecycleError: called by a finalizer in Concur's own thread.
        """
        self._check_open(operation.name)
        try:
            answer: dict[str, Any] = self._loop().ask(self._own.asked(operation), 4 * self._patience_s)
        except TimeoutError:
            raise UnreachableError(f"the controller at {self.where} does not answer") from None
        except RuntimeError:
            raise ControllerClosedError("the controller was closed") from None
        return answer

    def events(self, size: int) -> EventStream:
        """A stream of what happens at the controller from now on; blocks until it has begun, or cannot."""
        self._check_open("events")
        stream = EventStream(size, self._unheard)
        begun: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._hearing[stream] = self._loop().run(self._own.hear(stream, begun))
        with contextlib.suppress(TimeoutError):
            begun.result(4 * self._patience_s)
        return stream

    def flush(self) -> None:
        """Block until everything said so far is told, or the controller is gone."""
        if self._background is not None and not self.closed:
            with contextlib.suppress(TimeoutError, RuntimeError, LifecycleError):
                self._background.ask(self._own.told(), 4 * self._patience_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Nobody is admitted any more; whoever is known ends as cancelled. Idempotent.

        Args:
            timeout_s: to tell the controller.
        """
        if self.closed:
            return
        self.closed = True
        for stream in tuple(self._hearing):
            stream.close()
        background = self._background
        if background is not None:
            patience = 2 * self._patience_s if timeout_s is None else timeout_s
            with contextlib.suppress(TimeoutError, RuntimeError, LifecycleError):
                background.ask(self._own.close(patience), patience + 1)
            background.stop(patience)

    def after_fork(self) -> None:
        """A forked child is another worker, without agents, and without the thread."""
        self._inherited.append((self._background, self._own, self._starting))
        self._begin_process()

    def _loop(self) -> Background:
        background = self._background
        if background is None:
            with self._starting:
                background = self._background
                if background is None:
                    background = Background()
                    background.post(self._own.connect)
                    self._background = background
        return background

    def _unheard(self, stream: EventStream) -> None:
        hearing = self._hearing.pop(stream, None)
        if hearing is not None:
            hearing.cancel()

    def _post(self, action: Callable[..., None], *args: object) -> None:
        self._loop().post(action, *args)

    def _check_open(self, agent_id: str) -> None:
        if self.closed:
            raise ControllerClosedError(f"agent {agent_id!r} asks for a seat, but the controller is closed")

    def _known(self, agent_id: str) -> AgentState:
        state = self._states.get(agent_id)
        if state is None:
            raise UnknownAgentError(f"agent {agent_id!r} was never admitted, or has finished")
        return state


_everyone: weakref.WeakSet[RemoteSeats] = weakref.WeakSet()
_prepared = threading.Event()


def _remember(seats: RemoteSeats) -> None:
    _everyone.add(seats)
    if not _prepared.is_set():  # at first use, not at import, which does nothing
        _prepared.set()
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    for seats in list(_everyone):
        seats.after_fork()
