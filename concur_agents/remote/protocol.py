"""What workers and a shared controller say to each other: operations and answers, whatever carries them.

A *worker* is a process that runs agents. Each operation has a name and a body, a mapping of JSON values; the answer is
another. :class:`Transport` carries them, :class:`~concur_agents.remote.desk.Desk` answers them.

Three things make it safe to say something twice, late, or to another controller than before:

* ``seq`` counts a worker's operations. One that comes after a later one of the same agent is stale, and nothing is
  done; the same one again is answered as before: asking twice never takes a second seat. ``key`` does the latter for
  who does not count.
* a *lease*: a worker that is not heard of for so long is taken to be gone.
* ``controller`` in every answer names the controller's life. A controller that does not know a worker refuses it
  (``unknown_worker``); it then registers, with all agents that it has, and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from concur_agents.errors import ConcurError, ControllerClosedError, LifecycleError, UnknownAgentError
from concur_agents.samples import AgentState, Outcome
from concur_agents.usage import TokenUsage

__all__ = [
    "LONGEST_WAIT_S",
    "OPERATIONS",
    "PAGE",
    "PROTOCOL",
    "Admit",
    "AgentReport",
    "Answer",
    "Finish",
    "Heartbeat",
    "Kind",
    "Leave",
    "ListAgents",
    "Observe",
    "OfAgent",
    "OfWorker",
    "OneAgent",
    "Operation",
    "Park",
    "Pause",
    "ReadEvents",
    "ReadHistory",
    "ReadStats",
    "Refused",
    "RefusedError",
    "Register",
    "Registered",
    "Resume",
    "Transport",
    "UnreachableError",
    "Withdraw",
    "raise_refusal",
    "refusal",
]

PROTOCOL: Final = 2
"""Of what a worker understands: from 2 on, that a grant names an engine. Who does not say is 1."""
LONGEST_WAIT_S: Final = 60.0
"""Of one request for a seat; who still waits asks again."""
PAGE: Final = 1000
"""Most that one answer lists."""


class Kind:
    """Why an operation is refused."""

    INVALID: Final = "invalid"
    """The body is wrong; the message names field and value."""
    UNAUTHORIZED: Final = "unauthorized"
    UNKNOWN_WORKER: Final = "unknown_worker"
    """Register, and say it again."""
    UNKNOWN_AGENT: Final = "unknown_agent"
    FINISHED: Final = "finished"
    """It ended while it waited for its seat."""
    TAKEN: Final = "taken"
    """Another live worker runs an agent of that name."""
    LIFECYCLE: Final = "lifecycle"
    """In the wrong order."""
    CLOSED: Final = "closed"
    """The controller admits nobody any more."""
    FULL: Final = "full"
    """A bound of the controller's is reached."""
    FAILED: Final = "failed"
    """A bug of the controller's."""


class UnreachableError(ConcurError):
    """The controller gave no answer: refused, timed out, broken off, or nonsense."""


class RefusedError(ConcurError):
    """The controller answered, and said no.

    Args:
        kind: why; one of :class:`Kind`.
        message: the same for a person.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind: Final = kind
        self.message: Final = message

    def __str__(self) -> str:
        return self.message

    def as_lifecycle_error(self) -> ConcurError:
        """What a controller in this process would have raised."""
        known: dict[str, type[ConcurError]] = {
            Kind.UNKNOWN_AGENT: UnknownAgentError,
            Kind.FINISHED: UnknownAgentError,
            Kind.TAKEN: LifecycleError,
            Kind.LIFECYCLE: LifecycleError,
            Kind.CLOSED: ControllerClosedError,
        }
        return known[self.kind](self.message) if self.kind in known else self


class Transport(Protocol):
    """Carries operations to a controller, from one event loop."""

    async def call(self, operation: str, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Have an operation done; return the answer as it is, a refusal (``{"error": ...}``) too.

        Args:
            operation: its name.
            body: JSON values only.
            timeout_s: seconds after which there is no answer.

        Raises:
            UnreachableError: there was none.
        """

    async def aclose(self) -> None:
        """Let go of connections; it may be used again."""


