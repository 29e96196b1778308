"""Waiting for seats: nobody is woken in vain, nobody is forgotten, and what was left is taken back."""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from concur_agents import (
    AgentState,
    AgentView,
    ControllerClosedError,
    LifecycleError,
    Outcome,
    TokenUsage,
    UnknownAgentError,
)
from concur_agents.events import EventStream
from concur_agents.limiter import Limiter, Request
from concur_agents.testing import ManualClock, check_lives

DONE = Outcome.COMPLETED


@pytest.fixture
def limiter() -> Limiter:
    return Limiter(1, ManualClock())


def run_now(limiter: Limiter, agent: str, **options: Any) -> Request:
    request = limiter.request(agent, None, **options)
    assert request.waiter is None
    return request


def queue(limiter: Limiter, agent: str, **options: Any) -> asyncio.Task[None]:
    """A task that waits for the agent's seat."""
    request = limiter.request(agent, None, **options)
    assert request.waiter is not None
    return asyncio.create_task(limiter.wait(request))


async def left(task: asyncio.Task[None]) -> BaseException | None:
    """How the wait ended."""
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    return outcome


def empty(limiter: Limiter) -> bool:
    """Nothing is left of anybody."""
    return not (limiter._lives or limiter._queued or limiter._entered or len(limiter._admission) or limiter.views())


async def test_a_seat_that_gets_free_wakes_the_next_in_line(limiter: Limiter) -> None:
    run_now(limiter, "a")
    second, third = queue(limiter, "b"), queue(limiter, "c")
    limiter.finish("a", DONE)
    await second
    assert not third.done()
    limiter.finish("b", DONE)
    await third


async def test_cancelled_while_queued_leaves_no_trace(limiter: Limiter) -> None:
    run_now(limiter, "a")
    waiting = queue(limiter, "b")
    await asyncio.sleep(0)
    waiting.cancel()
    assert isinstance(await left(waiting), asyncio.CancelledError)
    assert limiter.state("b") is None
    limiter.finish("a", DONE)
    assert empty(limiter)


async def test_grant_that_races_with_a_cancel_goes_to_the_next(limiter: Limiter) -> None:
    run_now(limiter, "a")
    leaving, following = queue(limiter, "b"), queue(limiter, "c")
    await asyncio.sleep(0)
    limiter.finish("a", DONE)
    leaving.cancel()
    assert isinstance(await left(leaving), asyncio.CancelledError)
    await following
    assert limiter.state("b") is None


async def test_parked_agent_that_gives_up_is_parked_again(limiter: Limiter) -> None:
    run_now(limiter, "a")
    limiter.park("a")
    run_now(limiter, "b")
    waiting = queue(limiter, "a")
    await asyncio.sleep(0)
    limiter.finish("b", DONE)
    waiting.cancel()
    await left(waiting)
    assert limiter.state("a") is AgentState.PARKED
    assert limiter.measure()[0].seated == 0


async def test_grant_nobody_came_for_is_no_life(limiter: Limiter) -> None:
    """Neither an event nor an outcome nor a step."""
    limiter.streams.append(stream := EventStream(100, limiter.streams.remove))
    run_now(limiter, "a")
    waiting = queue(limiter, "b")
    await asyncio.sleep(0)
    limiter.finish("a", DONE)
    waiting.cancel()
    await left(waiting)
    assert limiter.snapshot()[2] == {DONE: 1}
    stream.close()
    assert set(check_lives(stream)) == {"a"}


@pytest.mark.parametrize("step", [True, False])
async def test_one_of_two_requests_of_an_agent_may_leave_at_any_time(limiter: Limiter, *, step: bool) -> None:
    run_now(limiter, "a")
    early, racing, staying = (queue(limiter, "b", step=step) for _ in range(3))
    await asyncio.sleep(0)
    early.cancel()
    await left(early)
    limiter.finish("a", DONE)
    racing.cancel()
    await left(racing)
    await staying
    assert limiter.state("b") is AgentState.GENERATING


async def test_request_that_leaves_after_its_generation_ended_takes_nothing_back(limiter: Limiter) -> None:
    run_now(limiter, "a")
    racing = queue(limiter, "b")
    await asyncio.sleep(0)
    limiter.finish("a", DONE)
    racing.cancel()
    limiter.pause("b")  # by somebody else, before the one that leaves noticed
    run_now(limiter, "b")
    await left(racing)
    assert limiter.state("b") is AgentState.GENERATING


