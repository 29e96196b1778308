"""What a desk needs of the controller that it answers for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from concur_agents.events import EventStream
from concur_agents.samples import AgentState, AgentView, Outcome, Stats, WindowChange
from concur_agents.usage import TokenUsage

__all__ = ["Controlled", "Seating", "Several"]


class Seating(Protocol):
    """Seats in this process, for who looks now and then instead of waiting. A ``Limiter`` is one."""

    def enter(self, agent_id: str) -> None:
        """See ``Limiter``."""

    def leave(self, agent_id: str, outcome: Outcome | None) -> None:
        """See ``Limiter``."""

    def request(self, agent_id: str, parent: str | None) -> Any:
        """See ``Limiter``: something with a ``waiter``."""

    def taken(self, request: Any) -> bool:
        """See ``Limiter``."""

    def withdraw(self, request: Any) -> None:
        """See ``Limiter``."""

    def pause(self, agent_id: str) -> bool:
        """See ``Limiter``."""

    def park(self, agent_id: str) -> bool:
        """See ``Limiter``."""

    def observe(self, agent_id: str, usage: TokenUsage) -> None:
        """See ``Limiter``."""

    def restore(self, agents: Iterable[tuple[AgentView, float]]) -> None:
        """See ``Limiter``."""

    def is_new(self, agent_id: str) -> bool:
        """See ``Limiter``."""

    def has_sub_agents(self, agent_id: str) -> bool:
        """See ``Limiter``."""

    def __contains__(self, agent_id: str) -> bool:
        """Whether the agent is known."""

    def state(self, agent_id: str) -> AgentState | None:
        """See ``Limiter``."""

    def views(self) -> tuple[AgentView, ...]:
        """See ``Limiter``."""

    def view(self, agent_id: str) -> AgentView | None:
        """See ``Limiter``."""

    def engine(self, agent_id: str) -> str | None:
        """See ``Seats``."""

    def refused(self, engine: str) -> None:
        """See ``Seats``."""


class Controlled(Protocol):
    """A controller; ``Controller`` is one."""

    @property
    def limiter(self) -> Seating:
        """The seats."""

    def stats(self) -> Stats:
        """This moment."""

    def history(self) -> tuple[WindowChange, ...]:
        """The window's last changes."""

    def events(self, *, size: int) -> EventStream:
        """What happens from now on."""


@runtime_checkable
class Several(Protocol):
    """One of several engines; ``FleetController`` is one."""

    @property
    def all_engines(self) -> tuple[str, ...]:
        """The engines' addresses."""

    def stats(self) -> Stats:
        """This moment, all engines together."""

    def stats_of(self, engine: str) -> Stats:
        """This moment, at one engine; ValueError when there is no such engine."""

    def history(self, engine: str | None = None) -> tuple[WindowChange, ...]:
        """The last changes of its window, or of all; ValueError when there is no such engine."""

    def follow(self, agent_id: str, engine: str) -> None:
        """The agent, which is restored soon, was on that engine."""
