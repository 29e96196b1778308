"""One model call as a step of its agent: wait for a seat before, be at a boundary after."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Final, Self

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp

from concur_agents import LifecycleError, Step, SyncStep
from concur_agents_langgraph.runs import Member, Run

__all__ = ["Generation"]


class Generation:
    """A context manager round one model call; ``async with`` awaits the seat, ``with`` blocks its thread for it.

    A failure of Concur's own (a controller that was closed, a bug) is logged once and the call goes on without a seat.
    What the call itself raises passes through untouched.

    Args:
        run: the wrapped run the call belongs to.
        config: of the node that makes the call.

    Raises:
        LifecycleError: at entry, when the run is over and nobody waits for the reply any more.
    """

    def __init__(self, run: Run, config: RunnableConfig) -> None:
        self.run: Final = run
        self.member: Final[Member] = run.member(config)
        self._step: Step | SyncStep | None = None
        self._around = contextlib.ExitStack()

    @property
    def agent_id(self) -> str:
        """Whose step it is."""
        return self.member.agent_id

    def observe(self, usage: Any) -> None:
        """Take the reply's usage; None is unknown."""
        if self._step is not None and usage is not None:
            with self.run.faults.never_fatal("observe usage"):
                self._step.observe(usage)

    async def __aenter__(self) -> Self:
        if not self.run.take_turn(self.member):
            return self
        controller = self.run.controller
        try:
            for run in self.run.unseated(self.member):
                async with controller.agent(run.agent_id, parent=run.parent).step():
                    run.seated = True
            step = controller.agent(self.member.agent_id, parent=self.member.parent).step()
            self._step = await step.__aenter__()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is Concur's and not the agent's
            self._refused(error)
        except BaseException:
            self.member.generating -= 1
            raise
        self._seated()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._around.close()
        self._ended(error)
        if isinstance(self._step, Step):
            with self.run.faults.never_fatal("pause an agent"):
                await self._step.__aexit__(None, None, None)

    def __enter__(self) -> Self:
        if not self.run.take_turn(self.member):
            return self
        controller = self.run.controller.sync
        try:
            for run in self.run.unseated(self.member):
                with controller.agent(run.agent_id, parent=run.parent).step():
                    run.seated = True
            step = controller.agent(self.member.agent_id, parent=self.member.parent).step()
            self._step = step.__enter__()
        except Exception as error:  # noqa: BLE001 - as above
            self._refused(error)
        except BaseException:
            self.member.generating -= 1
            raise
        self._seated()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._around.close()
        self._ended(error)
        if isinstance(self._step, SyncStep):
            with self.run.faults.never_fatal("pause an agent"):
                self._step.__exit__(None, None, None)

    def _ended(self, error: BaseException | None) -> None:
        self.member.generating -= 1
        self.member.failed = isinstance(error, Exception) and not isinstance(error, GraphBubbleUp)

    def _refused(self, error: Exception) -> None:
        if not self.run.over:
            self.run.faults.failed("give an agent its seat", error)

    def _seated(self) -> None:
        if not self.run.came_late(self.member):
            self.run.seated = True
            if self.member.agent_id != self.run.agent_id:  # its request is its own, and not that of whom it works for
                agent = self.run.controller.agent(self.member.agent_id, parent=self.member.parent)
                self._around.enter_context(agent.inside())
        elif self.member.agent_id == self.run.agent_id:
            self.member.generating -= 1
            raise LifecycleError(f"the run of agent {self.member.agent_id!r} is over")