# --- operations ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What all have."""

    name: ClassVar[str] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAgent(Operation):
    """About one agent."""

    agent: str
    worker: str | None = None
    """Who says so; None: whoever (curl), with a lease for this agent alone."""
    seq: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit(OfAgent):
    """May the new agent take its first step? Answered within ``wait_s``, granted or not yet."""

    name: ClassVar[str] = "admit"
    parent: str | None = None
    wait_s: float = 0.0
    age_s: float = 0.0
    """Seconds since it first asked for a seat, at another controller. As in a registration, who says it is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(OfAgent):
    """May it take its next one?"""

    name: ClassVar[str] = "resume"
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(OfAgent):
    """Its generation ended."""

    name: ClassVar[str] = "pause"
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Park(OfAgent):
    """The same, and its seat goes back."""

    name: ClassVar[str] = "park"
    usage: TokenUsage | None = None
    suspend: bool = False
    """Its run ends here; any worker may go on with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw(OfAgent):
    """It does not ask any more."""

    name: ClassVar[str] = "withdraw"
    keep: bool = False
    """It will ask again: a new agent keeps its age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(OfAgent):
    """It ended."""

    name: ClassVar[str] = "finish"
    outcome: Outcome = Outcome.COMPLETED
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe(OfAgent):
    """Tokens of the generation that runs."""

    name: ClassVar[str] = "observe"
    usage: TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """One agent, as its worker knows it."""

    agent: str
    state: AgentState
    parent: str | None = None
    age_s: float = 0.0
    """Seconds since it first asked for a seat."""
    steps: int = 0
    """Generations begun."""
    context_tokens: int | None = None
    suspended: bool = False
    """Its run has ended; any worker may go on with it."""
    engine: str | None = None
    """The address of the engine that it is on, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfWorker(Operation):
    """About a worker."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(OfWorker):
    """A worker is there, and these are all of its agents. Whoever else it had has ended."""

    name: ClassVar[str] = "register"
    lease_s: float | None = None
    seq: int | None = None
    """What comes with less than this is in ``agents`` already."""
    agents: tuple[AgentReport, ...] = ()
    ended: tuple[tuple[str, Outcome], ...] = ()
    """How agents ended that are not there any more, as far as it was not told."""
    protocol: int = 1
    """See :data:`PROTOCOL`. A transport's: controllers that do not know the field refuse it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(OfWorker):
    """It lives."""

    name: ClassVar[str] = "heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(OfWorker):
    """It goes, and its agents end."""

    name: ClassVar[str] = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(OfWorker):
    """An engine took no connection of its."""

    name: ClassVar[str] = "refused"
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAgents(Operation):
    """Who is there."""

    name: ClassVar[str] = "agents"
    limit: int = PAGE
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAgent(Operation):
    """One of them."""

    name: ClassVar[str] = "agent"
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStats(Operation):
    """This moment, of all engines or of one."""

    name: ClassVar[str] = "stats"
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory(Operation):
    """The window's last changes, likewise."""

    name: ClassVar[str] = "history"
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEvents(Operation):
    """What has happened after an event, answered within ``wait_s``; from now on, without one."""

    name: ClassVar[str] = "events"
    after: int | None = None
    """Its number."""
    wait_s: float = 0.0
    limit: int = PAGE


OPERATIONS: Final[Mapping[str, type[Operation]]] = {
    each.name: each
    for each in (
        *(Admit, Resume, Pause, Park, Withdraw, Finish, Observe),
        *(Register, Heartbeat, Leave, Refused, ListAgents, OneAgent, ReadStats, ReadHistory, ReadEvents),
    )
}
"""By name."""


# --- answers ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """To what is about one agent."""

    granted: bool = False
    """It may generate."""
    changed: bool = False
    """Something was done: it was generating, held a seat, was known."""
    state: AgentState | None = None
    """Where it is now; None when it is not known (any more)."""
    engine: str | None = None
    """The address of the engine that its generation is to go to; None where there is only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """To a worker that registered."""

    lease_s: float
    """Seconds without a word after which it is taken to be gone."""
    taken: tuple[str, ...] = ()
    """Agents of its that another worker runs by now; they were not taken in."""
    engines: tuple[str, ...] = ()
    """The engines' addresses, where there are several."""


def refusal(kind: str, message: str) -> dict[str, Any]:
    """The answer that says no."""
    return {"error": {"kind": kind, "message": message}}


def raise_refusal(body: Mapping[str, Any]) -> None:
    """Raise RefusedError if the answer says no."""
    error = body.get("error")
    if error is not None:
        details = error if isinstance(error, Mapping) else {}
        raise RefusedError(str(details.get("kind", Kind.FAILED)), str(details.get("message", error)))
