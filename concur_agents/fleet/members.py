"""The agents of several engines as their seats' keeper knows them, with their families and what they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from concur_agents.turns import Waiter

__all__ = ["FleetRequest", "Member", "Members"]


@dataclass(slots=True, eq=False)
class Member:
    """One agent."""

    agent_id: str
    parent: str | None = None
    born: float | None = None
    """When it first asked for a seat."""
    engine: str | None = None
    entered: bool = False
    """Its context is open."""
    settled: bool = False
    """And at its engine too."""
    pinned: str | None = None
    """The engine it is to be on, as the user said."""
    left: bool = False
    """Its family went on elsewhere while it generated; it follows with its next step."""
    requests: list[FleetRequest] = field(default_factory=list)
    """That have not ended."""
    children: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class FleetRequest:
    """One request for an agent's next generation."""

    agent_id: str
    agent: Member
    step: bool
    waiter: Waiter | None = None
    """Done when a seat was granted, wherever; None when the agent may generate at once."""
    engine: str = ""
    inner: Any = None
    """What that engine's limiter calls it."""
    granted: bool = False
    over: bool = False
    left: bool = False
    """Of a generation that was left behind: its engine's limiter knows it no more."""


class Members(dict[str, Member]):
    """All of them, by their names."""

    def begin(self, agent_id: str, parent: str | None) -> Member:
        """A new one."""
        one = self[agent_id] = Member(agent_id)
        self.join(one, parent)
        return one

    def join(self, one: Member, parent: str | None) -> None:
        """Say whose sub-agent it is."""
        one.parent = parent
        above = self.get(parent or "")
        if above is not None:
            above.children[one.agent_id] = None

    def family(self, one: Member) -> Iterator[Member]:
        """The agent and all below it, parents first."""
        yield one
        for child in tuple(one.children):
            below = self.get(child)
            if below is not None and below.parent == one.agent_id:
                yield from self.family(below)

    def end(self, one: Member) -> None:
        """It is gone; its sub-agents may not be."""
        del self[one.agent_id]
        above = self.get(one.parent or "")
        if above is not None:
            above.children.pop(one.agent_id, None)
