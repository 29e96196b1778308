"""Whose an agent is: the workers, their leases, and what becomes of the agents of one that is gone. No operations.

An id belongs to the worker that runs it, for as long as that worker lives. When nothing was heard of a worker for a
lease, its agents between steps are finished as cancelled at once. One that generates keeps its seat for a while, since
the engine may still be at its request: a worker that was stopped and not killed comes back, registers, and goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from concur_agents.errors import ControllerClosedError, LifecycleError
from concur_agents.remote.controlled import Seating, Several
from concur_agents.remote.protocol import AgentReport, Kind, OfAgent, RefusedError, Register
from concur_agents.remote.workers import Held, Worker
from concur_agents.samples import AgentState, AgentView, Outcome

__all__ = ["SWEEP_S", "Book", "unknown_worker"]

_log = logging.getLogger("concur_agents.remote")

SWEEP_S: Final = 1.0
"""Between two sweeps. Longer: this process stood still (SIGSTOP, a suspended machine), and not its workers."""


class Book:
    """Who runs which agent.

    Args:
        limiter: where their seats are; nobody else closes the contexts of agents that are in the book.
        several: the engines, where there are several.
        lease_s: see ``Desk``, as the others; checked there.
        in_flight_s: likewise.
        unnamed_s: likewise.
        max_workers: likewise.
        max_agents: likewise.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        limiter: Seating,
        several: Several | None,
        *,
        lease_s: float,
        in_flight_s: float,
        unnamed_s: float,
        max_workers: int,
        max_agents: int,
        clock: Callable[[], float],
    ) -> None:
        self._limiter, self._several = limiter, several
        self._lease_s, self._in_flight_s, self._unnamed_s = lease_s, in_flight_s, unnamed_s
        self._max_workers, self._max_agents = max_workers, max_agents
        self._clock = clock
        self.workers: dict[str, Worker] = {}
        self._unnamed: dict[str, Worker] = {}
        """Stand-ins, by their only agent."""
        self.held: dict[str, Held] = {}
        """Every agent, even where one has ended with its parent since."""
        self.adrift: dict[str, Held] = {}
        """Of these, those whose worker is gone."""
        self._swept_at = clock()

    # --- workers ---

    def register(self, operation: Register) -> tuple[Worker, tuple[str, ...]]:
        """A worker is there, with these agents. Returns it, and which of them are another's by now.

        Raises:
            RefusedError: there are too many, or it is too old for several engines.
        """
        now, name = self._clock(), operation.worker
        if self._several is not None and operation.protocol < 2:
            raise RefusedError(
                Kind.INVALID,
                "this controller has several engines, and the worker's concur-agents is too old to be told which one an"
                " agent is on: install the controller's version there",
            )
        worker = self.workers.get(name)
        if worker is not None and operation.seq is not None and operation.seq <= worker.seq:
            worker.renew(now)
            return worker, ()  # said twice, or late: it has gone on since
        if worker is None:
            if len(self.workers) >= self._max_workers:
                raise RefusedError(Kind.FULL, f"the controller has {self._max_workers} workers")
            worker = self.workers[name] = Worker(name, operation.lease_s or self._lease_s, now)
        worker.lease_s = operation.lease_s or worker.lease_s
        worker.seq = worker.seq if operation.seq is None else operation.seq
        worker.ended.clear()
        worker.renew(now)
        self._end_missing(worker, operation)
        return worker, self._take_in(worker, operation.agents)

    def leave(self, name: str) -> None:
        """A worker goes, and its agents end."""
        worker = self.workers.get(name)
        if worker is not None:
            self._drop(worker, self._clock(), gone=True)

    def known(self, name: str) -> Worker:
        """The worker, heard of just now. Raises RefusedError when it is not known (any more)."""
        worker = self.workers.get(name)
        if worker is None:
            raise unknown_worker(name)
        worker.renew(self._clock())
        return worker

    def sweep(self) -> None:
        """Look whose lease has lapsed."""
        now = self._clock()
        stood_still_s = max(0.0, now - self._swept_at - SWEEP_S)
        self._swept_at = now
        for worker in (*self.workers.values(), *self._unnamed.values()):
            worker.until += stood_still_s
        for held in self.adrift.values():
            held.until = None if held.until is None else held.until + stood_still_s
        for worker in [each for each in self.workers.values() if each.until <= now]:
            _log.warning("worker %s was not heard of for %g s: its agents between steps end", *_shown(worker))
            self._drop(worker, now)
        for worker in [each for each in self._unnamed.values() if each.until <= now]:
            self._drop(worker, now)
        for held in [each for each in self.adrift.values() if each.until is not None and each.until <= now]:
            self.end(held, Outcome.CANCELLED)
        for held in [each for each in self.held.values() if each.agent not in self._limiter]:
            self.forget(held)  # ended with its parent

    def _end_missing(self, worker: Worker, operation: Register) -> None:
        """Whoever was this worker's, and is not there any more."""
        there, ended = {report.agent for report in operation.agents}, dict(operation.ended)
        adrift = [each.agent for each in self.adrift.values() if each.worker.named and each.worker.name == worker.name]
        before = [*worker.agents, *adrift]
        for agent in before:
            held = self.held.get(agent)
            if held is not None and agent not in there and not (held.suspended and agent not in ended):
                self.end(held, ended.get(agent, Outcome.CANCELLED))

    def _take_in(self, worker: Worker, reports: tuple[AgentReport, ...]) -> tuple[str, ...]:
        """Restore its agents; those that are another's by now are left out, and returned."""
        if len(self.held) + len(reports) - len(worker.agents) > self._max_agents:
            raise RefusedError(Kind.FULL, f"the controller has {len(self.held)} agents of at most {self._max_agents}")
        taken, views = [], []
        for report in {each.agent: each for each in reports}.values():
            try:
                held = self.own(report.agent, worker) or self.open(report.agent, worker)
            except RefusedError as refused:
                if refused.kind != Kind.TAKEN:
                    raise
                taken.append(report.agent)
                continue
            self.unask(held)
            held.seq, held.answer, held.suspended = worker.seq, {}, report.suspended
            if report.engine is not None and self._several is not None:
                self._several.follow(report.agent, report.engine)
            views.append((_view(report), report.age_s))
        self._limiter.restore(views)
        return tuple(taken)

    def _drop(self, worker: Worker, now: float, *, gone: bool = False) -> None:
        """A worker is gone. For sure, or it seems so: then what it had in the engine may still be there."""
        (self.workers if worker.named else self._unnamed).pop(worker.name, None)
        for agent in tuple(worker.agents):
            held = self.held[agent]
            self.unask(held)
            generates = self._limiter.state(agent) is AgentState.GENERATING
            if held.suspended:
                self._cast_off(held, now + self._unnamed_s)
            elif not gone and (generates or self._limiter.has_sub_agents(agent)):
                self._cast_off(held, now + self._in_flight_s)
            else:
                self.end(held, Outcome.CANCELLED)

    def _cast_off(self, held: Held, until: float) -> None:
        held.worker.agents.discard(held.agent)
        held.until = until
        self.adrift[held.agent] = held

    # --- agents ---

    def whose(self, operation: OfAgent) -> Worker:
        """The worker that speaks. Raises RefusedError when it is not known (any more)."""
        if operation.worker is not None:
            return self.known(operation.worker)
        worker = self._unnamed.get(operation.agent)
        if worker is None:
            worker = Worker(operation.agent, self._unnamed_s, 0.0, named=False)
        worker.renew(self._clock())
        return worker

    def find(self, agent: str) -> Held | None:
        """The agent; None when it is not known (any more)."""
        held = self.held.get(agent)
        if held is not None and self._limiter.state(agent) is None:
            self.forget(held)  # ended with its parent
            return None
        return held

    def own(self, agent: str, worker: Worker) -> Held | None:
        """The agent, from now on the worker's if it was nobody's. None when it is not known.

        Raises:
            RefusedError: it is another one's.
        """
        held = self.find(agent)
        if held is None:
            return None
        if held.worker is not worker:
            if held.until is None and not held.suspended:
                whose = f"worker {held.worker.name!r:.80}" if held.worker.named else "somebody who names no worker"
                raise _taken(agent, whose)
            self._disown(held)
            held.worker = worker
            held.seq, held.answer, held.key = -1, {}, None
            self._adopt(held)
        return held

    def open(self, agent: str, worker: Worker) -> Held:
        """A new one, the worker's.

        Raises:
            RefusedError: there are too many, or somebody else runs one of that name.
            ControllerClosedError: nobody is admitted any more.
        """
        if len(self.held) >= self._max_agents:
            raise RefusedError(Kind.FULL, f"the controller has {self._max_agents} agents")
        try:
            self._limiter.enter(agent)
        except ControllerClosedError:
            raise
        except LifecycleError:
            raise _taken(agent, "the controller's own process") from None
        held = self.held[agent] = Held(agent, worker)
        self._adopt(held)
        return held

    def _adopt(self, held: Held) -> None:
        held.worker.agents.add(held.agent)
        if not held.worker.named:
            self._unnamed[held.agent] = held.worker

    def _disown(self, held: Held) -> None:
        held.worker.agents.discard(held.agent)
        held.until = None
        self.adrift.pop(held.agent, None)
        if not held.worker.named:
            self._unnamed.pop(held.agent, None)

    def end(self, held: Held, outcome: Outcome) -> None:
        """The agent ends, with its seat and whatever it waits for."""
        self.unask(held)
        self._limiter.leave(held.agent, outcome)
        self.forget(held)

    def forget(self, held: Held) -> None:
        """The agent has ended; its worker's late words are known as such."""
        if self.held.get(held.agent) is held:
            del self.held[held.agent]
            self._limiter.leave(held.agent, None)  # where it ended with its parent, its context is still open
        worker = held.worker
        self._disown(held)
        worker.end(held.agent, held.seq)
        held.done()

    def unask(self, held: Held) -> None:
        """Take back what was asked for and nobody came for; it keeps its age."""
        request = held.request
        if request is not None:
            held.done()
            self._limiter.withdraw(request)


def _taken(agent: str, whose: str) -> RefusedError:
    return RefusedError(Kind.TAKEN, f"agent {agent!r:.80} is run by {whose}: two agents need two ids")


def unknown_worker(worker: str) -> RefusedError:
    """What a worker is told that is to register."""
    return RefusedError(
        Kind.UNKNOWN_WORKER, f"worker {worker!r:.80} is not known (any more): register it, with its agents"
    )


def _shown(worker: Worker) -> tuple[str, float]:
    return f"{worker.name!r:.80}", worker.lease_s


def _view(report: AgentReport) -> AgentView:
    return AgentView(
        agent_id=report.agent,
        parent=report.parent,
        state=report.state,
        steps=report.steps,
        context_tokens=report.context_tokens,
        waited_s=0.0,
    )
