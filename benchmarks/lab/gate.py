"""What stands between the lab's agents and its engine: a controller, or what an arm has in its place."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from concur_agents import Controller, TokenUsage

__all__ = ["ControllerGate", "Gate", "GateRun", "GateStep", "OpenGate"]


class GateStep(Protocol):
    """One generation that was let through."""

    def observe(self, usage: TokenUsage) -> None:
        """The engine's reply came."""
        ...


class GateRun(Protocol):
    """One agent that runs."""

    def step(self) -> AbstractAsyncContextManager[GateStep]:
        """Entered when the agent may generate, left when the generation has ended."""
        ...


class Gate(Protocol):
    """Lets agents through. Everything happens on the lab's loop; what waits, awaits."""

    def agent(self, agent_id: str) -> AbstractAsyncContextManager[GateRun]:
        """One agent's life, from its first step to its end."""
        ...

    def tick(self) -> None:
        """Called once a tick: a second, as the controller's."""
        ...

    def close(self) -> None:
        """The batch is over."""
        ...


class ControllerGate:
    """The real controller, with its control loop in the lab's hands."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        controller.start()

    def agent(self, agent_id: str) -> AbstractAsyncContextManager[GateRun]:
        """See :class:`Gate`."""
        return self.controller.agent(agent_id)

    def tick(self) -> None:
        """See :class:`Gate`."""
        self.controller.tick()

    def close(self) -> None:
        """See :class:`Gate`."""
        self.controller.close()


class OpenGate:
    """Lets everybody through, with no controller at all: whoever controls is elsewhere."""

    def agent(self, agent_id: str) -> AbstractAsyncContextManager[GateRun]:  # noqa: ARG002 - the protocol's
        """See :class:`Gate`."""
        return nullcontext(_OpenRun())

    def tick(self) -> None:
        """See :class:`Gate`."""

    def close(self) -> None:
        """See :class:`Gate`."""


class _OpenRun:
    def step(self) -> AbstractAsyncContextManager[GateStep]:
        return nullcontext(_OpenStep())


class _OpenStep:
    def observe(self, usage: TokenUsage) -> None:
        pass
