"""What an adapter for a framework is made of: one agent's run, in which Concur's own failures are never the agent's.

An adapter enters an :class:`AgentRun` where its framework begins a run and leaves it where that run ends, whatever
ended it; and makes each model call a :meth:`~AgentRun.step`, which ends before the first tool begins.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from concur_agents.agents import INHERIT, Agent, Agents, Inherit, SyncAgent
from concur_agents.errors import ControllerClosedError, LifecycleError
from concur_agents.samples import Outcome
from concur_agents.steps import Step, SyncStep

__all__ = ["AgentRun", "Faults", "ModelCall"]


class Faults:
    """Concur's own failures: said once, and never the agent's problem.

    Args:
        log: of the adapter.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log: Final = log
        self._lock = threading.Lock()
        self._said: set[str] = set()

    @classmethod
    def of(cls, controller: Agents, log: logging.Logger) -> Faults:
        """The one for a controller and an adapter, so that a failure is said once and not once an agent."""
        return _faults.setdefault(controller, {}).setdefault(log.name, cls(log))

    @contextlib.contextmanager
    def never_fatal(self, what: str) -> Iterator[None]:
        """Whatever Exception Concur raises inside is told, and goes no further."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is Concur's and not the agent's
            self.failed(what, error)

    def failed(self, what: str, error: Exception) -> None:
        """Concur could not do ``what``; the agent goes on without. The first of each kind is a warning."""
        self.say(f"{what}:{type(error).__name__}", f"Concur could not {what}; the agent goes on without", error)

    def say(self, kind: str, message: str, error: Exception | None = None) -> None:
        """Log ``message``: the first of its kind as a warning, the rest as debug lines."""
        with self._lock:
            first = kind not in self._said
            self._said.add(kind)
        self._log.log(logging.WARNING if first else logging.DEBUG, message, exc_info=error)


class AgentRun:
    """One run of one agent, as an adapter sees it. Enter it with ``with``, in sync and async code alike.

    ::

        with AgentRun(controller, session_id, log=_log) as run:
            async with run.step() as step:
                reply = await call_model(extra_headers=run.headers)
                step.observe(reply.usage)

    Whatever is raised inside finishes the agent with its outcome. Agents begun inside share its seat. A failure of
    Concur's own (a closed controller, a bug) is logged once for each controller and kind, and the agent goes on without
    control; cancellation and interrupts pass through.

    Args:
        controller: who admits: a ``Controller``.
        agent_id: stable over the run; made up when None. Where another run goes on under the same id, this one is
            called ``<agent_id>~<8 hex digits>``: two runs at a time are two agents.
        parent: as for ``Controller.agent``.
        log: where failures are told.
    """

    def __init__(
        self,
        controller: Agents,
        agent_id: str | None = None,
        *,
        parent: str | Inherit | None = INHERIT,
        log: logging.Logger | None = None,
    ) -> None:
        self.faults: Final = Faults.of(controller, log or logging.getLogger("concur_agents"))
        self._controller = controller
        self._given_parent: Final = parent
        self._agent: Agent = controller.agent(agent_id, parent=parent)
        self._sync: SyncAgent | None = None
        self._call: ModelCall | None = None

    @property
    def agent_id(self) -> str:
        """Whose run it is; fixed once the run is entered."""
        return self._agent.agent_id

    @property
    def parent(self) -> str | None:
        """The agent whose seat it shares; None when it has its own."""
        return self._agent.parent

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers that name the agent to the engine."""
        return self._agent.headers

    # --- the run ---

    def __enter__(self) -> Self:
        with self.faults.never_fatal("begin an agent"):
            try:
                self._sync = self._begin(self.agent_id)
            except ControllerClosedError:
                raise
            except LifecycleError:  # another run goes on under this id
                self._sync = self._begin(f"{self.agent_id}~{uuid.uuid4().hex[:8]}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.pause()
        agent, self._sync = self._sync, None
        with self.faults.never_fatal("finish an agent"):
            if agent is not None:
                agent.__exit__(kind, error, traceback)

    def __del__(self) -> None:
        # Left in no other way: an async generator whose loop is gone is collected without being closed.
        if getattr(self, "_sync", None) is not None:
            self.__exit__(GeneratorExit, GeneratorExit(), None)

    def finish(self, outcome: Outcome) -> None:
        """End the agent now, with an outcome that leaving the run would not show. Idempotent: the first one counts."""
        self.pause()
        with self.faults.never_fatal("finish an agent"):
            self._agent.finish(outcome)

    def park(self) -> None:
        """Give the seat back until the next model call: a person is asked, and the run waits."""
        self.pause()
        with self.faults.never_fatal("park an agent"):
            self._agent.park()

    def suspend(self) -> None:
        """The same, and the run ends here: the agent goes on in a later run under the same id, :attr:`agent_id`."""
        self.pause()
        with self.faults.never_fatal("park an agent"):
            (self._sync or self._agent).suspend()

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Have agents that are begun in the body be sub-agents: for a run that comes and goes, as a generator does."""
        with (self._sync or self._agent).inside():
            yield

    # --- its model calls ---

    def step(self) -> ModelCall:
        """The agent's next model call, as a context manager: ``async with`` awaits its seat, ``with`` blocks for it."""
        return ModelCall(self, self._controller)

    async def resume(self) -> None:
        """For frameworks with a hook before and one after: wait for the seat. Nothing happens if the agent has one."""
        if self._call is None:
            self._call = self.step()
            try:
                await self._call.__aenter__()
            except BaseException:  # cancelled or interrupted while queued: there is no call that could be paused
                self._call = None
                raise

    def resume_blocking(self) -> None:
        """The same for threads."""
        if self._call is None:
            self._call = self.step()
            try:
                self._call.__enter__()
            except BaseException:  # cancelled or interrupted while queued: there is no call that could be paused
                self._call = None
                raise

    def pause(self, usage: object = None) -> None:
        """What :meth:`resume` began has ended, well or not. Nothing happens when nothing runs; may come twice.

        Args:
            usage: of the reply, in the form of any client; None is unknown.
        """
        call, self._call = self._call, None
        if call is not None:
            call.observe(usage)
            call.end()

    def _begin(self, agent_id: str) -> SyncAgent:
        if agent_id != self.agent_id:
            # By the parent as it was given: where the run round this one has the same id, that one is the parent now.
            self._agent = self._controller.agent(agent_id, parent=self._given_parent)
        return self._controller.sync.agent(agent_id, parent=self._agent.parent).__enter__()


class ModelCall:
    """One model call of a run; see :meth:`AgentRun.step`."""

    def __init__(self, run: AgentRun, controller: Agents) -> None:
        self._run = run
        self._controller = controller
        self._step: Step | SyncStep | None = None

    def observe(self, usage: object) -> None:
        """Take the reply's usage, of any client; None is unknown. Of several in one call the last counts."""
        if self._step is not None and usage is not None:
            with self._run.faults.never_fatal("observe usage"):
                self._step.observe(usage)

    def end(self) -> None:
        """The call has ended. Idempotent."""
        step, self._step = self._step, None
        if step is not None:
            with self._run.faults.never_fatal("pause an agent"):
                step.end()

    async def __aenter__(self) -> Self:
        agent = self._controller.agent(self._run.agent_id, parent=self._run.parent)
        with self._run.faults.never_fatal("give an agent its seat"):
            self._step = await agent.step().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def __enter__(self) -> Self:
        agent = self._controller.sync.agent(self._run.agent_id, parent=self._run.parent)
        with self._run.faults.never_fatal("give an agent its seat"):
            self._step = agent.step().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()


_faults: weakref.WeakKeyDictionary[Agents, dict[str, Faults]] = weakref.WeakKeyDictionary()
