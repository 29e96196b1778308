"""Admission for many threads and event loops at once: the lock, and who sleeps until a seat is free."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from concur_agents.admission import Admission
from concur_agents.errors import ControllerClosedError, LifecycleError, UnknownAgentError
from concur_agents.events import AgentEvent, AgentEventKind
from concur_agents.meter import Meter, Totals
from concur_agents.samples import AgentState, AgentView, Outcome, Population
from concur_agents.usage import TokenUsage

__all__ = ["Limiter"]

_Waiter = concurrent.futures.Future[None]


@dataclass(slots=True, eq=False)
class _Post:
    """What an operation has to tell others once the lock is free, since that runs their callbacks."""

    wakes: list[tuple[_Waiter, Exception | None]] = field(default_factory=list)
    events: list[AgentEvent] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Life:
    """What the limiter knows of one agent beside its seat."""

    open_steps: int = 0
    """Steps of the agent that run or wait now: it pauses when the last one ends."""
    queued_at: float | None = None
    waited_s: float = 0.0


class Limiter:
    """Seats of all agents, and their tokens, under one lock that is held for microseconds.

    Args:
        window: first window, in agents.
        clock: monotonic seconds.
    """

    def __init__(self, window: float, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._admission = Admission(window)
        self._meter = Meter()
        self._lives: dict[str, _Life] = {}
        self._waiters: dict[str, list[_Waiter]] = {}
        self._entered: set[str] = set()
        self._finished: Counter[Outcome] = Counter()
        self._closed = False
        self._post = _Post()
        self.publish: Callable[[AgentEvent], None] | None = None
        """Takes events, outside the lock; None while nobody listens, and no event is made then."""

    # --- an agent's context ---

    def enter(self, agent_id: str) -> None:
        """Open the agent's context.

        Raises:
            ControllerClosedError: nobody is admitted any more.
            LifecycleError: the agent's context is open already.
        """
        with self._lock:
            self._check_open(agent_id)
            if agent_id in self._entered:
                raise LifecycleError(f"agent {agent_id!r} runs already: two agents need two ids")
            self._entered.add(agent_id)

    def leave(self, agent_id: str, outcome: Outcome) -> None:
        """Close the agent's context: the agent ends."""
        with self._lock:
            self._entered.discard(agent_id)
        self.finish(agent_id, outcome)

    # --- asking for a seat ---

    def request(self, agent_id: str, parent: str | None, *, step: bool = False) -> _Waiter | None:
        """Ask for the agent's next generation; None when it may run now, else what to wait for.

        Raises:
            ControllerClosedError: nobody is admitted any more.
        """
        with self._lock:
            self._check_open(agent_id)
            admission = self._admission
            before = admission.state(agent_id) if agent_id in admission else None
            granted = admission.request(agent_id, parent)
            life = self._lives.get(agent_id)
            if life is None:
                life = self._lives[agent_id] = _Life()
            life.open_steps += step
            waiter: _Waiter | None = None
            if not granted:
                if life.queued_at is None:
                    life.queued_at = self._clock()
                waiter = concurrent.futures.Future()
                self._waiters.setdefault(agent_id, []).append(waiter)
            elif before is not AgentState.GENERATING:
                self._begin(agent_id, kept_seat=before is AgentState.IN_TOOL)
            post = self._take_post()
        self._deliver(post)
        return waiter

    async def wait(self, agent_id: str, waiter: _Waiter, *, step: bool = False) -> None:
        """Await the seat; whatever ends the wait otherwise takes the request back."""
        try:
            await asyncio.wrap_future(waiter)
        except BaseException:
            self.withdraw(agent_id, waiter, step=step)
            raise

    def wait_blocking(self, agent_id: str, waiter: _Waiter, *, step: bool = False) -> None:
        """Block the calling thread for the seat; whatever ends the wait otherwise takes the request back."""
        try:
            waiter.result()
        except BaseException:
            self.withdraw(agent_id, waiter, step=step)
            raise

    def withdraw(self, agent_id: str, waiter: _Waiter, *, step: bool = False) -> None:
        """Take back a request, even one granted while its taker was leaving."""
        with self._lock:
            waiters = self._waiters.get(agent_id, [])
            if waiter in waiters:
                waiters.remove(waiter)
            life = self._lives.get(agent_id)
            if life is not None:
                life.open_steps -= step
            # Others may wait or run under the same id; the last one out takes the request back.
            if not waiters and (life is None or life.open_steps <= 0):
                self._waiters.pop(agent_id, None)
                self._admission.withdraw(agent_id)
                if life is not None:
                    self._stop_waiting(life)
                if agent_id not in self._admission:
                    self._forget(agent_id)
            post = self._take_post()
        self._deliver(post)

    # --- the agent's boundaries ---

    def pause(self, agent_id: str) -> bool:
        """See :meth:`Admission.pause`; also counts the step's usage."""
        with self._lock:
            changed = self._pause(agent_id)
            post = self._take_post()
        self._deliver(post)
        return changed

    def end_step(self, agent_id: str) -> None:
        """One step ended: pause when it was the agent's last open one. An agent that finished meanwhile is no error."""
        with self._lock:
            life = self._lives.get(agent_id)
            if life is None:
                return
            life.open_steps = max(0, life.open_steps - 1)
            if life.open_steps == 0:
                self._pause(agent_id)
            post = self._take_post()
        self._deliver(post)

    def park(self, agent_id: str) -> bool:
        """See :meth:`Admission.park`."""
        with self._lock:
            changed = self._admission.park(agent_id)
            self._meter.end(agent_id)
            post = self._take_post()
        self._deliver(post)
        return changed

    def finish(self, agent_id: str, outcome: Outcome) -> bool:
        """The agent and its sub-agents ended; False when it is not known (any more). Who waits for it is told."""
        with self._lock:
            ended = self._finish(agent_id, outcome)
            post = self._take_post()
        self._deliver(post)
        return bool(ended)

    def observe(self, agent_id: str, usage: TokenUsage) -> None:
        """Usage of the agent's running step; an unknown agent's is dropped."""
        with self._lock:
            if agent_id in self._admission:
                self._meter.observe(agent_id, usage)

    # --- the control loop ---

    def set_window(self, window: float, *, new_epoch: bool) -> None:
        """Change the window; ``new_epoch``: what was evicted before now is not to be held against it."""
        with self._lock:
            if new_epoch:
                self._meter.new_epoch()
            if window != self._admission.window:
                self._admission.set_window(window)
            post = self._take_post()
        self._deliver(post)

    def measure(self, *, reset: bool) -> tuple[Population, int]:
        """The agents at this moment and the seats above the window; ``reset`` begins new sums of reuse."""
        with self._lock:
            population = self._meter.annotate(self._admission.population())
            if reset:
                self._meter.reset()
            return population, self._admission.over

    def totals(self) -> tuple[Totals, dict[Outcome, int], int]:
        """Tokens, finished agents by outcome, known agents."""
        with self._lock:
            return self._meter.totals, dict(self._finished), len(self._admission)

    def views(self) -> tuple[AgentView, ...]:
        """Every known agent."""
        with self._lock:
            now = self._clock()
            return tuple(self._view(agent_id, now) for agent_id in self._admission)

    def state(self, agent_id: str) -> AgentState | None:
        """Where the agent is; None when unknown."""
        with self._lock:
            return self._admission.state(agent_id) if agent_id in self._admission else None

    def close(self) -> None:
        """Admit nobody any more; everyone who waits is told, everyone known is finished as cancelled."""
        with self._lock:
            self._closed = True
            error = ControllerClosedError("the controller was closed while agents waited for a seat")
            self._post.wakes += [(waiter, error) for waiters in self._waiters.values() for waiter in waiters]
            self._waiters.clear()
            for agent_id in list(self._admission):
                self._finish(agent_id, Outcome.CANCELLED)
            post = self._take_post()
        self._deliver(post)

    # --- inside; with the lock held ---

    def _check_open(self, agent_id: str) -> None:
        if self._closed:
            raise ControllerClosedError(f"agent {agent_id!r} asks for a seat, but the controller is closed")

    def _begin(self, agent_id: str, *, kept_seat: bool) -> None:
        first = self._meter.steps(agent_id) == 0
        self._meter.begin(agent_id, kept_seat=kept_seat)
        self._note(agent_id, AgentEventKind.ADMITTED if first else AgentEventKind.RESUMED)

    def _pause(self, agent_id: str) -> bool:
        changed = self._admission.pause(agent_id)
        if changed:
            self._meter.end(agent_id)
            if self._admission.state(agent_id) is AgentState.IN_TOOL:
                self._note(agent_id, AgentEventKind.PAUSED)
        return changed

    def _finish(self, agent_id: str, outcome: Outcome) -> tuple[str, ...]:
        self._meter.end(agent_id)
        ended = self._admission.finish(agent_id)
        for each in ended:
            self._finished[outcome] += 1
            error = UnknownAgentError(f"agent {each!r} was finished while it waited for a seat")
            self._post.wakes += [(waiter, error) for waiter in self._waiters.pop(each, ())]
            self._forget(each)
            self._note(each, AgentEventKind.FINISHED, outcome)
        return ended

    def _take_post(self) -> _Post | None:
        """Whom this operation granted a seat or took one from, and what to tell. None when there is nothing."""
        for agent_id in self._admission.take_parked():
            self._note(agent_id, AgentEventKind.PARKED)
        for agent_id in self._admission.take_granted():
            self._stop_waiting(self._lives[agent_id])
            self._begin(agent_id, kept_seat=False)
            self._post.wakes += [(waiter, None) for waiter in self._waiters.pop(agent_id, ())]
        if not self._post.wakes and not self._post.events:
            return None
        post, self._post = self._post, _Post()
        return post

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
        if self.publish is not None:
            self._post.events.append(AgentEvent(at=self._clock(), agent_id=agent_id, kind=kind, outcome=outcome))

    # --- inside; without the lock ---

    def _deliver(self, post: _Post | None) -> None:
        if post is None:
            return
        for waiter, error in post.wakes:
            if not waiter.set_running_or_notify_cancel():
                continue  # its taker is leaving, and takes the request back
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        publish = self.publish
        for event in post.events:
            if publish is not None:
                publish(event)