def test_step_that_leaves_last_ends_the_generation_the_others_ran(limiter: Limiter) -> None:
    run_now(limiter, "a")
    leaving, running = (limiter.request("b", None, step=True) for _ in range(2))
    limiter.finish("a", DONE)
    limiter.wait_blocking(running)
    limiter.end_step(running)
    assert limiter.state("b") is AgentState.GENERATING  # the other may still begin
    limiter.withdraw(leaving)
    assert limiter.state("b") is AgentState.IN_TOOL


async def test_finish_while_queued_tells_whoever_waits(limiter: Limiter) -> None:
    run_now(limiter, "a")
    waiting = queue(limiter, "b")
    limiter.finish("b", DONE)
    error = await left(waiting)
    assert isinstance(error, UnknownAgentError)
    assert "'b' was finished while it waited" in str(error)
    limiter.finish("a", DONE)
    assert empty(limiter)


async def test_finish_between_grant_and_taking_it_tells_too(limiter: Limiter) -> None:
    run_now(limiter, "a")
    waiting = queue(limiter, "b")
    await asyncio.sleep(0)
    limiter.finish("a", DONE)
    limiter.finish("b", DONE)
    assert isinstance(await left(waiting), UnknownAgentError)
    assert empty(limiter)


@pytest.mark.parametrize("step", [True, False])
async def test_id_used_again_at_once_is_not_harmed_by_its_former_owner(limiter: Limiter, *, step: bool) -> None:
    run_now(limiter, "a")
    former = queue(limiter, "b", step=step)
    await asyncio.sleep(0)
    limiter.finish("b", DONE)
    limiter.finish("a", DONE)
    run_now(limiter, "b", step=step)
    assert isinstance(await left(former), UnknownAgentError)
    assert limiter.state("b") is AgentState.GENERATING


def test_step_of_a_finished_agent_neither_pauses_nor_observes_the_next_of_its_name(limiter: Limiter) -> None:
    former = run_now(limiter, "a", step=True)
    limiter.finish("a", DONE)
    run_now(limiter, "a", step=True)
    limiter.observe("a", TokenUsage(prompt=10), former)
    limiter.end_step(former)
    assert limiter.state("a") is AgentState.GENERATING
    limiter.pause("a")
    assert limiter.views()[0].context_tokens is None


async def test_close_tells_everyone_who_waits_and_ends_everyone(limiter: Limiter) -> None:
    run_now(limiter, "a")
    waiting = [queue(limiter, name) for name in "bcd"]
    limiter.close()
    assert all([isinstance(await left(each), ControllerClosedError) for each in waiting])
    assert empty(limiter)
    assert limiter.snapshot()[2] == {Outcome.CANCELLED: 4}


async def test_close_between_grant_and_taking_it_tells_too(limiter: Limiter) -> None:
    run_now(limiter, "a")
    waiting = queue(limiter, "b")
    await asyncio.sleep(0)
    limiter.finish("a", DONE)
    limiter.close()
    assert isinstance(await left(waiting), ControllerClosedError)


def test_closed_admits_nobody(limiter: Limiter) -> None:
    limiter.close()
    for ask in (lambda: limiter.request("a", None), lambda: limiter.enter("a")):
        with pytest.raises(ControllerClosedError, match="'a' asks for a seat, but the controller is closed"):
            ask()


def test_interrupt_of_a_blocking_wait_takes_the_request_back(limiter: Limiter) -> None:
    class Interrupted:
        def result(self) -> None:
            raise KeyboardInterrupt

    run_now(limiter, "a")
    request: Any = limiter.request("b", None)
    request.waiter = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        limiter.wait_blocking(request)
    assert limiter.state("b") is None


def test_coroutine_that_is_dropped_while_queued_takes_its_request_back(limiter: Limiter) -> None:
    run_now(limiter, "a")
    loop = asyncio.new_event_loop()
    waiting = limiter.wait(limiter.request("b", None))

    async def first_step() -> None:
        waiting.send(None)

    loop.run_until_complete(first_step())
    loop.close()
    waiting.close()
    assert limiter.state("b") is None


