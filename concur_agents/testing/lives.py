"""Whether what happened to each agent is a whole and lawful life."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from concur_agents.events import AgentEvent, AgentEventKind, Event

__all__ = ["check_lives"]


def check_lives(events: Iterable[Event]) -> dict[str, list[AgentEventKind]]:
    """Check that each agent's events are a whole life in lawful order; return them by agent.

    Raises:
        AssertionError: an agent took a step without admission, stepped twice without a boundary, or did not finish
            exactly once and last.
    """
    lives: dict[str, list[AgentEventKind]] = defaultdict(list)
    for event in events:
        if isinstance(event, AgentEvent):
            lives[event.agent_id].append(event.kind)
    for agent_id, kinds in lives.items():
        assert kinds.count(AgentEventKind.FINISHED) == 1, f"{agent_id} must finish exactly once: {kinds}"
        assert kinds[-1] is AgentEventKind.FINISHED, f"{agent_id} did something after it finished: {kinds}"
        stepping = False
        for position, kind in enumerate(kinds[:-1]):
            begins = kind in (AgentEventKind.ADMITTED, AgentEventKind.RESUMED)
            assert (kind is AgentEventKind.ADMITTED) == (position == 0), f"{agent_id} must be admitted first: {kinds}"
            assert not (begins and stepping), f"{agent_id} stepped twice without a boundary: {kinds}"
            stepping = begins
    return dict(lives)
