"""One run of a wrapped graph: which agents it is, and that each of them ends however the run ends."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.uuid import uuid7
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt

from concur_agents import BaseController, LifecycleError, Outcome, UnknownAgentError
from concur_agents.adapters import Faults
from concur_agents.agents import outcome_of
from concur_agents_langgraph.errors import NotWrappedError
from concur_agents_langgraph.places import Place, place_of_call, place_of_run

__all__ = ["Member", "Run", "current_run", "headers"]

_log = logging.getLogger("concur_agents_langgraph")
# The innermost wrapped run whose code is running. Set only while the graph works, never while its consumer holds a
# streamed chunk, so that what the consumer starts between two chunks does not become a sub-agent.
_current: ContextVar[Run | None] = ContextVar("concur_agents_langgraph_run", default=None)
# Ids of the runs going on, by controller: two runs at a time never share one. An interrupted run's is not in here.
_going_on: WeakKeyDictionary[BaseController, set[str]] = WeakKeyDictionary()
_going_on_lock = threading.Lock()


@dataclass(slots=True, eq=False)
class Member:
    """One agent of a run: the wrapped graph's own, or a sub-agent's that runs inside it without a wrap of its own."""

    agent_id: str
    parent: str | None
    level: str
    """Of the graph it runs in; see ``places``."""
    generating: int = 0
    """Model calls of it that run or wait now."""
    failed: bool = False
    """Its last model call raised."""
    open: Any = None
    """The model call between a ``resume_node`` and its ``pause_node``."""


@dataclass(slots=True, eq=False)
class Run:
    """One call of a wrapped graph, from its first chunk to its end."""

    controller: BaseController
    faults: Faults
    place: Place
    base: str
    """What ids of agents in this run start with: the thread, else a name made up for this run."""
    agent_id: str
    parent: str | None
    """The agent inside which this run was started: it shares that one's seat."""
    around: Run | None
    """The wrapped run inside which this one was started."""
    run_id: uuid.UUID
    on_loop: bool
    """It is async: its threads belong to an event loop, and none of them may wait for a seat."""
    returns: bool
    """After an interrupt a later run may go on under the same id."""
    seated: bool = False
    """Its own agent has had a seat in this run, so sub-agents have one to share."""
    members: dict[str, Member] = field(default_factory=dict)
    """Who has asked for a seat in this run, by id."""
    interrupted: bool = False
    """A person is asked."""
    over: bool = False

    @classmethod
    def begin(
        cls, controller: BaseController, *configs: RunnableConfig | None, on_loop: bool = False, park: bool = True
    ) -> Run:
        """A run that is about to be called with these configs (later ones win)."""
        around = _current.get()
        place = place_of_run(*configs)
        base = place.thread_id or (around.base if around is not None else uuid.uuid4().hex)
        agent_id = place.within(base)
        if place.thread_id is None and around is not None and not place.level:
            agent_id = f"{base}/{uuid.uuid4().hex}"
        returns = park and place.thread_id is not None
        with _going_on_lock:
            taken = _going_on.setdefault(controller, set())
            if agent_id in taken:
                returns = False  # the name made up here is no later run's
                base = f"{base}~{uuid.uuid4().hex[:8]}"
                agent_id = place.within(base)
            taken.add(agent_id)
        run_id = next((config["run_id"] for config in reversed(configs) if config and config.get("run_id")), None)
        return cls(
            controller=controller,
            faults=Faults.of(controller, _log),
            place=place,
            base=base,
            agent_id=agent_id,
            parent=controller.agent(agent_id).parent,
            around=around if around is not None and around.controller is controller else None,
            run_id=run_id or uuid7(),
            on_loop=on_loop,
            returns=returns,
        )

    def config(self, given: RunnableConfig | None) -> RunnableConfig:
        """``given``, so that the run notices its interrupts."""
        watch = _InterruptWatch(self)
        callbacks: Any = (given or {}).get("callbacks")
        if isinstance(callbacks, BaseCallbackManager):
            callbacks = callbacks.copy()
            callbacks.add_handler(watch)
        else:
            callbacks = [*(callbacks or ()), watch]
        return {**(given or {}), "run_id": self.run_id, "callbacks": callbacks}

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """While the graph works: model calls find their run, and agents begun here are sub-agents."""
        token = _current.set(self)
        try:
            # Also for agents that a tool begins on the controller itself: at a window of 1 they would wait for the seat
            # that this run holds.
            with self.controller.agent(self.agent_id).inside():
                yield
        finally:
            _current.reset(token)

    def member(self, config: RunnableConfig) -> Member:
        """Whose model call it is that a node with this config makes."""
        place = place_of_call(config)
        agent_id = self.id_at(place)
        parent = self.parent if agent_id == self.agent_id else self.agent_id
        return self.members.setdefault(agent_id, Member(agent_id, parent, place.level))

    def id_at(self, place: Place) -> str:
        """The id of the agent at a place in this run."""
        if place.thread_id != self.place.thread_id:
            # Not its thread alone: two runs may each call a helper by one and the same thread.
            return place.within(f"{self.base}/{place.thread_id}")
        return self.agent_id if place.depth <= self.place.depth else place.within(self.base)

    def unseated(self, member: Member) -> list[Run]:
        """The runs round ``member``, outermost first, whose own agents have had no seat for it to share yet.

        Such an agent may never call a model itself, like a graph that only leads others. Without its seat each of its
        sub-agents would need one, and keep it until the whole run ends: at a window of 1 the second never came.
        """
        found = []
        run = self.around if member.agent_id == self.agent_id else self
        while run is not None:
            if not run.seated and not run.over:
                found.append(run)
            run = run.around
        return found[::-1]

    def take_turn(self, member: Member) -> bool:
        """``member`` is about to call its model; False when it outlives the run and so has to do without Concur.

        Raises:
            LifecycleError: it is the run's own agent, so nobody waits for the reply any more.
        """
        own = member.agent_id == self.agent_id
        if own and self.over:
            raise LifecycleError(f"the run of agent {self.agent_id!r} is over")
        if own:
            self._settle("")  # its tools are done, so the sub-agents they ran are
        member.generating += 1
        return not self.over

    def settle(self, config: RunnableConfig) -> None:
        """The tools of the node with this config are done, so the sub-agents they ran are."""
        self._settle((config.get("configurable") or {}).get("checkpoint_ns") or "")

    def _settle(self, level: str) -> None:
        for member in list(self.members.values()):
            # One that still generates runs in the background, and ends with the run.
            if member.agent_id != self.agent_id and member.generating == 0 and member.level.startswith(level):
                self.members.pop(member.agent_id, None)
                self._finish(member.agent_id, Outcome.FAILED if member.failed else Outcome.COMPLETED)

    def abandon(self) -> None:
        """Nobody wants the rest of the run: whoever of it is queued is woken, and nobody of it gets a seat again."""
        self.over = True
        if not self.interrupted:
            self._finish_all(Outcome.CANCELLED)

    def end(self, error: BaseException | None) -> None:
        """The run has ended, with ``error`` or well: its agents end too, or park while a person is asked."""
        self.over = True
        waits = self.interrupted and (error is None or isinstance(error, GeneratorExit))
        if not waits and not isinstance(error, GraphInterrupt):
            self._finish_all(_outcome(error))
        elif self.parent is None:  # else the seat is the one of an agent around, which may well go on
            if self.returns:
                self._park()
            else:
                self._finish_all(Outcome.COMPLETED)
        with _going_on_lock:
            _going_on.get(self.controller, set()).discard(self.agent_id)

    def _finish_all(self, outcome: Outcome) -> None:
        # The run's own agent last: it takes its sub-agents with it, and theirs may have outcomes of their own.
        for member in list(self.members.values()):
            if member.agent_id != self.agent_id:
                self._finish(member.agent_id, Outcome.FAILED if member.failed else outcome)
        self._finish(self.agent_id, outcome)

    def came_late(self, member: Member) -> bool:
        """Whether the run ended while ``member`` got its seat; then it has none any more."""
        if self.over:
            self._finish(member.agent_id, Outcome.CANCELLED)
        return self.over

    def _finish(self, agent_id: str, outcome: Outcome) -> None:
        with self.faults.never_fatal("finish an agent"):  # nor may it replace the run's own result or error
            self.controller.finish(agent_id, outcome)

    def _park(self) -> None:
        # An agent that never called its model is not known.
        with self.faults.never_fatal("park an agent"), contextlib.suppress(UnknownAgentError):
            self.controller.park(self.agent_id)


