"""An agent's generations, as context managers for asyncio and for threads."""

from __future__ import annotations

import asyncio
import weakref
from types import TracebackType
from typing import Self

from concur_agents.seats import Request, Seats
from concur_agents.usage import TokenUsage

__all__ = ["Step", "SyncStep", "again", "again_blocking"]


class _StepBase:
    def __init__(self, seats: Seats, agent_id: str, parent: str | None) -> None:
        self._seats = seats
        self._agent_id = agent_id
        self._parent = parent
        self._request: Request | None = None

    def observe(self, usage: object) -> None:
        """Take the reply's usage, of any client; optional, what it lacks stays unknown. Never raises.

        Of several in one step the last counts: streams report running counts.
        """
        if self._request is not None:
            self._seats.observe(self._agent_id, TokenUsage.of(usage), self._request)

    def end(self) -> None:
        """The generation ended, as at its context's exit; idempotent."""
        request, self._request = self._request, None
        if request is not None:
            _closed(self)
            self._seats.end_step(request)

    def _ask(self) -> Request:
        self._request = self._seats.request(self._agent_id, self._parent, step=True)
        return self._request


class Step(_StepBase):
    """One generation, for asyncio."""

    async def __aenter__(self) -> Self:
        await self._seats.wait(self._ask())
        _opened(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()


class SyncStep(_StepBase):
    """One generation, for threads."""

    def __enter__(self) -> Self:
        self._seats.wait_blocking(self._ask())
        _opened(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()


async def again(seats: Seats, agent_id: str, refused: str) -> bool:
    """Have the agent's steps begin anew, since its engine took no connection: they wait for a seat where it is then.

    False when they cannot: it takes none, or somebody is at it. Steps that could not are over, and may be ended again.
    """
    steps, guest = _to_move(seats, agent_id, refused)
    for step in steps:
        try:
            await seats.wait(step._ask())
        except Exception:  # noqa: BLE001 - Concur's own; the agent has an error of its engine's already
            step._request = None
            return False
        except BaseException:
            step._request = None
            raise
        _opened(step)
    if guest is not None:
        guest.end()
    return bool(steps)


def again_blocking(seats: Seats, agent_id: str, refused: str) -> bool:
    """The same for threads. False in an event loop's own, which whoever holds a seat may need in order to end."""
    if asyncio._get_running_loop() is not None:
        return False
    steps, guest = _to_move(seats, agent_id, refused)
    for step in steps:
        try:
            seats.wait_blocking(step._ask())
        except Exception:  # noqa: BLE001 - as above
            step._request = None
            return False
        except BaseException:
            step._request = None
            raise
        _opened(step)
    if guest is not None:
        guest.end()
    return bool(steps)


_open: weakref.WeakKeyDictionary[Seats, dict[int, weakref.ref[_StepBase]]] = weakref.WeakKeyDictionary()
"""Steps that run, of agents on one of several engines. Weakly: some are dropped without an end."""


def _opened(step: _StepBase) -> None:
    if step._seats.engine(step._agent_id) is not None:
        steps, key = _open.setdefault(step._seats, {}), id(step)
        steps[key] = weakref.ref(step, lambda _: steps.pop(key, None))


def _closed(step: _StepBase) -> None:
    steps = _open.get(step._seats)
    if steps is not None:
        steps.pop(id(step), None)


def _to_move(seats: Seats, agent_id: str, refused: str) -> tuple[list[_StepBase], _StepBase | None]:
    """Which steps are to begin anew, ended; and one that is only for waiting, where others have moved the agent.

    All of the agent's, since one may be inside another, and an agent that generates is not moved.
    """
    if seats.engine(agent_id) != refused:
        guest = _StepBase(seats, agent_id, None)
        return [guest], guest
    running = [step for ref in tuple(_open.get(seats, {}).values()) if (step := ref()) is not None]
    steps = [step for step in running if step._agent_id == agent_id]
    for step in steps:
        step.end()
    return steps, None
