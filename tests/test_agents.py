"""Agents and steps as a user holds them: every way out ends them, and sub-agents share a seat."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from concur_agents import (
    Agent,
    AgentState,
    Controller,
    ControllerClosedError,
    LifecycleError,
    Outcome,
    UnknownAgentError,
)
from concur_agents.agents import outcome_of
from concur_agents.testing import ManualClock


def state(concur: Controller, agent: str) -> AgentState | None:
    return {view.agent_id: view.state for view in concur.agents()}.get(agent)


async def one_step(agent: Agent) -> None:
    async with agent.step():
        pass


@pytest.fixture
def concur(make_controller: Callable[..., Controller]) -> Controller:
    """One seat."""
    return make_controller(1)


async def test_step_generates_inside_and_keeps_its_seat_after(concur: Controller) -> None:
    async with concur.agent("a") as agent:
        assert state(concur, "a") is None  # nothing asked for yet
        async with agent.step():
            assert state(concur, "a") is AgentState.GENERATING
        assert state(concur, "a") is AgentState.IN_TOOL
    assert state(concur, "a") is None


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.COMPLETED),
        (ValueError(), Outcome.FAILED),
        (TimeoutError(), Outcome.FAILED),
        (asyncio.CancelledError(), Outcome.CANCELLED),
        (KeyboardInterrupt(), Outcome.CANCELLED),
        (GeneratorExit(), Outcome.CANCELLED),
        (SystemExit(), Outcome.CANCELLED),
    ],
)
def test_outcome_by_what_left_the_context(error: BaseException | None, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


async def test_who_gives_up_waiting_inside_its_context_keeps_its_age(concur: Controller, until: Any) -> None:
    await concur.admit("holder")
    async with concur.agent("a") as agent:
        given_up = asyncio.create_task(one_step(agent))
        await until(lambda: concur.stats().population.waiting == 1)
        younger = asyncio.create_task(concur.admit("b"))
        await until(lambda: concur.stats().population.waiting == 2)
        given_up.cancel()
        await asyncio.wait([given_up])
        again = asyncio.create_task(one_step(agent))
        await until(lambda: concur.stats().population.waiting == 2)
        concur.finish("holder")
        await again
        assert not younger.done()
    await younger


def test_agents_idle_for_long_are_parked_while_others_wait(make_controller: Callable[..., Controller]) -> None:
    clock = ManualClock()
    concur = make_controller(2, clock=clock)
    for agent in "ab":
        concur.sync.admit(agent)
        concur.pause(agent)
        clock.advance(5)
    concur.park_idle(0)
    assert [state(concur, agent) for agent in "ab"] == [AgentState.IN_TOOL] * 2  # nobody waits
    waiting = threading.Thread(target=concur.sync.admit, args=("c",))
    waiting.start()
    while concur.stats().population.waiting == 0:
        pass
    concur.park_idle(20)
    assert [state(concur, agent) for agent in "ab"] == [AgentState.IN_TOOL] * 2  # not for so long
    concur.park_idle(5)
    waiting.join()
    assert [state(concur, agent) for agent in "ab"] == [AgentState.PARKED, AgentState.IN_TOOL]


def test_one_agents_view_is_the_one_of_the_list(concur: Controller) -> None:
    assert concur.view("a") is None
    concur.sync.admit("a")
    assert concur.view("a") == concur.agents()[0]


@pytest.mark.parametrize("place", ["generating", "in the tool"])
@pytest.mark.parametrize(
    ("error", "outcome"), [(ValueError("x"), Outcome.FAILED), (asyncio.CancelledError(), Outcome.CANCELLED)]
)
async def test_error_anywhere_ends_the_agent_and_goes_on(
    concur: Controller, place: str, error: BaseException, outcome: Outcome
) -> None:
    async def live() -> None:
        async with concur.agent("a") as agent:
            async with agent.step():
                if place == "generating":
                    raise error
            raise error

    with pytest.raises(type(error)):
        await live()
    assert concur.agents() == ()
    assert concur.stats().finished == {outcome: 1}
    assert concur.stats().population.seated == 0


async def test_error_in_a_step_that_is_handled_keeps_the_agent_and_its_seat(concur: Controller) -> None:
    async with concur.agent("a") as agent:
        with pytest.raises(ValueError):
            async with agent.step():
                raise ValueError
        assert state(concur, "a") is AgentState.IN_TOOL
        await one_step(agent)
    assert concur.stats().finished == {Outcome.COMPLETED: 1}


async def test_agent_without_a_step_was_never_here(concur: Controller) -> None:
    async with concur.agent("a"):
        pass
    assert concur.stats().finished == {}


async def test_cancelled_while_queued_leaves_the_queue(concur: Controller, until: Any) -> None:
    async with concur.agent("holder") as holder, holder.step():

        async def live() -> None:
            async with concur.agent("late", parent=None) as late:
                await one_step(late)

        task = asyncio.create_task(live())
        await until(lambda: state(concur, "late") is AgentState.WAITING)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [view.agent_id for view in concur.agents()] == ["holder"]


async def test_wait_that_times_out_leaves_the_queue_and_may_be_tried_again(concur: Controller) -> None:
    async with concur.agent("late", parent=None) as late:
        async with concur.agent("holder", parent=None) as holder:
            await one_step(holder)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await one_step(late)
            assert concur.stats().population.waiting == 0
        await one_step(late)
        assert state(concur, "late") is AgentState.IN_TOOL


async def test_same_id_twice_at_once_is_refused_and_harms_nobody(concur: Controller) -> None:
    async with concur.agent("a") as agent:
        await one_step(agent)
        with pytest.raises(LifecycleError, match="two agents need two ids"):
            async with concur.agent("a"):
                pass
        assert state(concur, "a") is AgentState.IN_TOOL


async def test_id_may_be_used_again_afterwards(concur: Controller) -> None:
    for _ in range(3):
        async with concur.agent("a") as agent:
            await one_step(agent)
    assert concur.stats().finished == {Outcome.COMPLETED: 3}


def test_made_up_ids_differ(concur: Controller) -> None:
    assert len({concur.agent().agent_id for _ in range(100)}) == 100


@pytest.mark.parametrize("agent_id", ["x" * 1_000_000, "\n\0", "🦆", " ", "a/../b"])
async def test_odd_ids_are_ids(concur: Controller, agent_id: str) -> None:
    async with concur.agent(agent_id) as agent:
        await one_step(agent)
        assert concur.agents()[0].agent_id == agent_id


@pytest.mark.parametrize(
    ("agent_id", "value"),
    [
        ("task-17_a.b/c:d", "task-17_a.b/c:d"),
        ("a b", "a%20b"),
        ("100%", "100%25"),
        ("x\r\nX-Evil: 1", "x%0D%0AX-Evil:%201"),
        ("é", "%C3%A9"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_headers_carry_the_id_as_http_allows_it(concur: Controller, agent_id: str, value: str) -> None:
    assert concur.agent(agent_id).headers == {"X-Session-ID": value}


async def test_inside_makes_an_agent_the_parent_of_what_is_made_there_and_neither_begins_nor_ends_it(
    concur: Controller,
) -> None:
    agent = concur.agent("a")
    await one_step(agent)
    with agent.inside():
        assert concur.agent().parent == "a"
    assert concur.agent().parent is None
    assert state(concur, "a") is AgentState.IN_TOOL


async def test_finish_inside_the_context_wins_over_its_exit(concur: Controller) -> None:
    async with concur.agent("a") as agent:
        await one_step(agent)
        assert agent.finish(Outcome.FAILED)
        assert not agent.finish()
    assert concur.stats().finished == {Outcome.FAILED: 1}


async def test_finish_from_outside_while_stepping_lets_the_step_end_in_peace(concur: Controller) -> None:
    async with concur.agent("a") as agent, agent.step() as step:
        concur.finish("a")
        step.observe({"prompt_tokens": 1})
    assert concur.agents() == ()


async def test_finish_while_waiting_raises_in_the_waiter(concur: Controller, until: Any) -> None:
    await concur.admit("holder")
    late = concur.agent("late")
    task = asyncio.create_task(one_step(late))
    await until(lambda: state(concur, "late") is AgentState.WAITING)
    concur.finish("late")
    with pytest.raises(UnknownAgentError):
        await task


async def test_step_works_without_the_agents_context(concur: Controller) -> None:
    agent = concur.agent("a")
    await one_step(agent)
    assert state(concur, "a") is AgentState.IN_TOOL
    agent.finish()
    assert concur.agents() == ()


async def test_parallel_steps_of_one_agent_pause_at_the_end_of_the_last(concur: Controller) -> None:
    async with concur.agent("a") as agent:
        async with agent.step():
            async with agent.step():
                pass
            assert state(concur, "a") is AgentState.GENERATING
        assert state(concur, "a") is AgentState.IN_TOOL


async def test_park_gives_the_seat_to_others_and_the_next_step_takes_one_again(concur: Controller, until: Any) -> None:
    person, other = concur.agent("person"), concur.agent("other")
    await one_step(person)
    assert person.park()
    assert not person.park()
    await one_step(other)
    back = asyncio.create_task(one_step(person))
    await until(lambda: state(concur, "person") is AgentState.RETURNING)
    other.finish()
    await back


def test_park_of_an_agent_that_has_not_begun_does_nothing(concur: Controller) -> None:
    assert not concur.agent("a").park()


# --- families ---


async def test_nested_agents_share_a_seat_at_window_one(concur: Controller) -> None:
    async with concur.agent("parent") as parent:
        await one_step(parent)
        async with concur.agent("child") as child:
            await one_step(child)
            async with concur.agent("grandchild") as grandchild:
                await one_step(grandchild)
                assert concur.stats().population.seated == 1
        await one_step(parent)
    assert concur.stats().finished == {Outcome.COMPLETED: 3}


async def test_parallel_children_share_the_parents_seat_while_it_generates(concur: Controller) -> None:
    async def child() -> None:
        async with concur.agent() as agent:
            await one_step(agent)

    async with concur.agent("parent") as parent, parent.step():
        await asyncio.gather(*(child() for _ in range(20)))


async def test_parent_none_means_a_seat_of_its_own(make_controller: Any) -> None:
    concur = make_controller(2)
    async with concur.agent("a") as agent:
        await one_step(agent)
        async with concur.agent("b", parent=None) as other:
            assert other.parent is None
            await one_step(other)
            assert concur.stats().population.seated == 2


async def test_parent_by_name(concur: Controller) -> None:
    await concur.admit("parent")
    async with concur.agent("child", parent="parent") as child:
        await one_step(child)
        assert {view.agent_id: view.parent for view in concur.agents()} == {"parent": None, "child": "parent"}


@pytest.mark.parametrize("parent", ["nobody", "a"])
async def test_unknown_parent_and_being_ones_own_are_no_parent(concur: Controller, parent: str) -> None:
    async with concur.agent("a", parent=parent) as agent:
        await one_step(agent)
        assert concur.agents()[0].parent is None


async def test_parents_in_a_circle_end_as_usual(concur: Controller) -> None:
    async with concur.agent("a", parent="b") as a, concur.agent("b", parent="a") as b:
        await one_step(a)
        await one_step(b)
    assert concur.agents() == ()


async def test_parent_is_the_agent_of_this_controller_only(make_controller: Any) -> None:
    one, two = make_controller(), make_controller()
    async with one.agent("a"):
        assert two.agent("b").parent is None
        assert one.agent("b").parent == "a"


async def test_context_is_restored_after_an_agent(concur: Controller) -> None:
    async with concur.agent("a"):
        async with concur.agent("b"):
            assert concur.agent().parent == "b"
        assert concur.agent().parent == "a"
    assert concur.agent().parent is None


async def test_parents_end_ends_its_children_with_its_outcome(concur: Controller) -> None:
    async def live() -> None:
        async with concur.agent("parent") as parent:
            await one_step(parent)
            await one_step(concur.agent("child"))
            raise ValueError

    with pytest.raises(ValueError):
        await live()
    assert concur.agents() == ()
    assert concur.stats().finished == {Outcome.FAILED: 2}


async def test_agent_of_an_abandoned_async_generator_ends_when_that_is_closed(concur: Controller) -> None:
    async def stream() -> Any:
        async with concur.agent("a") as agent, agent.step():
            yield 1
            yield 2

    chunks = stream()
    assert await anext(chunks) == 1
    await asyncio.create_task(chunks.aclose())  # closed in another context than it was opened in
    assert concur.agents() == ()
    assert concur.stats().finished == {Outcome.CANCELLED: 1}


async def test_context_of_a_closed_controller_cannot_be_opened(concur: Controller) -> None:
    concur.close()
    with pytest.raises(ControllerClosedError):
        async with concur.agent("a"):
            pass


async def test_agents_that_run_when_the_controller_closes_end_in_peace(concur: Controller) -> None:
    async with concur.agent("a") as agent, agent.step() as step:
        concur.close()
        step.observe({"prompt_tokens": 1})
    assert concur.stats().finished == {Outcome.CANCELLED: 1}
    with pytest.raises(ControllerClosedError):
        await one_step(agent)


async def test_inside_may_be_left_in_another_context(concur: Controller) -> None:
    async def stream() -> Any:
        with concur.agent("a").inside():
            yield 1

    chunks = stream()
    await anext(chunks)
    await asyncio.create_task(chunks.aclose())
