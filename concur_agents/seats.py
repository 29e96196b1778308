"""What agents, steps and clients need of whoever gives out seats: one in this process, or one far away."""

from __future__ import annotations

from typing import Any, Protocol

from concur_agents.samples import AgentState, AgentView, Outcome
from concur_agents.usage import TokenUsage

__all__ = ["Request", "Seats"]

Request = Any
"""One request for a seat; what it is, only who made it knows."""


class Seats(Protocol):
    """Seats for agents. A ``Limiter`` is one, and so is a remote controller's side in this process.

    From any thread. None of these blocks but :meth:`wait_blocking`, and what ends something never raises for an agent
    that has ended already.
    """

    def enter(self, agent_id: str) -> None:
        """Open the agent's context; LifecycleError if it is open already, ControllerClosedError after the end."""

    def leave(self, agent_id: str, outcome: Outcome | None) -> None:
        """Close the agent's context: the agent ends; None when it goes on in a later context."""

    def request(self, agent_id: str, parent: str | None, *, step: bool = False) -> Request:
        """Ask for the agent's next generation; it may begin once the result was waited for.

        Args:
            agent_id: whose.
            parent: whose sub-agent it is.
            step: it is ended by :meth:`end_step`, else by :meth:`pause`.
        """

    async def wait(self, request: Request) -> None:
        """Await the seat; whatever ends the wait otherwise takes the request back."""

    def wait_blocking(self, request: Request) -> None:
        """Block the calling thread for it."""

    def end_step(self, request: Request) -> None:
        """One step ended: the agent is at its boundary when it was its last open one."""

    def pause(self, agent_id: str) -> bool:
        """The agent is at its boundary; False when it was not generating. UnknownAgentError when it is not known."""

    def park(self, agent_id: str) -> bool:
        """The same, and its seat goes back; False when it held none. UnknownAgentError when it is not known."""

    def finish(self, agent_id: str, outcome: Outcome) -> bool:
        """The agent and its sub-agents ended; False when it is not known (any more)."""

    def observe(self, agent_id: str, usage: TokenUsage, request: Request | None = None) -> None:
        """Usage of the generation that runs (``request``'s, if given); dropped when none does."""

    def state(self, agent_id: str) -> AgentState | None:
        """Where the agent is; None when it is not known."""

    def views(self) -> tuple[AgentView, ...]:
        """Every known agent."""

    def view(self, agent_id: str) -> AgentView | None:
        """One of them; None when it is not known."""

    def engine(self, agent_id: str) -> str | None:
        """Address of the engine that the agent is on, fixed while it generates; None where there is only one.

        None too for an agent that has not begun its first step.
        """

    def refused(self, engine: str) -> None:
        """That engine took no connection: its agents may go on at others. Other addresses are passed over."""
