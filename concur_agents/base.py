"""Admit, pause and resume, as a user calls them: what a controller has in common with one that is far away."""

from __future__ import annotations

import abc
import asyncio
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from concur_agents.agents import INHERIT, SESSION_HEADER, Agent, Inherit, SyncAgent, check_header, current_agent
from concur_agents.clients import wrap_client
from concur_agents.decorator import Decorated, Decorator, decorator
from concur_agents.errors import LifecycleError, UnknownAgentError
from concur_agents.routing import route
from concur_agents.samples import AgentState, AgentView, Outcome
from concur_agents.seats import Seats
from concur_agents.usage import TokenUsage

__all__ = ["BaseController", "RunningController", "SyncController"]

_Client = TypeVar("_Client")


class BaseController:
    """Agents and primitives on top of seats: what a ``Controller`` is, and one that is elsewhere.

    What takes a controller and needs no more of it than its agents takes one of these.

    Args:
        seats: who gives them out.
        session_header: HTTP header that names an agent to the engine; None for none.

    Raises:
        ValueError: ``session_header`` cannot be a header's name.
    """

    def __init__(self, seats: Seats, session_header: str | None = SESSION_HEADER) -> None:
        if session_header is not None:
            check_header(session_header)
        self.session_header: Final = session_header
        """HTTP header that names an agent to the engine; None for none."""
        self._seats: Final = seats
        self.sync: Final = SyncController(seats, session_header)
        """The same agents and primitives for threads: blocking instead of awaiting."""

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
        return Agent(self._seats, agent_id or uuid.uuid4().hex, parent, self.session_header)

    def current_agent(self) -> Agent | None:
        """The agent in whose context this is called; None outside of any. Of several it is the innermost."""
        return current_agent(self._seats)

    def wrap_client(self, client: _Client) -> _Client:
        """A client of the same class, of which each generation is a step of the agent around it.

        For the clients of the ``openai`` package (2.0 or later: ``OpenAI``, ``AsyncOpenAI``, Azure) and the
        ``anthropic`` package. Generations are chat completions, completions, responses and messages, by ``create``,
        ``parse`` or ``stream``, raw or not: each waits for a seat, names the agent to the engine (a header of the
        user's own wins), observes the reply's usage, and is at its boundary when the reply is there, or its stream is
        exhausted, closed or collected. The SDK's retries are within the step. Everything else, and a generation outside
        of any agent, goes through as it was. ``client`` is not changed, and shares its connections. Where there are
        several engines, it is routed as by :meth:`route`.

        Raises:
            TypeError: ``client`` is no client of that kind.
        """
        return wrap_client(client, self)

    def route(self, client: _Client) -> _Client:
        """A client of the same class whose requests go to the engine that their agent is on, if there are several.

        For clients whose steps somebody else makes: a framework's adapter, or you. Those of the ``openai`` and
        ``anthropic`` packages are copied, those of ``httpx`` and ``httpx2`` changed in place. From inside an agent,
        what is for the client's own ``base_url`` or for any of the engines goes to the agent's engine, with path,
        headers and key as they are; all else goes where it went. An engine that takes no connection is told of
        (:meth:`refused`), and the step begins anew on another one.

        Raises:
            TypeError: ``client`` is no client of that kind.
        """
        return route(client, self)

    async def admit(self, agent_id: str, *, parent: str | None = None) -> None:
        """Primitive: let a new agent take its first step. Waits for a seat; returns at once when it generates already.

        Cancelling the wait takes the request back.

        Raises:
            LifecycleError: the agent was admitted before and is paused or parked.
            ControllerClosedError: the controller is closed.
        """
        _check_admit(agent_id, self._seats.state(agent_id))
        await self._seats.wait(self._seats.request(agent_id, parent))

    async def resume(self, agent_id: str) -> None:
        """Primitive: let a paused or parked agent take its next step. Waits for a seat if it has none.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
            ControllerClosedError: the controller is closed.
        """
        _check_resume(agent_id, self._seats.state(agent_id))
        await self._seats.wait(self._seats.request(agent_id, None))

    def pause(self, agent_id: str) -> bool:
        """Primitive: the agent's generation ended. It keeps its seat, unless the window has shrunk below it.

        Returns False when it was not generating.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        return self._seats.pause(agent_id)

    def park(self, agent_id: str) -> bool:
        """Pause the agent and give its seat back until it resumes, for waits without end, such as a person's.

        Returns False when it held no seat.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        return self._seats.park(agent_id)

    def finish(self, agent_id: str, outcome: Outcome = Outcome.COMPLETED) -> bool:
        """The agent ended, and its sub-agents with it. False, and no error, when it is not known (any more)."""
        return self._seats.finish(agent_id, Outcome(outcome))

    def observe(self, agent_id: str, usage: object) -> None:
        """Take the usage of the agent's running step, of any client. Optional, and never raises.

        Dropped when none runs: call it before :meth:`pause`.
        """
        self._seats.observe(agent_id, TokenUsage.of(usage))

    # --- seeing ---

    def agents(self) -> tuple[AgentView, ...]:
        """Every agent that has begun and not finished."""
        return self._seats.views()

    def view(self, agent_id: str) -> AgentView | None:
        """One of them; None when it is not known (any more)."""
        return self._seats.view(agent_id)

    # --- engines ---

    @property
    def all_engines(self) -> tuple[str, ...]:
        """Addresses of the engines, those too that take no agents now; none where there is one, which clients know."""
        return ()

    @property
    def may_have_several(self) -> bool:
        """False where there is one engine for sure; a controller elsewhere has to be heard of first."""
        return bool(self.all_engines)

    def engine(self, agent_id: str) -> str | None:
        """Address of the engine that the agent is on, fixed while it generates; send its requests there.

        None where there is one engine, which clients know by themselves, and before the agent's first step.
        """
        return self._seats.engine(agent_id)

    def refused(self, engine: str) -> None:
        """Say that an engine took no connection, so that its agents go on at others at once.

        Wrapped clients say so by themselves. What is no engine's address is passed over.
        """
        self._seats.refused(engine)


