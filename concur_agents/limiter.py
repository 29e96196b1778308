"""Admission for many threads and event loops at once: who sleeps until a seat is free, and who took it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from concur_agents.admission import Admission, Restored
from concur_agents.errors import ControllerClosedError, LifecycleError, UnknownAgentError
from concur_agents.events import AgentEvent, AgentEventKind, Event
from concur_agents.forecast import Forecast
from concur_agents.meter import Meter, Totals
from concur_agents.samples import NO_GROWTH, AgentState, AgentView, Growth, Outcome, Population
from concur_agents.turns import Turns, Waiter, turn
from concur_agents.usage import TokenUsage
from concur_agents.waits import Waits

__all__ = ["Limiter", "Request"]


@dataclass(slots=True, eq=False)
class _Life:
    """What the limiter knows of one agent beside its seat. A later agent under the same id has another one."""

    open_steps: int = 0
    """Steps of the agent that run or wait now: it pauses when the last one ends."""
    begun: bool = False
    """A generation runs: a seat was granted, and somebody came for it."""
    granted: list[Request] = field(default_factory=list)
    """Primitives' requests that had to wait for the generation that runs: any of them may be leaving still."""
    queued_at: float | None = None
    waited_s: float = 0.0


@dataclass(slots=True, eq=False)
class Request:
    """One request for an agent's next generation: by a step, which has an end of its own, or by a primitive."""

    agent_id: str
    life: _Life
    step: bool
    waiter: Waiter | None = None
    """Done when a seat was granted; None when the agent may generate at once."""
    withdrawn: bool = False


