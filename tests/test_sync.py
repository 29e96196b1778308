"""The same agents and primitives, for threads that block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from concur_agents import (
    AgentState,
    Controller,
    ControllerClosedError,
    LifecycleError,
    Outcome,
    SyncAgent,
    UnknownAgentError,
)


@pytest.fixture
def concur(make_controller: Callable[..., Controller]) -> Controller:
    """One seat, held by nobody."""
    return make_controller(1)


@pytest.fixture
def spawn() -> Any:
    """Runs a function in a thread; its result is a future."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


def one_step(agent: SyncAgent) -> None:
    with agent.step():
        pass


def wait_until_queued(concur: Controller, count: int = 1) -> None:
    """Blocked threads cannot tell that they are; the controller can."""
    for _ in range(1_000_000):
        if concur.stats().population.waiting == count:
            return
    raise AssertionError("nobody came to wait")


def test_agent_and_step_as_context_managers(concur: Controller) -> None:
    with concur.sync.agent("a") as agent:
        with agent.step() as step:
            step.observe({"prompt_tokens": 10})
            assert concur.agents()[0].state is AgentState.GENERATING
        assert concur.agents()[0].state is AgentState.IN_TOOL
    assert concur.agents() == ()
    assert concur.stats().prompt_tokens == 10


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError, Outcome.FAILED), (KeyboardInterrupt, Outcome.CANCELLED), (SystemExit, Outcome.CANCELLED)],
)
def test_error_in_a_step_ends_the_agent(concur: Controller, error: type[BaseException], outcome: Outcome) -> None:
    with pytest.raises(error), concur.sync.agent("a") as agent, agent.step():
        raise error
    assert concur.stats().finished == {outcome: 1}


def test_blocked_thread_goes_on_when_a_seat_is_free(concur: Controller, spawn: Callable[..., Future[None]]) -> None:
    concur.sync.admit("a")
    waiting = spawn(concur.sync.admit, "b")
    wait_until_queued(concur)
    assert not waiting.done()
    concur.finish("a")
    waiting.result(20)
    assert concur.agents()[0].state is AgentState.GENERATING


def test_blocked_thread_is_told_when_its_agent_is_finished(
    concur: Controller, spawn: Callable[..., Future[None]]
) -> None:
    concur.sync.admit("a")
    waiting = spawn(concur.sync.admit, "b")
    wait_until_queued(concur)
    concur.finish("b")
    with pytest.raises(UnknownAgentError):
        waiting.result(20)


def test_blocked_threads_are_told_when_the_controller_closes(
    concur: Controller, spawn: Callable[..., Future[None]]
) -> None:
    concur.sync.admit("a")
    waits = [spawn(one_step, concur.sync.agent(name)) for name in "bcd"]
    wait_until_queued(concur, 3)
    concur.close()
    for waiting in waits:
        with pytest.raises(ControllerClosedError):
            waiting.result(20)


def test_primitives_and_their_errors(concur: Controller) -> None:
    with pytest.raises(UnknownAgentError):
        concur.sync.resume("a")
    concur.sync.admit("a")
    concur.sync.admit("a")
    concur.pause("a")
    with pytest.raises(LifecycleError, match="resume it instead"):
        concur.sync.admit("a")
    concur.sync.resume("a")
    concur.sync.resume("a")
    assert concur.finish("a")


def test_nested_agents_share_a_seat_at_window_one(concur: Controller) -> None:
    with concur.sync.agent("parent") as parent:
        one_step(parent)
        with concur.sync.agent("child") as child:
            assert child.parent == "parent"
            one_step(child)
        one_step(parent)


def test_child_in_another_thread_shares_by_name(concur: Controller, spawn: Callable[..., Future[None]]) -> None:
    with concur.sync.agent("parent") as parent:
        one_step(parent)
        spawn(one_step, concur.sync.agent("child", parent="parent")).result(20)


def test_park_and_finish(concur: Controller) -> None:
    with concur.sync.agent("a") as agent:
        one_step(agent)
        assert agent.park()
        assert agent.finish(Outcome.FAILED)
    assert concur.stats().finished == {Outcome.FAILED: 1}


async def test_threads_and_event_loop_queue_in_one_line(concur: Controller, until: Any, spawn: Any) -> None:
    await concur.admit("holder")
    thread = spawn(concur.sync.admit, "thread")
    wait_until_queued(concur)
    task = asyncio.create_task(concur.admit("task"))
    await until(lambda: concur.stats().population.waiting == 2)
    concur.finish("holder")
    await asyncio.wrap_future(thread)
    assert not task.done()
    concur.finish("thread")
    await task
