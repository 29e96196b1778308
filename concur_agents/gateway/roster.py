"""The agents that a gateway knows: which engine each is on, what it has in flight, and when it has ended."""

from __future__ import annotations

import contextlib
import logging
import math
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import anyio

from concur_agents.adapters import AgentRun
from concur_agents.agents import keeping_current
from concur_agents.errors import ControllerClosedError
from concur_agents.gateway.conversation import Conversation
from concur_agents.gateway.engines import Engines
from concur_agents.gateway.histories import Histories
from concur_agents.gateway.identity import Claim
from concur_agents.gateway.limits import GatewayLimits
from concur_agents.gateway.upstream import Upstream
from concur_agents.samples import AgentState, Outcome

__all__ = ["Member", "Roster"]

_log = logging.getLogger("concur_agents.gateway")

# An agent that has been idle for longer than three times what nearly all of this batch's tools take is likelier to have
# ended than to come back; then it is parked, not ended, so that a mistake costs a wait at most.
_TOOLS = 3.0
_NEARLY_ALL = 0.95
_KNOWN_FROM = 32
"""Tool times seen before they are believed."""
_SHORTEST = 2.0
"""Seconds; below it a tool time is a network's."""


@dataclass(slots=True, eq=False)
class Member:
    """One agent."""

    agent_id: str
    upstream: Upstream
    run: AgentRun
    since: float
    """When it last had a request in flight, or was first seen."""
    born: float
    """When it was first seen."""
    parent: str | None = None
    open: int = 0
    """Requests that wait or are with the engine."""
    matched: bool = False
    """Found by its conversation: nobody says its name."""
    calls_tools: bool = False
    """By the API's own means."""
    goes_on: bool = False
    """It came back after a reply that looked like its last: it talks with somebody."""
    waits: set[anyio.CancelScope] = field(default_factory=set)
    """Of its requests that wait for a seat."""
    called: Upstream | None = None
    """The engine that it is to wait at instead."""