class Limiter(Turns, Waits[Request]):
    """Seats of all agents, and their tokens, under one lock: held for microseconds, longer only to list or move many.

    Args:
        window: first window, in agents.
        clock: monotonic seconds.
    """

    def __init__(self, window: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._admission = Admission(window)
        self._meter = Meter()
        self._lives: dict[str, _Life] = {}
        self._queued: dict[str, list[Request]] = {}
        self._entered: set[str] = set()
        self._finished: Counter[Outcome] = Counter()
        self._closed = False
        self._reset_at: float | None = None
        self._measured = clock(), self._meter.sums

    # --- an agent's context ---

    @turn()
    def enter(self, agent_id: str) -> None:
        """Open the agent's context.

        Raises:
            ControllerClosedError: nobody is admitted any more.
            LifecycleError: the agent's context is open already.
        """
        self._check_open(agent_id)
        if agent_id in self._entered:
            raise LifecycleError(f"agent {agent_id!r} runs already: two agents need two ids")
        self._entered.add(agent_id)

    @turn(later=True)
    def leave(self, agent_id: str, outcome: Outcome | None) -> None:
        """Close the agent's context: the agent ends; None when it goes on in a later context."""
        self._entered.discard(agent_id)
        if not self._dropped(agent_id) and outcome is not None:
            self._finish(agent_id, outcome)

    # --- asking for a seat ---

    @turn()
    def request(self, agent_id: str, parent: str | None, *, step: bool = False) -> Request:
        """Ask for the agent's next generation; it may begin once the result was waited for.

        Raises:
            ControllerClosedError: nobody is admitted any more.
        """
        self._check_open(agent_id)
        admission = self._admission
        before = admission.state(agent_id) if agent_id in admission else None
        life = self._lives.get(agent_id)
        if life is None:
            life = self._lives[agent_id] = _Life()
        granted = admission.request(agent_id, parent, self._clock())
        life.open_steps += step
        request = Request(agent_id, life, step)
        if not granted:
            if life.queued_at is None:
                life.queued_at = self._clock()
            request.waiter = Waiter()
            self._queued.setdefault(agent_id, []).append(request)
        elif not life.begun:
            self._begin(agent_id, life, kept_seat=before is AgentState.IN_TOOL)
        return request

    @turn()
    def taken(self, request: Request) -> bool:
        """Whether the seat is there; if so its taker has come for it. For who looks now and then instead of waiting.

        Raises:
            UnknownAgentError: the agent was finished while it waited.
            ControllerClosedError: the controller was closed while it waited.
        """
        if request.waiter is not None:
            if not request.waiter.done():
                return False
            request.waiter.result()
            self._came(request)
        return True

    @turn(later=True)
    def withdraw(self, request: Request) -> None:
        """Take back a request, even one granted while its taker was leaving.

        While its context is open, a new agent keeps its age: who gives up waiting there asks again.
        """
        agent_id, life = request.agent_id, request.life
        if request.withdrawn or self._lives.get(agent_id) is not life:
            return  # finished meanwhile: by now the id may be another agent's
        request.withdrawn = True
        life.open_steps -= request.step
        queued = self._queued.get(agent_id, [])
        if request in queued:
            queued.remove(request)
        elif request in life.granted:
            life.granted.remove(request)
        elif not request.step:
            return  # granted, and that generation has ended
        # Others may wait or run under the same id; the last one out takes the request back.
        if queued or (self._admission.was_granted(agent_id) and (life.granted or life.open_steps > 0)):
            return
        self._queued.pop(agent_id, None)
        self._stop_waiting(life)
        if life.begun:
            self._pause(agent_id)
            return
        self._admission.withdraw(agent_id, keep=agent_id in self._entered)
        if agent_id not in self._admission:
            self._forget(agent_id)

    # --- the agent's boundaries ---

    @turn(later=True)
    def pause(self, agent_id: str) -> bool:
        """See :meth:`Admission.pause`; also counts the step's usage."""
        return self._pause(agent_id)

    @turn(later=True)
    def end_step(self, request: Request) -> None:
        """One step ended: pause when it was the agent's last open one. An agent that finished meanwhile is no error."""
        life = request.life
        if self._lives.get(request.agent_id) is life:
            life.open_steps = max(0, life.open_steps - 1)
            if life.open_steps == 0:
                self._pause(request.agent_id)

    @turn(later=True)
    def park(self, agent_id: str) -> bool:
        """See :meth:`Admission.park`; also counts the step's usage."""
        return self._pause(agent_id, park=True)

    @turn(later=True)
    def park_idle(self, longer_than_s: float) -> None:
        """See ``Controller.park_idle``."""
        self._admission.give_up_idle(self._clock() - longer_than_s)

    @turn(later=True)
    def finish(self, agent_id: str, outcome: Outcome) -> bool:
        """The agent and its sub-agents ended; False when it is not known (any more). Who waits for it is told."""
        return self._dropped(agent_id) or self._finish(agent_id, outcome)

    @turn(later=True)
    def observe(self, agent_id: str, usage: TokenUsage, request: Request | None = None) -> None:
        """Usage of the generation that runs (``request``'s, if given); dropped when none does."""
        if self._admission.was_granted(agent_id) and (request is None or self._lives[agent_id] is request.life):
            self._meter.observe(agent_id, usage)

    # --- agents that have lived elsewhere ---

    @turn()
    def restore(self, agents: Iterable[tuple[AgentView, float]]) -> None:
        """Take in agents as they are, each with the seconds since it asked first; see :meth:`Admission.restore`.

        Their contexts are open. None of them waits for a seat here.

        Raises:
            ControllerClosedError: nobody is admitted any more.
        """
        now = self._clock()
        restored = []
        for view, age_s in agents:
            self._check_open(view.agent_id)
            generates = view.state is AgentState.GENERATING
            life = self._lives.get(view.agent_id)
            if life is None:
                life = self._lives[view.agent_id] = _Life(waited_s=view.waited_s)
            elif not generates:
                self._pause(view.agent_id)
            # Its next step is no first one: what is found of its context is no shared prefix. One that was known may
            # have gone on without control meanwhile.
            before = view.steps - (generates and not life.begun)
            self._meter.restore(view.agent_id, before, view.context_tokens, now)
            self._entered.add(view.agent_id)
            tokens = self._meter.weight(view.agent_id) or 0.0
            if generates and not life.begun:
                life.begun = True
                self._meter.begin(view.agent_id, now, kept_seat=False)
                tokens += self._meter.growth
                self._note(view.agent_id, AgentEventKind.ADMITTED if view.steps <= 1 else AgentEventKind.RESUMED)
            restored.append(
                Restored(
                    agent_id=view.agent_id,
                    parent=view.parent,
                    state=view.state,
                    born=now - age_s,
                    has_run=view.steps > generates,
                    tokens=tokens,
                )
            )
        self._admission.restore(restored)

    @turn()
    def is_new(self, agent_id: str) -> bool:
        """Whether the agent is known, and its first generation has not begun."""
        life = self._lives.get(agent_id)
        return life is not None and not life.begun and self._meter.steps(agent_id) == 0

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._admission

    @turn()
    def has_sub_agents(self, agent_id: str) -> bool:
        """See :meth:`Admission.has_sub_agents`."""
        return self._admission.has_sub_agents(agent_id)

    # --- the control loop ---

    def set_window(
        self,
        window: float,
        *,
        tokens: float = math.inf,
        ahead: float = 0.0,
        patience_s: float = math.inf,
        new_epoch: bool,
    ) -> None:
        """Change what may be seated; ``new_epoch``: what was evicted before now is not to be held against it."""
        growth = self._growth(ahead) if math.isfinite(tokens) else NO_GROWTH
        self._set_window(window, tokens, growth, patience_s, new_epoch=new_epoch)

    def _growth(self, ahead: float) -> Growth:
        make, contexts, step, generating = self._expectation()
        # Not under the lock: it takes milliseconds with thousands of agents.
        forecast = make()
        peak, horizon = forecast.peak(contexts, ahead)
        return Growth(
            seated=max(0.0, peak - sum(contexts)), each=horizon, step=generating * forecast.swell(contexts, step)
        )

    @turn()
    def _expectation(self) -> tuple[Callable[[], Forecast], list[float], float, float]:
        """What makes the forecast; contexts of the seated; what a step adds to one; the share of them that generate."""
        population, shared = self._admission.population(), self._meter.shared_prefix
        contexts = [tokens + shared for tokens in self._admission.held_by_seated()]
        return self._meter.forecast(), contexts, self._meter.growth, population.generating / max(1, population.seated)

    @turn(later=True)
    def _set_window(self, window: float, tokens: float, growth: Growth, patience_s: float, *, new_epoch: bool) -> None:
        if new_epoch:
            self._meter.new_epoch()
        self._admission.set_window(window, tokens=tokens, growth=growth)
        if patience_s < math.inf:
            self._admission.give_up_idle(self._clock() - patience_s)

    @turn(later=True)
    def announce(self, event: Event) -> None:
        """Send an event that is not an agent's, in order with theirs."""
        if self.streams:
            self.tell(event)

    @turn()
    def measure(self) -> tuple[Population, int]:
        """The agents at this moment, with the sums since the last :meth:`reset`, and the seats above the window."""
        self._measured = self._clock(), self._meter.sums
        population = self._meter.annotate(self._admission.population())
        elapsed = None if self._reset_at is None else self._measured[0] - self._reset_at
        return replace(population, elapsed_s=elapsed), self._admission.over

    @turn()
    def reset(self) -> None:
        """A law has seen what :meth:`measure` returned: only what comes after it counts from now on."""
        self._reset_at, sums = self._measured
        self._meter.reset(sums)

    @turn()
    def snapshot(self) -> tuple[Population, Totals, dict[Outcome, int], int]:
        """The agents at this moment, tokens, finished agents by outcome, known agents."""
        population = self._meter.annotate(self._admission.population())
        return population, self._meter.totals, dict(self._finished), len(self._admission)

    @turn()
    def views(self) -> tuple[AgentView, ...]:
        """Every known agent."""
        now = self._clock()
        return tuple(self._view(agent_id, now) for agent_id in self._admission)

    @turn()
    def view(self, agent_id: str) -> AgentView | None:
        """One of them; None when unknown."""
        return self._view(agent_id, self._clock()) if agent_id in self._admission else None

    @turn()
    def state(self, agent_id: str) -> AgentState | None:
        """Where the agent is; None when unknown."""
        return self._admission.state(agent_id) if agent_id in self._admission else None

    def engine(self, agent_id: str) -> None:
        """See ``Seats``: they are one engine's, which clients know."""

    def refused(self, engine: str) -> None:
        """See ``Seats``: there is no other."""

    @turn(later=True)
    def close(self) -> None:
        """Admit nobody any more; everyone who waits is told, everyone known is finished as cancelled, streams end."""
        self._closed = True
        for agent_id in list(self._admission):
            self._finish(agent_id, Outcome.CANCELLED)
        self.do_later(self._close_streams)

    # --- inside; with the lock held ---

    def _close_streams(self) -> None:
        for stream in tuple(self.streams):
            stream.close()

    def _came_for(self, request: Request) -> None:
        self.taken(request)

    def _came(self, request: Request) -> None:
        """Somebody came for a granted seat: the generation begins."""
        if self._lives.get(request.agent_id) is not request.life:
            raise self._ended(request.agent_id)
        if not request.life.begun and self._admission.was_granted(request.agent_id):
            self._begin(request.agent_id, request.life, kept_seat=False)

    def _check_open(self, agent_id: str) -> None:
        if self._closed:
            raise ControllerClosedError(f"agent {agent_id!r} asks for a seat, but the controller is closed")

    def _ended(self, agent_id: str) -> LifecycleError:
        if self._closed:
            return ControllerClosedError(f"the controller was closed while agent {agent_id!r} waited for a seat")
        return UnknownAgentError(f"agent {agent_id!r} was finished while it waited for a seat")

    def _begin(self, agent_id: str, life: _Life, *, kept_seat: bool) -> None:
        life.begun = True
        first = self._meter.steps(agent_id) == 0
        self._meter.begin(agent_id, self._clock(), kept_seat=kept_seat)
        if not first:
            weight = self._meter.weight(agent_id)
            if weight is not None:
                self._admission.weigh(agent_id, weight + self._meter.growth)
        self._note(agent_id, AgentEventKind.ADMITTED if first else AgentEventKind.RESUMED)

    def _pause(self, agent_id: str, *, park: bool = False) -> bool:
        admission, now = self._admission, self._clock()
        generating = admission.was_granted(agent_id)
        if generating:
            life = self._lives[agent_id]
            if not life.begun:  # whoever says so before its taker came must know
                self._begin(agent_id, life, kept_seat=False)
            life.begun = False
            life.granted.clear()
            self._meter.end(agent_id, now)
            weight = self._meter.weight(agent_id)
            if weight is not None:
                admission.expect(self._meter.first_footprint)
                admission.weigh(agent_id, weight)
        changed = admission.park(agent_id, now) if park else admission.pause(agent_id, now)
        if generating:
            if admission.state(agent_id) is AgentState.IN_TOOL:
                self._note(agent_id, AgentEventKind.PAUSED)
            elif admission.parent(agent_id) is not None:
                self._note(agent_id, AgentEventKind.PARKED)  # the family's first agent is told by settle
        return changed

    def _dropped(self, agent_id: str) -> bool:
        """Whether the agent gave up before its first step, and so leaves without having been there."""
        life = self._lives.get(agent_id)
        if life is None or life.begun or life.granted or life.open_steps or agent_id in self._queued:
            return False
        if self._meter.steps(agent_id):
            return False
        self._admission.withdraw(agent_id)
        if agent_id in self._admission:
            return False  # it has run, or sub-agents go on
        self._forget(agent_id)
        return True

    def _finish(self, agent_id: str, outcome: Outcome) -> bool:
        now = self._clock()
        ended = self._admission.finish(agent_id, now)
        for each in ended:
            self._meter.end(each, now)
            self._finished[outcome] += 1
            self._wake(self._queued.pop(each, []), self._ended(each))
            self._forget(each)
            self._note(each, AgentEventKind.FINISHED, outcome)
        return bool(ended)

    def settle(self) -> None:
        """Note whom the operation took a seat from, and wake whom it granted one."""
        for agent_id in self._admission.take_parked():
            self._note(agent_id, AgentEventKind.PARKED)
        for agent_id in self._admission.take_granted():
            life = self._lives.get(agent_id)
            if life is not None:  # else granted on the way, and ended by the same operation
                self._stop_waiting(life)
                requests = self._queued.pop(agent_id, [])
                life.granted = [request for request in requests if not request.step]
                self._wake(requests)

    def _stop_waiting(self, life: _Life) -> None:
        if life.queued_at is not None:
            life.waited_s += self._clock() - life.queued_at
            life.queued_at = None

    def _forget(self, agent_id: str) -> None:
        self._lives.pop(agent_id, None)
        self._meter.forget(agent_id)

    def _view(self, agent_id: str, now: float) -> AgentView:
        life = self._lives[agent_id]
        return AgentView(
            agent_id=agent_id,
            parent=self._admission.parent(agent_id),
            state=self._admission.state(agent_id),
            steps=self._meter.steps(agent_id),
            context_tokens=self._meter.context(agent_id),
            waited_s=life.waited_s + (now - life.queued_at if life.queued_at is not None else 0.0),
        )

    def _note(self, agent_id: str, kind: AgentEventKind, outcome: Outcome | None = None) -> None:
        if self.streams:
            self.tell(AgentEvent(at=self._clock(), agent_id=agent_id, kind=kind, outcome=outcome))

    def _wake(self, requests: list[Request], error: Exception | None = None) -> None:
        for request in requests:
            if request.waiter is not None:
                self.wake(request.waiter, error)