def test_waiter_of_a_closed_loop_is_passed_over(limiter: Limiter) -> None:
    run_now(limiter, "a")
    loop = asyncio.new_event_loop()
    stranded = [loop.create_task(limiter.wait(limiter.request(f"b{n}", None))) for n in range(500)]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    alive = limiter.request("c", None)
    limiter.finish("a", DONE)
    assert alive.waiter is not None
    assert alive.waiter.done()
    assert [view.agent_id for view in limiter.views()] == ["c"]
    for task in stranded:
        task._log_destroy_pending = False  # type: ignore[attr-defined]


def lose_an_agent(limiter: Limiter) -> None:
    """Leave a coroutine inside an agent's context that only the garbage collector will ever close."""

    async def live() -> None:
        limiter.enter("lost")
        try:
            run_now(limiter, "lost", step=True)
            await asyncio.get_running_loop().create_future()
        finally:
            limiter.leave("lost", Outcome.CANCELLED)

    loop = asyncio.new_event_loop()
    task = loop.create_task(live())
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_garbage_collected_inside_the_lock_deadlocks_nothing() -> None:
    collect: Callable[[], object] = list
    limiter = Limiter(2, lambda: (collect(), 0.0)[1])
    limiter.streams.append(EventStream(100, limiter.streams.remove))  # an event reads the clock under the lock
    gc.collect()
    gc.disable()
    try:
        lose_an_agent(limiter)
        assert limiter.state("lost") is AgentState.GENERATING
        collect = gc.collect
        run_now(limiter, "a")
    finally:
        gc.enable()
    assert [view.agent_id for view in limiter.views()] == ["a"]


def test_agents_context_opens_once_at_a_time(limiter: Limiter) -> None:
    limiter.enter("a")
    with pytest.raises(LifecycleError, match="'a' runs already: two agents need two ids"):
        limiter.enter("a")
    limiter.leave("a", DONE)
    limiter.enter("a")


def test_parallel_steps_pause_at_the_last_ones_end(limiter: Limiter) -> None:
    one, two = run_now(limiter, "a", step=True), run_now(limiter, "a", step=True)
    limiter.end_step(one)
    assert limiter.state("a") is AgentState.GENERATING
    limiter.end_step(two)
    assert limiter.state("a") is AgentState.IN_TOOL


async def test_step_that_left_its_wait_is_not_an_open_one(limiter: Limiter) -> None:
    run_now(limiter, "a")
    leaving, request = queue(limiter, "b", step=True), limiter.request("b", None, step=True)
    staying = asyncio.create_task(limiter.wait(request))
    await asyncio.sleep(0)
    leaving.cancel()
    limiter.finish("a", DONE)
    await left(leaving)
    await staying
    limiter.end_step(request)
    assert limiter.state("b") is AgentState.IN_TOOL


def test_usage_counts_only_while_the_agent_generates(limiter: Limiter) -> None:
    limiter.observe("a", TokenUsage(prompt=1))
    run_now(limiter, "a")
    limiter.observe("a", TokenUsage(prompt=10))
    limiter.pause("a")
    limiter.observe("a", TokenUsage(prompt=100))
    limiter.finish("a", DONE)
    assert limiter.snapshot()[1].prompt == 10


def test_usage_of_sub_agents_counts_when_their_parents_end_ends_them(limiter: Limiter) -> None:
    run_now(limiter, "a")
    limiter.request("child", "a")
    limiter.observe("child", TokenUsage(prompt=10))
    limiter.finish("a", DONE)
    assert limiter.snapshot()[1].prompt == 10


def test_time_in_the_queue_is_counted_over_all_waits() -> None:
    limiter = Limiter(1, clock := ManualClock())
    run_now(limiter, "a")
    limiter.request("b", None)
    clock.advance(2)
    assert limiter.views()[1].waited_s == 2
    limiter.park("a")
    limiter.request("a", None)
    clock.advance(3)
    limiter.finish("b", DONE)
    clock.advance(4)
    assert [(view.agent_id, view.waited_s) for view in limiter.views()] == [("a", 3)]


def test_boundary_of_a_sub_agent_whose_family_loses_its_seat_is_told() -> None:
    limiter = Limiter(2, ManualClock())
    limiter.streams.append(stream := EventStream(100, limiter.streams.remove))
    run_now(limiter, "older")
    run_now(limiter, "parent")
    limiter.pause("parent")
    limiter.request("child", "parent")
    limiter.set_window(1, new_epoch=False)
    limiter.pause("child")
    limiter.finish("older", DONE)
    limiter.request("child", "parent")
    limiter.finish("parent", DONE)
    stream.close()
    assert [str(kind) for kind in check_lives(stream)["child"]] == ["admitted", "parked", "resumed", "finished"]


