"""Placing agents on engines, and moving them when that pays.

An agent's KV prefix is on one engine, and is worth as much as it costs to compute again. So:

* a new agent goes to its parent's engine; else to the engine with the least *pressure*: what its agents hold, against
  its pool;
* it stays there, and is moved only when

  (a) its engine is down, or is being drained, at its next step; or
  (b) it waits for a seat, has nothing to lose, and another engine is idle: nobody waits there, it has room for it, and
      is under no more pressure with the agent than its own is with it. Nothing to lose is: it never ran, or its last
      step ended a refill ago, so that its engine has had the time to overwrite its whole pool since;

* by (b) not twice within a refill, and never with its family elsewhere: sub-agents go where their parent is.

No agent is moved while it generates: (a) is asked for when a step begins, (b) of those that wait for one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from concur_agents.fleet.load import EngineLoad

__all__ = ["Fleet", "Move"]

# Seconds a refill is taken to last while unknown; models on their usual cards need 10 to 40.
_LONG_S = 30.0


@dataclass(frozen=True, slots=True)
class Move:
    """One agent to another engine."""

    agent_id: str
    source: str
    target: str


@dataclass(slots=True, eq=False)
class _Engine:
    name: str
    load: EngineLoad
    down: bool = False
    draining: bool = False
    agents: int = 0
    known: int = 0
    """Agents whose contexts are known; ``tokens`` is what they are together."""
    tokens: float = 0.0

    @property
    def accepts(self) -> bool:
        return not self.down and not self.draining


@dataclass(slots=True, eq=False)
class _Agent:
    engine: _Engine
    parent: str | None
    children: int = 0
    context: float | None = None
    stepped_at: float | None = None
    """When its last step ended; None when it never ran, or not on this engine."""
    moved_at: float = -math.inf


class Fleet:
    """Where everyone is. Not thread-safe. Engines and agents are known by their names.

    Times are seconds on the caller's clock, which must not go back.
    """

    def __init__(self) -> None:
        self._engines: dict[str, _Engine] = {}
        self._agents: dict[str, _Agent] = {}
        self._known = 0
        """Agents whose contexts are known; ``_tokens`` is what they are together."""
        self._tokens = 0.0

    # --- engines ---

    @property
    def engines(self) -> tuple[str, ...]:
        """All of them, in the order in which they joined."""
        return tuple(self._engines)

    def join(self, engine: str) -> None:
        """It takes agents from now on; one that was being drained, again. Idempotent."""
        one = self._engines.setdefault(engine, _Engine(engine, EngineLoad()))
        one.draining = False

    def drain(self, engine: str) -> None:
        """It takes no new agents, and those it has move at their next steps.

        Raises:
            KeyError: no such engine.
        """
        self._engines[engine].draining = True

    def leave(self, engine: str) -> None:
        """It is gone. Agents that were still there are placed anew at their next steps.

        Raises:
            KeyError: no such engine.
        """
        gone = self._engines.pop(engine)
        gone.down = True

    def mark(self, engine: str, *, down: bool) -> None:
        """It takes no connections, or does again.

        Raises:
            KeyError: no such engine.
        """
        self._engines[engine].down = down

    def report(self, engine: str, load: EngineLoad) -> None:
        """What it is doing now.

        Raises:
            KeyError: no such engine.
        """
        self._engines[engine].load = load

    def accepts(self, engine: str) -> bool:
        """Whether it takes agents: it is up, and not being drained."""
        one = self._engines.get(engine)
        return one is not None and one.accepts

    def draining(self, engine: str) -> bool:
        """Whether it is being drained."""
        one = self._engines.get(engine)
        return one is not None and one.draining

    def agents(self, engine: str) -> int:
        """Agents placed there."""
        one = self._engines.get(engine)
        return 0 if one is None else one.agents

    def pressures(self) -> Mapping[str, float]:
        """What each engine's agents hold, of its pool; agents, while not every pool's size is known."""
        sized = self._sized()
        return {name: self._pressure(one, sized) for name, one in self._engines.items()}

    # --- agents ---

    def at(self, agent_id: str) -> str | None:
        """The engine that the agent is on; None when it is not known."""
        one = self._agents.get(agent_id)
        return None if one is None else self._home(one).engine.name

    def place(self, agent_id: str, parent: str | None = None) -> str:
        """The engine of an agent, which is placed if it is new.

        Raises:
            LookupError: there is no engine.
        """
        known = self._agents.get(agent_id)
        if known is not None:
            return self._home(known).engine.name
        above = self._agents.get(parent) if parent is not None else None
        one = _Agent(self._best() if above is None else self._home(above).engine, None if above is None else parent)
        self._agents[agent_id] = one
        one.engine.agents += 1
        if above is not None:
            above.children += 1
        return one.engine.name

    def next(self, agent_id: str, now: float) -> str:
        """The engine for the agent's next step: another one than before when its own is down, drained or gone.

        To be asked while the agent does not generate. Where no other engine is up it stays where it is.

        Raises:
            KeyError: the agent is not known.
            LookupError: there is no engine.
        """
        one = self._agents[agent_id]
        home = self._home(one)
        if not home.engine.accepts:
            best = self._best()
            # Of engines that take no agents one that is being drained is better than one that is down.
            if best.accepts or (home.engine.down and not best.down) or home.engine.name not in self._engines:
                self._move(home, best, now)
        self._follow(one, home)
        return one.engine.name

    def move(self, agent_id: str, engine: str, now: float) -> None:
        """The agent goes on there, and its family with it. Nothing happens if it is there.

        Raises:
            KeyError: the agent or the engine is not known.
        """
        one, target = self._agents[agent_id], self._engines[engine]
        home = self._home(one)
        if home.engine is not target:
            self._move(home, target, now)
        self._follow(one, home)

    def elsewhere(self, agent_id: str | None = None) -> str | None:
        """The engine for an agent whose own turned out to take no connections; None when there is no other."""
        one = self._agents.get(agent_id) if agent_id is not None else None
        own = None if one is None else self._home(one).engine
        best = self._best(without=own)
        return best.name if not best.down and best is not own else None

    def any(self) -> str:
        """An engine for a request that is no agent's.

        Raises:
            LookupError: there is no engine.
        """
        return self._best().name

    def stepped(self, agent_id: str, context: float | None, now: float) -> None:
        """A step of the agent's has ended. One that is not known (any more) is no error.

        Args:
            agent_id: whose.
            context: tokens that it holds now; None where nobody says.
            now: seconds.
        """
        one = self._agents.get(agent_id)
        if one is None:
            return
        one.stepped_at = now
        if context is not None:
            self._weigh(one, -1)
            one.context = context
            self._weigh(one, 1)

    def forget(self, agent_id: str) -> None:
        """The agent has ended. Idempotent."""
        one = self._agents.pop(agent_id, None)
        if one is None:
            return
        one.engine.agents -= 1
        self._weigh(one, -1)
        above = self._agents.get(one.parent) if one.parent is not None else None
        if above is not None:
            above.children -= 1

    def steal(self, waiting: Iterable[str], now: float) -> list[Move]:
        """Who of those that wait for a seat should do so elsewhere; for the caller to carry out, by :meth:`move`.

        Args:
            waiting: agents that wait for a seat and do not generate, the longest first. Those that cannot be moved are
                passed over.
            now: seconds.
        """
        idle = [one for one in self._engines.values() if one.accepts and one.load.waiting == 0]
        if not idle or len(idle) == len(self._engines):
            return []
        sized, typical = self._sized(), self._typical()
        moves: list[Move] = []
        before: list[tuple[_Agent, _Engine, float | None, float]] = []
        ready = [(name, one) for name in waiting if (one := self._agents.get(name)) and self._may_go(one, now)]
        # Who never ran loses nothing for sure; of the others the first is the one that waited longest.
        for name, one in sorted(ready, key=lambda each: each[1].stepped_at is not None):
            source, footprint = one.engine, typical if one.context is None else one.context
            limit = self._pressure(source, sized)
            fitting = [
                target
                for target in idle
                if target is not source
                and target.load.has_room(footprint)
                and self._pressure(target, sized, footprint) <= limit
            ]
            if not fitting or source.load.waiting < 1:
                continue
            target = min(fitting, key=lambda each: self._pressure(each, sized, footprint))
            moves.append(Move(name, source.name, target.name))
            # As if it were there already, until the next report.
            target.load = replace(target.load, seated=target.load.seated + 1, held=target.load.held + footprint)
            source.load = replace(source.load, waiting=source.load.waiting - 1)
            before.append((one, source, one.stepped_at, one.moved_at))
            self._move(one, target, now)
        for one, source, stepped_at, moved_at in before:  # the caller carries it out, or does not
            self._carry(one, source)
            one.stepped_at, one.moved_at = stepped_at, moved_at
        return moves

    # --- inside ---

    def _may_go(self, one: _Agent, now: float) -> bool:
        if one.parent is not None or one.children or one.engine.load.waiting < 1:
            return False
        refill_s = one.engine.load.refill_s
        refill_s = _LONG_S if refill_s is None else refill_s
        return now - one.moved_at >= refill_s and (one.stepped_at is None or now - one.stepped_at >= refill_s)

    def _best(self, without: _Engine | None = None) -> _Engine:
        engines = [one for one in self._engines.values() if one is not without] or list(self._engines.values())
        if not engines:
            raise LookupError("there is no engine")
        sized = self._sized()
        return min(
            engines, key=lambda one: (one.down, one.draining, self._pressure(one, sized), one.load.waiting, one.agents)
        )

    def _sized(self) -> bool:
        return all(one.load.capacity for one in self._engines.values() if one.accepts)

    def _typical(self) -> float:
        """Tokens of an agent of which nothing is known: the mean of the others; 1 while nobody is."""
        return max(1.0, self._tokens / self._known) if self._known else 1.0

    def _pressure(self, one: _Engine, sized: bool, more: float | None = None) -> float:  # noqa: FBT001
        extra = 0 if more is None else 1
        if not sized or not one.load.capacity:
            return one.agents + extra
        # The young are going to be as long as the others: their small contexts of now would draw all new agents.
        typical = self._typical()
        demand = max(one.tokens, one.known * typical) + (one.agents - one.known) * typical
        return (demand + max(more or 0.0, extra * typical)) / one.load.capacity

    def _home(self, one: _Agent) -> _Agent:
        """Whose engine the agent's is: the first of its family that is known."""
        while one.parent is not None and (above := self._agents.get(one.parent)) is not None:
            one = above
        return one

    def _follow(self, one: _Agent, home: _Agent) -> None:
        if one.engine is not home.engine:
            self._carry(one, home.engine)
            one.stepped_at = None

    def _move(self, one: _Agent, target: _Engine, now: float) -> None:
        self._carry(one, target)
        one.moved_at = now
        one.stepped_at = None

    def _carry(self, one: _Agent, target: _Engine) -> None:
        one.engine.agents -= 1
        self._weigh(one, -1)
        one.engine = target
        target.agents += 1
        self._weigh(one, 1)

    def _weigh(self, one: _Agent, sign: int) -> None:
        if one.context is not None:
            one.engine.known += sign
            one.engine.tokens += sign * one.context
            self._known += sign
            self._tokens += sign * one.context
