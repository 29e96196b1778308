"""What a user holds: an agent and its steps, as context managers for asyncio and for threads."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Iterator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self
from urllib.parse import quote

from concur_agents.errors import UnknownAgentError
from concur_agents.samples import Outcome
from concur_agents.seats import Seats
from concur_agents.steps import Step, SyncStep

__all__ = [
    "INHERIT",
    "SESSION_HEADER",
    "Agent",
    "Agents",
    "Inherit",
    "SyncAgent",
    "SyncAgents",
    "check_header",
    "current_agent",
    "header_value",
    "keeping_current",
    "outcome_of",
]

SESSION_HEADER: Final = "X-Session-ID"
"""Names the agent to engine, router or gateway."""
# A header's name: what HTTP calls a token (RFC 9110, 5.6.2).
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What HTTP allows in a header's value, and what any server will log without harm; an agent's id may hold anything.
_PLAIN = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")


class Inherit(enum.Enum):
    """The type of :data:`INHERIT`."""

    INHERIT = "the agent whose context this is called in"


INHERIT: Final = Inherit.INHERIT
"""Parent: the agent whose context the caller runs in, if any."""


class _Around(NamedTuple):
    """The agent whose context we are in, and the one that context is in: perhaps another controller's."""

    agent: _AgentBase
    outer: _Around | None


_current: ContextVar[_Around | None] = ContextVar("concur_agents_current", default=None)


def outcome_of(error: BaseException | None) -> Outcome:
    """How an agent ended whose context was left with ``error``: interrupts and cancellation are no failure."""
    if error is None:
        return Outcome.COMPLETED
    return Outcome.FAILED if isinstance(error, Exception) else Outcome.CANCELLED


def header_value(agent_id: str) -> str:
    """The id as a header's value: plain ids as they are, anything else percent-encoded."""
    return quote(agent_id, safe=_PLAIN, errors="surrogatepass")  # half a character is an id too


def check_header(name: object) -> None:
    """Raise ValueError unless ``name`` can be an HTTP header's."""
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"session_header must be the name of an HTTP header, or None, got {name!r:.80}")


class _AgentBase:
    """One agent of one controller. Use ``Controller.agent`` or ``Controller.sync.agent``."""

    def __init__(
        self,
        seats: Seats,
        agent_id: str,
        parent: str | Inherit | None,
        session_header: str | None = SESSION_HEADER,
    ) -> None:
        self._seats = seats
        self._session_header = session_header
        self._token: Token[_Around | None] | None = None
        self._entered: _AgentBase = self
        """Whose context's end ends the agent: another one than this where this was found by :func:`current_agent`."""
        self._suspended = False
        self._left = False
        """Its context has ended; whoever still runs in a copy of that context is no part of the agent."""
        self.agent_id: Final = agent_id
        """Stable over the agent's whole life."""
        self.parent: Final = _current_in(seats, agent_id) if isinstance(parent, Inherit) else parent
        """The agent whose seat it shares; None when it has its own."""

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers that tell engine, router or gateway whose request it is; none where the controller has none."""
        return {} if self._session_header is None else {self._session_header: header_value(self.agent_id)}

    @property
    def engine(self) -> str | None:
        """Address of the engine that it is on, fixed during a step; None where there is one engine, or none yet."""
        return self._seats.engine(self.agent_id)

    def finish(self, outcome: Outcome = Outcome.COMPLETED) -> bool:
        """End the agent now instead of at its context's exit; idempotent."""
        return self._seats.finish(self.agent_id, outcome)

    def park(self) -> bool:
        """Give the seat back until the next step, for a wait without end such as a person's; False if it held none."""
        try:
            return self._seats.park(self.agent_id)
        except UnknownAgentError:
            return False

    def suspend(self) -> bool:
        """Park, and stay known when the context is left: the agent goes on in a later one under the same id.

        For runs that end with a question to a person. Without a later context, end it by :meth:`finish`.
        """
        self._entered._suspended = True
        return self.park()

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Have agents that are begun in the body be sub-agents of this one, without beginning or ending it itself.

        For adapters whose framework ends an agent elsewhere than it runs it; entering the agent does this too.
        """
        token = _current.set(_Around(self, _live()))
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):  # left in another context than entered: nothing to restore
                _current.reset(token)

    def _enter(self) -> None:
        self._seats.enter(self.agent_id)
        self._suspended = self._left = False
        self._token = _current.set(_Around(self, _live()))

    def _exit(self, error: BaseException | None) -> None:
        token, self._token = self._token, None
        self._left = True
        try:
            if token is not None:
                _current.reset(token)
        except ValueError:
            pass  # closed from another context than it was opened in (an async generator's end): nothing to restore
        finally:
            # An error ends the agent, suspended or not: nobody will go on with what failed.
            suspended = self._suspended and not isinstance(error, Exception)
            self._seats.leave(self.agent_id, None if suspended else outcome_of(error))


class Agent(_AgentBase):
    """One agent, for asyncio. As a context manager it ends with its outcome, whatever happens inside.

    A step may also be used alone, without entering the agent: then whoever began it calls :meth:`finish`.
    """

    def step(self) -> Step:
        """The agent's next generation: waits for a seat at entry, is at a boundary at exit."""
        return Step(self._seats, self.agent_id, self.parent)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exit(error)


class SyncAgent(_AgentBase):
    """One agent, for threads. As a context manager it ends with its outcome, whatever happens inside."""

    def step(self) -> SyncStep:
        """The agent's next generation: blocks for a seat at entry, is at a boundary at exit."""
        return SyncStep(self._seats, self.agent_id, self.parent)

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exit(error)


class SyncAgents(Protocol):
    """What makes agents for threads; a ``Controller.sync`` is one."""

    def agent(self, agent_id: str | None = None, *, parent: str | Inherit | None = INHERIT) -> SyncAgent:
        """See ``Controller.agent``."""


class Agents(Protocol):
    """What makes agents; a ``Controller`` is one. What is built of agents needs no more of it than this."""

    @property
    def sync(self) -> SyncAgents:
        """The same for threads."""

    def agent(self, agent_id: str | None = None, *, parent: str | Inherit | None = INHERIT) -> Agent:
        """See ``Controller.agent``."""

    def current_agent(self) -> Agent | None:
        """See ``Controller.current_agent``."""


def current_agent(seats: Seats) -> Agent | None:
    """The innermost agent of these seats in whose context we are."""
    around = _live()
    while around is not None and around.agent._seats is not seats:
        around = around.outer
    if around is None:
        return None
    if isinstance(around.agent, Agent):
        return around.agent
    agent = Agent(seats, around.agent.agent_id, around.agent.parent, around.agent._session_header)
    agent._entered = around.agent
    return agent


@contextlib.contextmanager
def keeping_current() -> Iterator[None]:
    """Whichever agents are entered or left in the body: afterwards we are in the context we were in."""
    token = _current.set(_current.get())
    try:
        yield
    finally:
        _current.reset(token)


def _live() -> _Around | None:
    """Where we are. What was left from another context than it was entered in was not restored, and is passed over."""
    around = _current.get()
    while around is not None and around.agent._left:
        around = around.outer
    return around


def _current_in(seats: Seats, agent_id: str) -> str | None:
    """The agent of this controller in whose context we are, unless it is the very same agent."""
    current = current_agent(seats)
    return None if current is None or current.agent_id == agent_id else current.agent_id
