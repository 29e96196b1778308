"""Seats of several engines in this process as one: each agent has its seat at the engine that it is on.

An agent moves between steps and never within one: when its engine takes no connections, with its whole family at the
next step of any of them, or at once when it waits for a seat; and when it waits while another engine is idle. At its
new engine it is as old as it was.

All engines' limiters have one lock with this, since a finalizer that runs inside one of them may end an agent here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from concur_agents.errors import ControllerClosedError, LifecycleError, UnknownAgentError
from concur_agents.fleet.load import EngineLoad
from concur_agents.fleet.members import FleetRequest, Member, Members
from concur_agents.fleet.policy import Fleet
from concur_agents.limiter import Limiter
from concur_agents.samples import AgentState, AgentView, Outcome
from concur_agents.turns import Turns, Waiter, turn
from concur_agents.usage import TokenUsage
from concur_agents.waits import Waits

__all__ = ["FleetLimiter"]

_REFUSED_S = 10.0
"""For which an engine that refused somebody a connection takes no agents, unless it is seen to take one."""


class FleetLimiter(Turns, Waits[FleetRequest]):
    """A ``Seats`` over those of several engines. From any thread.

    Args:
        limiters: each engine's, by its address; from now on nobody else seats agents there.
        clock: monotonic seconds.
    """

    def __init__(self, limiters: Mapping[str, Limiter], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._limiters: Final = dict(limiters)
        self._fleet = Fleet()
        self._agents = Members()
        self._down: set[str] = set()
        self._refused: dict[str, float] = {}
        """Engines that refused somebody a connection: until when that counts."""
        self._follow: dict[str, str] = {}
        """Engines that agents were on before they come here."""
        self._closed = False
        for engine, limiter in self._limiters.items():
            limiter.lock = self.lock
            self._fleet.join(engine)

    # --- engines ---

    @property
    def all_engines(self) -> tuple[str, ...]:
        """Every engine's address."""
        return tuple(self._limiters)

    def engine(self, agent_id: str) -> str | None:
        """See ``Seats``."""
        one = self._agents.get(agent_id)
        return None if one is None else one.engine

    def accepts(self, engine: str) -> bool:
        """Whether it takes agents, as far as is known."""
        return self._fleet.accepts(engine)

    @turn(later=True)
    def refused(self, engine: str) -> None:
        """See ``Seats``: it takes no agents for a while, and who waits there goes on elsewhere."""
        if engine in self._limiters:
            self._refused[engine] = self._clock() + _REFUSED_S
            self._look()

    def doubted(self, engine: str) -> bool:
        """Whether somebody was refused there, and nobody has seen since that it takes connections."""
        return engine in self._refused

    @turn(later=True)
    def connected(self, engine: str) -> None:
        """It took a connection: what others were refused is over."""
        if self._refused.pop(engine, None) is not None:
            self._look()

    @turn(later=True)
    def mark(self, engine: str, *, down: bool) -> None:
        """It takes no connections, or does again."""
        if down is not (engine in self._down):
            (self._down.add if down else self._down.discard)(engine)
            self._look()

    @turn(later=True)
    def report(self, engine: str, load: EngineLoad) -> None:
        """What an engine is doing."""
        self._fleet.report(engine, load)

    @turn()
    def pin(self, agent_id: str, engine: str) -> None:
        """Have the agent be at that engine from its next step on, whatever becomes of it.

        Raises:
            UnknownAgentError: it is not known.
        """
        one = self._agents.get(agent_id)
        if one is None:
            raise UnknownAgentError(f"agent {agent_id!r} is not known (any more)")
        one.pinned = engine
        if self._waits(one):
            self._place(one)

    @turn(later=True)
    def balance(self) -> None:
        """Send those that wait and lose nothing to idle engines, and forget who is gone. About once a second."""
        now = self._clock()
        for engine in [each for each, until in self._refused.items() if until <= now]:
            del self._refused[engine]
        self._look()
        waiting = [one for one in self._agents.values() if one.pinned is None and self._waits(one)]
        waiting.sort(key=lambda one: one.born or 0.0)
        for move in self._fleet.steal([one.agent_id for one in waiting], now):
            self._fleet.move(move.agent_id, move.target, now)
            self._carry(self._agents[move.agent_id], move.target)
        for one in list(self._agents.values()):
            self._forget_if_gone(one)

    # --- an agent's context ---

    @turn()
    def enter(self, agent_id: str) -> None:
        """See ``Seats``. Where its seat will be shows at the first step."""
        self._check_open(agent_id)
        one = self._agents.get(agent_id) or self._agents.begin(agent_id, None)
        if one.entered:
            raise LifecycleError(f"agent {agent_id!r} runs already: two agents need two ids")
        one.entered = True

    @turn(later=True)
    def leave(self, agent_id: str, outcome: Outcome | None) -> None:
        """See ``Seats``."""
        one = self._agents.get(agent_id)
        if one is None:
            return
        settled, one.entered, one.settled = one.settled, False, False
        if outcome is not None:
            self._end_below(one, outcome)
        if one.engine is not None:
            limiter = self._limiters[one.engine]
            if settled:
                limiter.leave(agent_id, outcome)
            elif outcome is not None:
                limiter.finish(agent_id, outcome)
        if outcome is not None or one.engine is None:
            self._forget(one)
        else:
            self.do_later(lambda: self._tidy(one))

    # --- asking for a seat ---

    @turn()
    def request(self, agent_id: str, parent: str | None, *, step: bool = False) -> FleetRequest:
        """See ``Seats``.

        Raises:
            ControllerClosedError: nobody is admitted any more.
        """
        self._check_open(agent_id)
        one = self._agents.get(agent_id)
        if one is None:
            one = self._agents.begin(agent_id, parent)
        elif one.parent is None and one.engine is None:
            self._agents.join(one, parent)
        if one.born is None:
            one.born = self._clock()
        self._place(one)
        request = FleetRequest(agent_id, one, step)
        one.requests.append(request)
        try:
            self._ask(request)
        except BaseException:
            one.requests.remove(request)
            raise
        return request

    @turn()
    def taken(self, request: FleetRequest) -> bool:
        """See ``Limiter.taken``."""
        if request.waiter is not None:
            if not request.waiter.done():
                return False
            request.waiter.result()
        return request.left or self._limiters[request.engine].taken(request.inner)

    @turn(later=True)
    def withdraw(self, request: FleetRequest) -> None:
        """See ``Limiter.withdraw``."""
        if self._over(request):
            self._limiters[request.engine].withdraw(request.inner)
            self.do_later(lambda: self._tidy(request.agent))

    # --- the agent's boundaries ---

    @turn(later=True)
    def end_step(self, request: FleetRequest) -> None:
        """See ``Seats``."""
        if self._over(request):
            self._limiters[request.engine].end_step(request.inner)
            self.do_later(lambda: self._stepped(request.agent))

    @turn(later=True)
    def pause(self, agent_id: str) -> bool:
        """See ``Seats``."""
        return self._boundary(agent_id, Limiter.pause)

    @turn(later=True)
    def park(self, agent_id: str) -> bool:
        """See ``Seats``."""
        return self._boundary(agent_id, Limiter.park)

    @turn(later=True)
    def finish(self, agent_id: str, outcome: Outcome) -> bool:
        """See ``Seats``."""
        one = self._agents.get(agent_id)
        if one is None or one.engine is None:
            return False
        self._end_below(one, outcome)
        changed = self._limiters[one.engine].finish(agent_id, outcome)
        one.born = None
        if not one.entered:
            self._forget(one)
        return changed

    @turn(later=True)
    def observe(self, agent_id: str, usage: TokenUsage, request: FleetRequest | None = None) -> None:
        """See ``Seats``."""
        engine = self.engine(agent_id) if request is None else request.engine
        if engine and not (request is not None and request.left):
            self._limiters[engine].observe(agent_id, usage, None if request is None else request.inner)

    # --- agents that have lived elsewhere ---

    def follow(self, agent_id: str, engine: str) -> None:
        """The agent, which is restored soon, was on that engine: its prefix is there."""
        if engine in self._limiters:
            self._follow[agent_id] = engine

    @turn()
    def restore(self, agents: Iterable[tuple[AgentView, float]]) -> None:
        """See ``Limiter.restore``; each at the engine that it was on, if that was said."""
        now, views = self._clock(), {view.agent_id: (view, age_s) for view, age_s in agents}
        by_engine: dict[str, list[tuple[AgentView, float]]] = {}
        for view, age_s in views.values():
            one = self._agents.get(view.agent_id) or self._agents.begin(view.agent_id, view.parent)
            if one.parent is None and one.engine is None:
                self._agents.join(one, view.parent)
            one.born = min(now - age_s, now if one.born is None else one.born)
            one.entered = one.settled = True
        for agent_id in views:
            self._settle_restored(self._agents[agent_id], now)
        for agent_id, restored in views.items():
            by_engine.setdefault(self._agents[agent_id].engine or "", []).append(restored)
        self._follow.clear()
        for engine, restored_there in by_engine.items():
            self._limiters[engine].restore(restored_there)

    @turn()
    def is_new(self, agent_id: str) -> bool:
        """See ``Limiter.is_new``."""
        one = self._agents.get(agent_id)
        return one is not None and one.engine is not None and self._limiters[one.engine].is_new(agent_id)

    def __contains__(self, agent_id: str) -> bool:
        one = self._agents.get(agent_id)
        return one is not None and one.engine is not None and (one.left or agent_id in self._limiters[one.engine])

    @turn()
    def has_sub_agents(self, agent_id: str) -> bool:
        """See ``Limiter.has_sub_agents``."""
        one = self._agents.get(agent_id)
        return one is not None and any(child in self for child in one.children)

    # --- seeing ---

    @turn()
    def state(self, agent_id: str) -> AgentState | None:
        """See ``Seats``."""
        one = self._agents.get(agent_id)
        if one is None or one.engine is None:
            return None
        return AgentState.PARKED if one.left else self._limiters[one.engine].state(agent_id)

    @turn()
    def views(self) -> tuple[AgentView, ...]:
        """See ``Seats``."""
        return tuple(view for limiter in self._limiters.values() for view in limiter.views())

    @turn()
    def view(self, agent_id: str) -> AgentView | None:
        """See ``Seats``."""
        one = self._agents.get(agent_id)
        return None if one is None or one.engine is None else self._limiters[one.engine].view(agent_id)

    @turn(later=True)
    def close(self) -> None:
        """Nobody is admitted any more. Who waits is told by the engines' own limiters, which are to be closed too."""
        self._closed = True

    # --- inside: where an agent is ---

    def _look(self) -> None:
        """An engine has ceased to take agents, or does again: who waits at one that does not goes elsewhere."""
        for engine in self._limiters:
            self._fleet.mark(engine, down=engine in self._down or engine in self._refused)
        for one in list(self._agents.values()):
            if one.engine is not None and not self._fleet.accepts(one.engine) and self._waits(one):
                self._place(one)

    def _place(self, one: Member) -> None:
        """Have the agent be where its next step is to be."""
        if self._generates(one):
            return
        fleet, agent_id, now = self._fleet, one.agent_id, self._clock()
        if fleet.at(agent_id) is None:
            fleet.place(agent_id, one.parent)
        if one.pinned is not None:
            fleet.move(agent_id, one.pinned, now)
        engine = one.pinned or fleet.next(agent_id, now)
        if engine != one.engine or one.left:
            self._carry(one, engine)

    def _carry(self, one: Member, engine: str) -> None:
        """Move it, and with it whoever of its family does not generate.

        What waits for its sub-agents must not keep a seat where others wait for it.
        """
        top = one
        while (above := self._agents.get(top.parent or "")) is not None and above.engine is not None:
            if self._generates(above):
                break
            top = above
        going: dict[str, Member] = {}
        for each in self._agents.family(top):  # parents first: who is there already joins its parent's seat there
            away = each.engine is not None and (each.engine != engine or each.left or each.parent in going)
            if each is one or away:
                going[each.agent_id] = each
        views = {each: self._taken_from(each) for each in reversed(going.values())}
        moving = [each for each in going.values() if not each.left or each is one]
        now, target, there = self._clock(), self._limiters[engine], []
        for each in moving:
            each.engine, each.left, each.settled = engine, False, False
            view = views[each]
            if view is not None:
                there.append((replace(view, parent=each.parent), now - (now if each.born is None else each.born)))
                each.settled = each.entered
        target.restore(there)
        for each in moving:
            for request in each.requests:
                if not request.granted:
                    self._ask(request)
        for view, _ in there:
            if not self._agents[view.agent_id].entered:
                target.leave(view.agent_id, None)  # it was opened to be taken in

    def _taken_from(self, one: Member) -> AgentView | None:
        """End the agent where it is, unless it generates, and say as what it is to go on; None for one that is new."""
        if one.engine is None:
            return None
        limiter, agent_id = self._limiters[one.engine], one.agent_id
        view = None if one.left else limiter.view(agent_id)
        if view is not None and view.state is AgentState.GENERATING:
            one.left = True  # its seat ends with its family's; the engine is most likely gone
            for request in one.requests:
                request.left = True
                if not request.granted and request.waiter is not None:  # its limiter has not come to say so
                    request.granted = True
                    self.wake(request.waiter)
        if one.settled:
            limiter.leave(agent_id, Outcome.CANCELLED)
        else:
            limiter.finish(agent_id, Outcome.CANCELLED)
        if view is None:
            if not one.left:
                return None
            view = AgentView(
                agent_id=agent_id, parent=one.parent, state=AgentState.PARKED, steps=1, context_tokens=None, waited_s=0
            )
        return replace(view, state=AgentState.PARKED if view.steps else AgentState.WAITING)

    def _settle_restored(self, one: Member, now: float) -> None:
        """Where an agent is that lived elsewhere; its parent's is found first."""
        if one.engine is not None:
            return
        above = self._agents.get(one.parent or "")
        if above is not None and above.engine is None and above.parent != one.agent_id:
            self._settle_restored(above, now)
        self._fleet.place(one.agent_id, one.parent)
        wanted = self._follow.get(one.agent_id)
        if wanted is not None and (above is None or above.engine is None):
            self._fleet.move(one.agent_id, wanted, now)
        one.engine = self._fleet.at(one.agent_id)

    # --- inside: one agent ---

    def _ask(self, request: FleetRequest) -> None:
        """Ask for its seat where its agent is."""
        one = request.agent
        request.engine = engine = one.engine or ""
        limiter = self._limiters[engine]
        if one.entered and not one.settled:
            limiter.enter(one.agent_id)
            one.settled = True
        request.inner = inner = limiter.request(one.agent_id, one.parent, step=request.step)
        if inner.waiter is None:
            request.granted = True
            if request.waiter is not None:
                self.wake(request.waiter)
            return
        if request.waiter is None:
            request.waiter = Waiter()
        inner.waiter.add_done_callback(lambda waiter: self._answered(request, inner, waiter))

    @turn(later=True)
    def _answered(self, request: FleetRequest, inner: Any, waiter: Waiter) -> None:
        """An engine's limiter has granted a seat, or refused one."""
        if request.inner is not inner or request.granted or request.waiter is None:
            return  # it has been asked for elsewhere since
        error = waiter.exception()
        request.granted = error is None
        self.wake(request.waiter, error if isinstance(error, Exception) else None)

    def _came_for(self, request: FleetRequest) -> None:
        self.taken(request)

    def _over(self, request: FleetRequest) -> bool:
        """It ends; whether it had not before, and its engine's limiter is to know."""
        if request.over:
            return False
        request.over = True
        if request in request.agent.requests:
            request.agent.requests.remove(request)
        return not request.left

    def _boundary(self, agent_id: str, act: Callable[[Limiter, str], bool]) -> bool:
        one = self._agents.get(agent_id)
        if one is None or one.engine is None:
            raise UnknownAgentError(f"agent {agent_id!r} was never admitted, or has finished")
        for request in [each for each in one.requests if not each.step and each.granted]:
            self._over(request)
        if one.left:
            return False
        changed = act(self._limiters[one.engine], agent_id)
        self.do_later(lambda: self._stepped(one))
        return changed

    @turn(later=True)
    def _stepped(self, one: Member) -> None:
        view = None if one.engine is None or one.left else self._limiters[one.engine].view(one.agent_id)
        if view is not None and view.state is not AgentState.GENERATING and view.steps:
            self._fleet.stepped(one.agent_id, view.context_tokens, self._clock())
        self._forget_if_gone(one)

    @turn(later=True)
    def _tidy(self, one: Member) -> None:
        self._forget_if_gone(one)

    def _generates(self, one: Member) -> bool:
        if one.engine is None or one.left:
            return False
        return self._limiters[one.engine].state(one.agent_id) is AgentState.GENERATING

    def _waits(self, one: Member) -> bool:
        return any(not request.granted for request in one.requests) and not self._generates(one)

    def _end_below(self, one: Member, outcome: Outcome) -> None:
        """Its sub-agents end with it."""
        for each in reversed(list(self._agents.family(one))):
            if each is one:
                continue
            if each.engine is not None:
                self._limiters[each.engine].finish(each.agent_id, outcome)
            each.born = None
            if not each.entered:
                self._forget(each)

    def _forget_if_gone(self, one: Member) -> None:
        if not one.entered and not one.requests and one.agent_id not in self and self._agents.get(one.agent_id) is one:
            self._forget(one)

    def _forget(self, one: Member) -> None:
        if self._agents.get(one.agent_id) is one:
            self._agents.end(one)
            self._fleet.forget(one.agent_id)

    def _check_open(self, agent_id: str) -> None:
        if self._closed:
            raise ControllerClosedError(f"agent {agent_id!r} asks for a seat, but the controller is closed")
