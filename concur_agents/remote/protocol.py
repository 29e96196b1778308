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

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Final, Protocol, TypeVar

from concur_agents.errors import ConcurError, ControllerClosedError, LifecycleError, UnknownAgentError
from concur_agents.samples import AgentState, Outcome
from concur_agents.usage import TokenUsage

__all__ = [
    "LONGEST_WAIT_S",
    "OPERATIONS",
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
    "answer_of",
    "body_of",
    "parse",
    "raise_refusal",
    "refusal",
]

PROTOCOL: Final = 2
"""Of what a worker understands: from 2 on, that a grant names an engine. Who does not say is 1."""
LONGEST_WAIT_S: Final = 60.0
"""Of one request for a seat; who still waits asks again."""
_LONGEST_NAME = 1024
_PAGE = 1000
_LARGEST = 2**53
_Body = Mapping[str, Any]


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
    limit: int = _PAGE
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
    limit: int = _PAGE


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


_Answer = TypeVar("_Answer", Answer, Registered)


def answer_of(kind: type[_Answer], body: Mapping[str, Any]) -> _Answer:
    """Read an answer.

    Raises:
        RefusedError: it says no.
        UnreachableError: it is no such answer.
    """
    raise_refusal(body)
    try:
        return _read(kind, {field.name: body[field.name] for field in fields(kind) if field.name in body})
    except ValueError as error:
        raise UnreachableError(f"the controller's answer is none: {error}") from None


def raise_refusal(body: Mapping[str, Any]) -> None:
    """Raise RefusedError if the answer says no."""
    error = body.get("error")
    if error is not None:
        details = error if isinstance(error, Mapping) else {}
        raise RefusedError(str(details.get("kind", Kind.FAILED)), str(details.get("message", error)))


# --- to JSON and back ---


def body_of(message: Operation | Answer | Registered | AgentReport) -> dict[str, Any]:
    """An operation's body, or an answer: what is not as by default, in JSON values."""
    body = {}
    for field in fields(message):
        value = getattr(message, field.name)
        if field.default is MISSING or value != field.default:
            body[field.name] = _plain(value)
    return body


def parse(operation: str, body: object) -> Operation:
    """Read an operation.

    Raises:
        RefusedError: it is none; names the field and its value.
    """
    kind = OPERATIONS.get(operation)
    try:
        if kind is None:
            raise ValueError(f"operation must be one of {', '.join(OPERATIONS)}, got {operation!r:.80}")
        if not isinstance(body, Mapping):
            raise ValueError(f"the body must be a JSON object, got {body!r:.80}")
        return _read(kind, body)
    except ValueError as error:
        raise RefusedError(Kind.INVALID, str(error)) from None


_Message = TypeVar("_Message")


def _read(kind: type[_Message], body: _Body) -> _Message:
    values = {}
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type] # all of them are dataclasses
    for name, value in body.items():
        if name not in known:
            raise ValueError(f"{name!r:.80} is no field of {kind.__name__.lower()}: {', '.join(known)}")
        if value is None and known[name].default is None:
            continue
        values[name] = _FIELDS[name](name, value)
    missing = [name for name, field in known.items() if field.default is MISSING and name not in values]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    return kind(**values)


def _plain(value: object) -> Any:
    if isinstance(value, TokenUsage):
        return {name: each for name in _USAGE if (each := getattr(value, name)) is not None}
    if isinstance(value, AgentReport):
        return body_of(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


def _text(name: str, value: object) -> str:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME:
        return value
    raise ValueError(f"{name} must be a text of 1 to {_LONGEST_NAME} characters, got {value!r:.80}")


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{name} must be true or false, got {value!r:.80}")


def _whole(least: int, most: int = _LARGEST) -> Callable[[str, object], int]:
    def check(name: str, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r:.80}")

    return check


def _seconds(least: float, most: float) -> Callable[[str, object], float]:
    def check(name: str, value: object) -> float:
        # A whole number may be too large for a float; comparing it is no problem.
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        raise ValueError(f"{name} must be a number of seconds from {least:g} to {most:g}, got {value!r:.80}")

    return check


def _state(name: str, value: object) -> AgentState:
    return AgentState(_one_of(name, value, AgentState))


def _outcome(name: str, value: object) -> Outcome:
    return Outcome(_one_of(name, value, Outcome))


def _one_of(name: str, value: object, kind: type[AgentState | Outcome]) -> str:
    words = [each.value for each in kind]
    if isinstance(value, str) and value in words:
        return value
    raise ValueError(f"{name} must be one of {', '.join(words)}, got {value!r:.80}")


_USAGE = ("prompt", "cached", "output")


def _usage(name: str, value: object) -> TokenUsage:
    """Ours, or what an engine's reply has."""
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{name} must be an object with prompt, cached and output, or a reply's usage, got {value!r:.80}"
        )
    if not set(value) <= {*_USAGE}:
        return TokenUsage.of(value)
    return TokenUsage(**{each: _whole(0)(f"{name}.{each}", value[each]) for each in value if value[each] is not None})


def _reports(name: str, value: object) -> tuple[AgentReport, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, Mapping) for each in value):
        raise ValueError(f"{name} must be a list of objects, got {value!r:.80}")
    return tuple(_read(AgentReport, each) for each in value)


def _endings(name: str, value: object) -> tuple[tuple[str, Outcome], ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(each, list | tuple) and len(each) == 2 for each in value
    ):
        raise ValueError(f"{name} must be a list of [agent, outcome], got {value!r:.80}")
    return tuple((_text(name, agent), _outcome(name, outcome)) for agent, outcome in value)


def _names(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list of names, got {value!r:.80}")
    return tuple(_text(name, each) for each in value)


# A field means the same wherever it is.
_FIELDS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "after": _whole(0),
    "age_s": _seconds(0, 1e9),
    "agent": _text,
    "agents": _reports,
    "changed": _flag,
    "context_tokens": _whole(0),
    "ended": _endings,
    "engine": _text,
    "engines": _names,
    "granted": _flag,
    "keep": _flag,
    "key": _text,
    "lease_s": _seconds(0.1, 86_400),
    "limit": _whole(1, _PAGE),
    "offset": _whole(0),
    "outcome": _outcome,
    "parent": _text,
    "protocol": _whole(1),
    "seq": _whole(0),
    "state": _state,
    "steps": _whole(0),
    "suspend": _flag,
    "suspended": _flag,
    "taken": _names,
    "usage": _usage,
    "wait_s": _seconds(0, LONGEST_WAIT_S),
    "worker": _text,
}
