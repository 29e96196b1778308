"""Agents of smolagents whose model calls Concur admits (smolagents 1.26)."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import uuid
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any, TypeVar, cast

from smolagents import AgentError, LocalPythonExecutor, MultiStepAgent  # type: ignore[import-untyped]

from concur_agents import BaseController, Outcome
from concur_agents.adapters import AgentRun
from concur_agents.routing import at_engine
from concur_agents_smolagents.parts import RUNNING, admitted, carrying, refine

__all__ = ["concur"]

_log = logging.getLogger("concur_agents_smolagents")

AnyAgent = TypeVar("AnyAgent", bound=MultiStepAgent)


def concur(agent: AnyAgent, controller: BaseController, *, agent_id: str | None = None) -> AnyAgent:
    """Put ``agent``, and the agents it manages, under control; return the same object, still of its own class.

    Args:
        agent: one that does not run. Its model is not touched: agents may share one, under control or not.
        controller: who admits.
        agent_id: stable over the agent's runs; made up when None. Managed agents get ids of their own.

    Raises:
        ValueError: it is under control already.
    """
    if hasattr(agent, "concur_id"):
        raise ValueError(f"agent {agent.concur_id!r} is under Concur's control already")
    for managed in agent.managed_agents.values():
        if not hasattr(managed, "concur_id"):  # two may manage the same one
            concur(managed, controller)
    agent.concur_id, agent.concur_controller = agent_id or uuid.uuid4().hex, controller
    agent.model = refine(copy.copy(agent.model), admitted)
    if (client := getattr(agent.model, "client", None)) is not None:
        agent.model.client = at_engine(client, controller)
    if isinstance(getattr(agent, "python_executor", None), LocalPythonExecutor):
        refine(agent.python_executor, carrying)
    return cast("AnyAgent", refine(agent, _controlled))


@functools.cache
def _controlled(kind: Any) -> Any:
    """An agent class. All its model calls go through ``model``: of steps, of plans, for the last answer."""

    class Controlled(kind):  # type: ignore[misc]
        def run(self, task: str, stream: bool = False, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - theirs
            if stream:
                return _streamed(self, super().run(task, stream, *args, **kwargs))
            with _run_of(self) as run, _interruptible(self, run):
                before = RUNNING.set((self.model, run))
                try:
                    return super().run(task, stream, *args, **kwargs)
                finally:
                    RUNNING.reset(before)

    return Controlled


def _run_of(agent: Any) -> AgentRun:
    return AgentRun(agent.concur_controller, agent.concur_id, log=_log)


def _streamed(agent: Any, steps: Any) -> Iterator[Any]:
    # The steps are made in a context of their own, since whoever reads them is not inside this agent's tools.
    context, run, error = copy_context(), _run_of(agent), None
    context.run(run.__enter__)
    context.run(RUNNING.set, (agent.model, run))
    try:
        with _interruptible(agent, run), contextlib.suppress(StopIteration):
            while True:
                yield context.run(next, steps)
    except BaseException as raised:
        error = raised
        raise
    finally:
        context.run(run.__exit__, None, error, None)
        with contextlib.suppress(RuntimeError):  # in the middle of a step theirs yields once more instead of ending
            steps.close()


@contextlib.contextmanager
def _interruptible(agent: Any, run: AgentRun) -> Iterator[None]:
    try:
        yield
    except AgentError:
        if agent.interrupt_switch:  # by the user's ``agent.interrupt()``
            run.finish(Outcome.CANCELLED)
        raise