class Roster:
    """Who is there.

    Args:
        engines: the engines, and which of them each agent is on.
        limits: how many, and for how long.
        clock: monotonic seconds.
    """

    def __init__(self, engines: Engines, limits: GatewayLimits, clock: Callable[[], float]) -> None:
        self._engines = engines
        self._fleet = engines.fleet
        self._limits = limits
        self._clock = clock
        self._members: dict[str, Member] = {}
        self._idle: OrderedDict[str, Member] = OrderedDict()
        """Those with nothing in flight, the longest idle first; ``_done`` of these whose last reply looked like it."""
        self._done: OrderedDict[str, Member] = OrderedDict()
        self._children: dict[str, set[str]] = {}
        self._histories = Histories()
        self._tools: deque[float] = deque(maxlen=512)
        self.expired = 0
        """Agents taken to have ended since nothing was heard of them."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def get(self, agent_id: str) -> Member | None:
        """The agent, if it is known."""
        return self._members.get(agent_id)

    # --- requests ---

    def claimed(self, claim: Claim) -> Member:
        """The agent that a request names, known or new; a request of its is in flight from now on."""
        member = self._members.get(claim.agent_id)
        if member is None:
            member = self._arrive(claim.agent_id, claim.parent)
        self._open(member)
        return member

    def matched(self, conversation: Conversation) -> Member:
        """The agent whose conversation this is, known or new; a request of its is in flight from now on."""
        agent_id = self._histories.find(conversation, self._is_idle)
        member = self._members[agent_id] if agent_id is not None else self._arrive(f"gw-{uuid.uuid4().hex[:16]}", None)
        member.matched = True
        self._histories.asked(member.agent_id, conversation)
        self._open(member)
        return member

    def close(self, member: Member, *, answered: bool, said: bytes | None = None, done: bool = False) -> None:
        """A request of the agent's is no longer in flight.

        Args:
            member: whose.
            answered: the engine's reply went through, and was no error: after one the client asks the same again.
            said: what tells the reply from others.
            done: it looked like the agent's last.
        """
        member.open -= 1
        member.since = self._clock()
        if answered:
            view = member.upstream.controller.view(member.agent_id)
            self._fleet.stepped(member.agent_id, None if view is None else view.context_tokens, member.since)
        if answered and member.matched:
            self._histories.answered(member.agent_id, said)
        known = self._members.get(member.agent_id)
        if known is None:
            member.run.finish(Outcome.CANCELLED)  # ended meanwhile, and may have asked for a seat again since
        if member.open == 0 and known is member:
            self._idle[member.agent_id] = member
            if done:
                self._done[member.agent_id] = member
                member.run.park()  # if it does come back, it asks for a seat by its old age

    # --- where they are ---

    def settle(self, member: Member) -> None:
        """Have the agent be where its next step is to be: elsewhere, if its engine is down or is being drained."""
        if member.open == 1 and self._members.get(member.agent_id) is member:
            self.moved(member, self._engines[self._fleet.next(member.agent_id, self._clock())])

    def moved(self, member: Member, upstream: Upstream) -> None:
        """The agent goes on at another engine."""
        if member.upstream is upstream:
            return  # another request of its was here before
        if self._members.get(member.agent_id) is not member:
            member.upstream = upstream  # it has ended; its request goes on, and is nobody's
            return
        _log.warning("agent %s moves from %s to %s", member.agent_id, member.upstream.name, upstream.name)
        self._fleet.move(member.agent_id, upstream.name, self._clock())
        view = member.upstream.controller.view(member.agent_id)
        member.upstream.agents -= 1
        member.run.finish(Outcome.CANCELLED)
        member.run.__exit__(None, None, None)
        member.upstream, member.run = upstream, self._begin(member.agent_id, member.parent, upstream)
        if view is not None:  # the other controller is to know how old it is, and how much it holds
            with contextlib.suppress(ControllerClosedError):
                parked = replace(view, state=AgentState.PARKED)
                upstream.controller.limiter.restore([(parked, self._clock() - member.born)])

    def steal(self) -> None:
        """Have agents that wait, and lose nothing by it, wait elsewhere. To be called about once a second.

        Those whose engine is down or is being drained lose nothing: they would move at their next step anyway.
        """
        self._engines.refresh()
        fleet, now = self._fleet, self._clock()
        if not all(fleet.accepts(upstream.name) for upstream in self._engines):
            for member in self._members.values():
                if member.open == 1 and member.waits and not fleet.accepts(member.upstream.name):
                    self._call(member, fleet.next(member.agent_id, now))
        waiting = (member.agent_id for member in self._members.values() if member.open == 1 and member.waits)
        for move in fleet.steal(waiting, now):
            self._call(self._members[move.agent_id], move.target)

    def _call(self, member: Member, engine: str) -> None:
        if member.upstream.name != engine:
            member.called = self._engines[engine]
            for scope in member.waits:
                scope.cancel()

    # --- ends ---

    def finish(self, agent_id: str, outcome: Outcome = Outcome.COMPLETED) -> bool:
        """The agent has ended, and its sub-agents with it; a request of its that is in flight goes on without a seat.

        False when it is not known.
        """
        member = self._members.pop(agent_id, None)
        if member is None:
            return False
        self._idle.pop(agent_id, None)
        self._done.pop(agent_id, None)
        self._histories.forget(agent_id)
        self._fleet.forget(agent_id)
        member.upstream.agents -= 1
        member.run.finish(outcome)
        member.run.__exit__(None, None, None)
        if member.parent is not None:
            self._children.get(member.parent, set()).discard(agent_id)
        for each in self._children.pop(agent_id, ()):
            self.finish(each, outcome)
        return True

    def sweep(self) -> None:
        """Have agents that nothing is heard of make room: their seats at first, and after ``idle_after`` their places.

        To be called about once a second.
        """
        now = self._clock()
        while self._idle:
            member = next(iter(self._idle.values()))
            if now - member.since < self._limits.idle_after and len(self._members) <= self._limits.max_agents:
                break
            self.expired += 1
            self.finish(member.agent_id)
        while self._done:
            member = next(iter(self._done.values()))
            if now - member.since < self._limits.done_after:
                break
            self.expired += 1
            self.finish(member.agent_id)
        for upstream in self._engines:
            if upstream.waiting:
                upstream.controller.park_idle(self.patience)

    @property
    def patience(self) -> float:
        """Seconds in a tool after which an agent's seat goes to others that wait."""
        if len(self._tools) < _KNOWN_FROM:
            return self._limits.park_after
        longest = sorted(self._tools)[math.ceil(len(self._tools) * _NEARLY_ALL) - 1]
        return max(_SHORTEST, _TOOLS * longest)

    def end(self) -> None:
        """Everyone has ended: the gateway stops."""
        for agent_id in list(self._members):
            self.finish(agent_id, Outcome.CANCELLED)

    # --- inside ---

    def _is_idle(self, agent_id: str) -> bool:
        return agent_id in self._idle

    def _arrive(self, agent_id: str, parent: str | None) -> Member:
        while len(self._members) >= self._limits.max_agents and self._idle:
            self.expired += 1
            self.finish(next(iter(self._idle)))
        self._engines.refresh()
        upstream = self._engines[self._fleet.place(agent_id, parent)]
        now = self._clock()
        member = Member(agent_id, upstream, self._begin(agent_id, parent, upstream), now, now, parent)
        self._members[agent_id] = member
        if parent is not None and parent in self._members:
            self._children.setdefault(parent, set()).add(agent_id)
        return member

    def _begin(self, agent_id: str, parent: str | None, upstream: Upstream) -> AgentRun:
        run = AgentRun(upstream.controller, agent_id, parent=parent, log=_log)
        with keeping_current():  # the request's own context ends with it; the agent does not
            run.__enter__()
        upstream.agents += 1
        return run

    def _open(self, member: Member) -> None:
        if self._done.pop(member.agent_id, None) is not None:
            member.goes_on = True
        if self._idle.pop(member.agent_id, None) is not None:
            self._tools.append(self._clock() - member.since)
        member.open += 1
