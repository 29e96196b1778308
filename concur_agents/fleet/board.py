"""What is known of all agents and engines from the shards' reports: who is where, and who is to be elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from concur_agents.fleet.policy import Fleet
from concur_agents.fleet.words import AgentReport, ShardReport

__all__ = ["Board"]

_GRACE_S = 10.0
"""Until an agent that was placed on an engine has to be there: who was told so may be slow, or dead."""


@dataclass(slots=True)
class _Known:
    engine: str
    since: float
    """When it was placed or moved there."""
    steps: int = 0


class Board:
    """What the directory knows. Pure: no I/O, no clock."""

    def __init__(self) -> None:
        self.fleet: Final = Fleet()
        self._known: dict[str, _Known] = {}
        self._agents: dict[str, set[str]] = {}
        """By engine."""

    def join(self, engine: str) -> None:
        """An engine is there. Idempotent."""
        if engine not in self._agents:
            self._agents[engine] = set()
            self.fleet.join(engine)

    def leave(self, engine: str) -> None:
        """It is gone; its agents are placed anew at their next steps. Idempotent."""
        if engine in self._agents:
            for agent_id in tuple(self._agents[engine]):
                self._forget(agent_id)
            del self._agents[engine]
            self.fleet.leave(engine)

    def place(self, agent_id: str, parent: str | None, now: float) -> str:
        """The engine for an agent's next step.

        Raises:
            LookupError: there is no engine.
        """
        if self.fleet.at(agent_id) is None:
            self.fleet.place(agent_id, parent)
        self._note(agent_id, self.fleet.next(agent_id, now), now)
        return self._known[agent_id].engine

    def report(self, report: ShardReport, now: float) -> None:
        """Take what a shard says."""
        engine = report.url
        if engine not in self._agents:
            return
        self.fleet.report(engine, report.load)
        self.fleet.mark(engine, down=not report.up)
        for agent in report.agents:
            self._see(agent, engine, now)
        there = {agent.agent_id for agent in report.agents}
        for agent_id in self._agents[engine] - there:
            if now - self._known[agent_id].since > _GRACE_S:
                self._forget(agent_id)

    def steal(self, reports: list[ShardReport], now: float) -> dict[str, str]:
        """Agents that wait and are to do so elsewhere; they are there from now on."""
        waiting = [agent.agent_id for report in reports for agent in report.agents if agent.waiting]
        moves = self.fleet.steal([each for each in waiting if each in self._known], now)
        for move in moves:
            self.fleet.move(move.agent_id, move.target, now)
            self._note(move.agent_id, move.target, now)
        return {move.agent_id: move.target for move in moves}

    def _see(self, agent: AgentReport, engine: str, now: float) -> None:
        agent_id = agent.agent_id
        known = self._known.get(agent_id)
        if known is None:  # placed in the directory's last life, or while it was away
            self.fleet.place(agent_id, agent.parent)
        if known is None or (known.engine != engine and now - known.since > _GRACE_S):
            self.fleet.move(agent_id, engine, now)  # where it is, whatever it was told
            self._note(agent_id, engine, now)
            known = self._known[agent_id]
        if known.engine == engine and agent.steps != known.steps and not agent.waiting:
            known.steps = agent.steps
            self.fleet.stepped(agent_id, agent.context, now)

    def _note(self, agent_id: str, engine: str, now: float) -> None:
        known = self._known.get(agent_id)
        if known is not None and known.engine == engine:
            return
        if known is not None:
            self._agents[known.engine].discard(agent_id)
        self._known[agent_id] = _Known(engine, now)
        self._agents[engine].add(agent_id)

    def _forget(self, agent_id: str) -> None:
        self._agents[self._known.pop(agent_id).engine].discard(agent_id)
        self.fleet.forget(agent_id)