def test_agent_that_finishes_above_the_window_is_not_told_as_parked_after_its_end() -> None:
    limiter = Limiter(2, ManualClock())
    limiter.streams.append(stream := EventStream(100, limiter.streams.remove))
    run_now(limiter, "older")
    for _ in range(2):
        run_now(limiter, "a")
        limiter.pause("a")
    run_now(limiter, "a")
    limiter.set_window(1, new_epoch=False)
    for agent in ("a", "older"):
        limiter.finish(agent, DONE)
    stream.close()
    check_lives(stream)


def test_a_step_that_ends_weighs_its_agent_before_it_is_at_its_boundary() -> None:
    limiter = Limiter(math.inf, ManualClock())
    limiter.set_window(math.inf, tokens=100, new_epoch=False)
    for agent in "ab":
        limiter.request(agent, None)
        limiter.observe(agent, TokenUsage(prompt=60, cached=0, output=0))
    for agent in "ab":
        limiter.pause(agent)
    assert {view.agent_id: view.state for view in limiter.views()} == {
        "a": AgentState.IN_TOOL,
        "b": AgentState.PARKED,
    }


def one_step(limiter: Limiter, agent: str, prompt: int, cached: int = 0) -> None:
    run_now(limiter, agent)
    limiter.observe(agent, TokenUsage(prompt=prompt, cached=cached, output=0))
    limiter.pause(agent)


def test_a_step_that_begins_weighs_what_it_is_going_to_add() -> None:
    limiter = Limiter(math.inf, ManualClock())
    one_step(limiter, "a", 100)
    one_step(limiter, "a", 120, 100)
    assert limiter.measure()[0].held == 120
    run_now(limiter, "a")
    assert limiter.measure()[0].held == 140
    limiter.pause("a")  # without usage: what it held before
    assert limiter.measure()[0].held == 120


def test_what_a_law_has_seen_is_counted_once_and_what_came_meanwhile_next() -> None:
    limiter = Limiter(math.inf, clock := ManualClock())
    one_step(limiter, "a", 100)
    clock.advance(2)
    first = limiter.measure()[0]
    assert (first.computed, first.elapsed_s) == (100, None)
    one_step(limiter, "a", 130, 100)
    clock.advance(3)
    limiter.reset()
    again = limiter.measure()[0]
    assert (again.computed, again.elapsed_s, again.reuse) == (30, 3, 1.0)


def test_what_no_law_decided_on_is_shown_again() -> None:
    limiter = Limiter(math.inf, clock := ManualClock())
    limiter.measure()
    limiter.reset()
    for elapsed, computed in ((4, 100), (8, 200)):
        one_step(limiter, f"a{elapsed}", 100)
        clock.advance(4)
        population = limiter.measure()[0]
        assert (population.computed, population.elapsed_s) == (computed, elapsed)


def test_room_is_kept_for_what_the_seated_grow_by_within_the_look_ahead() -> None:
    limiter = Limiter(math.inf, ManualClock())
    one_step(limiter, "a", 100)
    limiter.set_window(math.inf, tokens=299, ahead=50.0, new_epoch=False)
    assert limiter.request("b", None).waiter is not None  # 100 and 100, and 50 for each
    limiter.set_window(math.inf, tokens=300, ahead=50.0, new_epoch=False)
    assert limiter.state("b") is AgentState.GENERATING


def test_who_is_in_its_tool_for_longer_than_patience_loses_its_seat_to_one_that_waits() -> None:
    limiter = Limiter(2, clock := ManualClock())
    limiter.streams.append(stream := EventStream(100, limiter.streams.remove))
    for agent in "ab":
        run_now(limiter, agent)
    limiter.pause("b")
    clock.advance(5)
    limiter.pause("a")
    clock.advance(5)
    waiting = limiter.request("c", None)
    assert waiting.waiter is not None
    limiter.set_window(2, patience_s=10.0, new_epoch=False)
    assert not waiting.waiter.done()
    clock.advance(1)
    limiter.set_window(2, patience_s=10.0, new_epoch=False)
    assert waiting.waiter.done()
    assert {view.agent_id: str(view.state) for view in limiter.views()} == {
        "a": "in_tool",
        "b": "parked",
        "c": "generating",
    }
    limiter.close()
    assert [str(kind) for kind in check_lives(stream)["b"]] == ["admitted", "paused", "parked", "finished"]