class RunningController(BaseController, abc.ABC):
    """One that is started and closed, by hand or as a context manager."""

    @abc.abstractmethod
    def start(self) -> Self:
        """Begin; LifecycleError the second time."""

    @abc.abstractmethod
    def close(self) -> None:
        """End: nobody is admitted any more, whoever is known ends as cancelled. Idempotent."""

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
        await asyncio.to_thread(self.close)  # it may take a while; the caller's other tasks go on


class SyncController:
    """A controller's primitives for threads. Use ``Controller.sync``; :meth:`Controller.pause` and such never block."""

    def __init__(self, seats: Seats, session_header: str | None = SESSION_HEADER) -> None:
        self._seats = seats
        self._session_header = session_header

    def agent(self, agent_id: str | None = None, *, parent: str | Inherit | None = INHERIT) -> SyncAgent:
        """See :meth:`Controller.agent`, which also decorates blocking functions."""
        return SyncAgent(self._seats, agent_id or uuid.uuid4().hex, parent, self._session_header)

    def admit(self, agent_id: str, *, parent: str | None = None) -> None:
        """See :meth:`Controller.admit`; blocks the calling thread."""
        _check_admit(agent_id, self._seats.state(agent_id))
        self._seats.wait_blocking(self._seats.request(agent_id, parent))

    def resume(self, agent_id: str) -> None:
        """See :meth:`Controller.resume`; blocks the calling thread."""
        _check_resume(agent_id, self._seats.state(agent_id))
        self._seats.wait_blocking(self._seats.request(agent_id, None))


def _check_admit(agent_id: str, state: AgentState | None) -> None:
    if state in (AgentState.IN_TOOL, AgentState.PARKED, AgentState.RETURNING):
        raise LifecycleError(f"agent {agent_id!r} was admitted before and is {state}: resume it instead")


def _check_resume(agent_id: str, state: AgentState | None) -> None:
    if state is None:
        raise UnknownAgentError(f"agent {agent_id!r} was never admitted, or has finished: admit it first")