def current_run(controller: BaseController) -> Run:
    """The run that the caller works in.

    Raises:
        NotWrappedError: there is none.
        ValueError: it is another controller's.
    """
    run = _current.get()
    if run is None:
        raise NotWrappedError(
            "this graph calls its model through Concur but is not wrapped, so nothing would end the agent: "
            "call agent = wrap(agent, controller) and run that"
        )
    if run.controller is not controller:
        raise ValueError("the graph's ConcurMiddleware (or add_concur) and its wrap have different controllers")
    return run


def headers() -> dict[str, str]:
    """HTTP headers that name the agent whose node calls this; none outside of a wrapped run."""
    run = _current.get()
    return {} if run is None else run.controller.agent(run.id_at(place_of_call(get_config()))).headers


class _InterruptWatch(GraphCallbackHandler):
    """Hears of a run's own interrupts, wherever in the graph they come from, and of nothing else."""

    run_inline = True  # on the loop itself: there is nothing to wait for, and threads are for tools
    ignore_agent = ignore_chain = ignore_chat_model = ignore_custom_event = ignore_llm = ignore_retriever = True

    def __init__(self, run: Run) -> None:
        self._run = run

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Graphs inside report here too: theirs end in their own run, or come out of it as an error."""
        if event.run_id == self._run.run_id:
            self._run.interrupted = True


def _outcome(error: BaseException | None) -> Outcome:
    if isinstance(error, GraphDrained):
        return Outcome.CANCELLED
    if isinstance(error, GraphBubbleUp):
        return Outcome.COMPLETED  # a command for the graph around this one: a handoff
    return outcome_of(error)
