"""What a worker knows of its own agents, and what it has still to say of them."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from concur_agents.remote.protocol import AgentReport, Finish, OfAgent
from concur_agents.samples import AgentState, Outcome
from concur_agents.turns import Waiter
from concur_agents.usage import TokenUsage

__all__ = ["Life", "Line", "RemoteRequest", "Word"]


@dataclass(slots=True, eq=False)
class RemoteRequest:
    """One request for an agent's next generation."""

    agent_id: str
    parent: str | None
    step: bool
    age_s: float = 0.0
    """Seconds since the agent first asked for a seat, elsewhere."""
    waiter: Waiter = field(default_factory=Waiter)
    life: Life | None = None
    granted: bool = False
    over: bool = False
    """Ended, or taken back."""


@dataclass(slots=True, eq=False)
class Life:
    """One agent, as it is: what the controller thinks of it may lag behind."""

    agent_id: str
    line: Line
    born: float
    """When it was begun; seconds on the worker's clock."""
    elsewhere: bool = False
    """It lived at another controller before."""
    alias: str | None = None
    """What the controller calls it, where another worker has an agent of its name."""
    parent: str | None = None
    entered: bool = False
    known: bool = False
    """The controller has it, as far as we know."""
    asked: bool = False
    """It may have it: a question was sent, whatever became of the answer."""
    generating: bool = False
    suspended: bool = False
    parked: bool = False
    """Its seat was given back."""
    engine: str | None = None
    """The engine that it is on, where there are several."""
    steps: int = 0
    context: int | None = None
    usage: TokenUsage | None = None
    """Of the generation that runs."""
    waiting: list[RemoteRequest] = field(default_factory=list)
    running: set[RemoteRequest] = field(default_factory=set)
    """Steps that the generation that runs is for."""
    asking: bool = False
    """A word for a seat is in the line."""
    call: asyncio.Task[object] | None = None
    """The question under way."""
    seq: int | None = None
    """Of the question."""

    @property
    def name(self) -> str:
        """What the controller calls it."""
        return self.alias or self.agent_id

    @property
    def state(self) -> AgentState:
        """Where it is, as far as we know: the controller may have taken its seat meanwhile."""
        if self.generating:
            return AgentState.GENERATING
        if not self.steps:
            return AgentState.WAITING
        return AgentState.PARKED if self.parked else AgentState.IN_TOOL

    def rename(self) -> None:
        """Another worker runs an agent of this name."""
        self.alias, self.known, self.asked, self.seq = f"{self.agent_id}~{uuid.uuid4().hex[:8]}", False, False, None

    def report(self, parent: str | None, now: float) -> AgentReport:
        """For a controller that does not know it, or not as it is."""
        return AgentReport(
            agent=self.name,
            state=self.state,
            parent=parent,
            age_s=max(0.0, now - self.born),
            steps=self.steps,
            context_tokens=self.context,
            suspended=self.suspended,
            engine=self.engine,
        )


@dataclass(slots=True, eq=False)
class Word:
    """Something to say of an agent; of a life that asks for a seat, what is asked is made when it is said."""

    message: OfAgent | None
    life: Life | None = None


@dataclass(slots=True, eq=False)
class Line:
    """What is to be said of all lives under one id, in order."""

    agent_id: str
    words: deque[Word] = field(default_factory=deque)
    speaker: asyncio.Task[None] | None = None

    def endings(self) -> Iterable[tuple[str, Outcome]]:
        """Of agents that have ended, and of whom it was not said yet."""
        return [(word.message.agent, word.message.outcome) for word in self.words if isinstance(word.message, Finish)]