def test_an_agent_that_finishes_in_its_tool_has_ended_no_step() -> None:
    limiter = Limiter(math.inf, clock := ManualClock())
    one_step(limiter, "a", 100)
    clock.advance(10)
    one_step(limiter, "a", 130, 100)
    limiter.finish("a", DONE)
    assert limiter.measure()[0].cycle_s == 10


def test_agents_without_usage_weigh_nothing() -> None:
    limiter = Limiter(math.inf, ManualClock())
    limiter.set_window(math.inf, tokens=1, new_epoch=False)
    for agent in "abc":
        limiter.request(agent, None)
        limiter.pause(agent)
    assert {view.state for view in limiter.views()} == {AgentState.IN_TOOL}


def view(agent_id: str, state: AgentState, **more: Any) -> AgentView:
    usual = {"agent_id": agent_id, "parent": None, "steps": 3, "context_tokens": 500, "waited_s": 2.0}
    return AgentView(state=state, **usual | more)


def test_restored_agents_are_as_they_were_and_no_newcomers_to_the_meter() -> None:
    clock = ManualClock(100.0)
    limiter = Limiter(1, clock)
    limiter.restore(
        [(view("young", AgentState.GENERATING), 5.0), (view("old", AgentState.GENERATING, context_tokens=700), 50.0)]
    )
    limiter.restore([(view("tool", AgentState.IN_TOOL), 1.0)])
    population, over = limiter.measure()
    assert (population.seated, over) == (2, 1), "above the window, until the youngest is at its boundary"
    assert limiter.view("young") == view("young", AgentState.GENERATING)
    with pytest.raises(LifecycleError, match="runs already"):
        limiter.enter("young")
    limiter.observe("young", TokenUsage(prompt=510, cached=500, output=10))
    limiter.pause("young")
    population, _ = limiter.measure()
    assert (population.first_context, population.shared_prefix) == (None, 0.0), "it was no first step"
    assert limiter.state("young") is AgentState.PARKED
    limiter.restore([(view("old", AgentState.PARKED, steps=4), 50.0)])
    assert limiter.state("old") is AgentState.IN_TOOL, "its worker says that it is not generating"
    for agent in ("young", "old", "tool"):
        limiter.leave(agent, Outcome.COMPLETED)
    assert limiter.views() == ()


@pytest.mark.parametrize("here", [AgentState.GENERATING, AgentState.IN_TOOL])
@pytest.mark.parametrize("there", [AgentState.GENERATING, AgentState.IN_TOOL])
def test_who_was_known_and_went_on_without_control_is_as_it_says_and_held_once(
    here: AgentState, there: AgentState
) -> None:
    limiter = Limiter(math.inf, ManualClock(100.0))
    limiter.request("a", None)
    limiter.observe("a", TokenUsage(prompt=90, cached=0, output=10))
    if here is AgentState.IN_TOOL:
        limiter.pause("a")
    gone_on = view("a", there, steps=6, context_tokens=800)
    for _ in range(2):
        limiter.restore([(gone_on, 10.0)])
        assert limiter.view("a") == replace(gone_on, waited_s=0.0)
    limiter.restore([(replace(gone_on, steps=4, context_tokens=300), 10.0)])
    after = limiter.view("a")
    assert after is not None, "it is known"
    assert (after.steps, after.context_tokens) == (6, 800), "late news"
    assert limiter.measure()[0].mean_context == 800
    limiter.finish("a", DONE)
    assert limiter.measure()[0].mean_context is None


def test_who_never_tells_its_usage_grows_as_the_others_do() -> None:
    limiter = Limiter(math.inf, ManualClock())
    contexts = {"told": 0, "silent": 0}
    for number in range(5):
        for agent in contexts:
            limiter.request(agent, None)
            contexts[agent] += 100
            if agent == "told":
                limiter.observe(agent, TokenUsage(prompt=contexts[agent] - 10, cached=0, output=10))
            limiter.pause(agent)
        assert limiter.measure()[0].held == sum(contexts.values()), number
    limiter.finish("told", DONE)
    for _ in range(3):
        limiter.request("silent", None)
        limiter.pause("silent")
    assert limiter.measure()[0].held == 500, "no longer than anybody's ever was"
