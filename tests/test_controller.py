"""The running thing: primitives, starting and closing, snapshots (``test_control_loop.py`` has its ticks)."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

from concur_agents import (
    AgentState,
    ConcurLaw,
    Controller,
    ControllerClosedError,
    Decision,
    EngineSample,
    FixedWindow,
    LifecycleError,
    Outcome,
    Population,
    TokenBudget,
    UnknownAgentError,
)
from concur_agents.testing import ManualClock, ScriptedReader


def reading(number: int, usage: float = 0.9) -> EngineSample:
    """A reading unlike those of other numbers: everything misses."""
    return EngineSample(pinned_usage=usage, query_tokens_total=100 * number, hit_tokens_total=0)


def state(concur: Controller, agent: str) -> AgentState | None:
    return {view.agent_id: view.state for view in concur.agents()}.get(agent)


@dataclass(frozen=True)
class Broken:
    """A law that raises; sees ``then`` once it is mended."""

    initial: float = 2.0

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        raise RuntimeError("law is broken")


@pytest.fixture
def concur(make_controller: Callable[..., Controller]) -> Controller:
    """One seat."""
    return make_controller(1)


# --- the primitives ---


async def test_the_four_primitives(concur: Controller) -> None:
    await concur.admit("a")
    assert state(concur, "a") is AgentState.GENERATING
    assert concur.pause("a")
    assert state(concur, "a") is AgentState.IN_TOOL
    await concur.resume("a")
    assert state(concur, "a") is AgentState.GENERATING
    assert concur.finish("a", Outcome.COMPLETED)
    assert state(concur, "a") is None


async def test_each_primitive_is_idempotent(concur: Controller) -> None:
    await concur.admit("a")
    await concur.admit("a")
    await concur.resume("a")
    assert concur.pause("a")
    assert not concur.pause("a")
    assert concur.park("a")
    assert not concur.park("a")
    assert concur.finish("a")
    assert not concur.finish("a")
    assert concur.stats().finished == {Outcome.COMPLETED: 1}


async def test_admit_of_an_agent_that_is_paused_or_parked_says_to_resume_it(concur: Controller) -> None:
    await concur.admit("a")
    concur.pause("a")
    with pytest.raises(LifecycleError, match="'a' was admitted before and is in_tool: resume it instead"):
        await concur.admit("a")
    concur.park("a")
    with pytest.raises(LifecycleError, match="is parked: resume it instead"):
        await concur.admit("a")


async def test_resume_of_an_unknown_agent_says_to_admit_it(concur: Controller) -> None:
    with pytest.raises(UnknownAgentError, match="'a' was never admitted, or has finished: admit it first"):
        await concur.resume("a")


@pytest.mark.parametrize("primitive", ["pause", "park"])
def test_boundary_of_an_unknown_agent_is_an_error_that_names_it(concur: Controller, primitive: str) -> None:
    with pytest.raises(UnknownAgentError, match="'a' was never admitted, or has finished"):
        getattr(concur, primitive)("a")


def test_finish_of_an_unknown_agent_is_no_error_but_of_an_unknown_outcome_is(concur: Controller) -> None:
    assert not concur.finish("a")
    with pytest.raises(ValueError, match="splendid"):
        concur.finish("a", "splendid")  # type: ignore[arg-type]


async def test_outcome_may_be_its_plain_name(concur: Controller) -> None:
    await concur.admit("a")
    concur.finish("a", "failed")  # type: ignore[arg-type]
    assert concur.stats().finished == {Outcome.FAILED: 1}


async def test_admit_again_while_queued_waits_along(concur: Controller, until: Any) -> None:
    await concur.admit("a")
    waits = [asyncio.create_task(concur.admit("b")) for _ in range(2)]
    await until(lambda: state(concur, "b") is AgentState.WAITING)
    assert concur.stats().population.waiting == 1
    concur.finish("a")
    await asyncio.gather(*waits)


async def test_resume_while_returning_waits_along_but_admit_is_refused(concur: Controller, until: Any) -> None:
    await concur.admit("a")
    concur.park("a")
    await concur.admit("b")
    waits = [asyncio.create_task(concur.resume("a")) for _ in range(2)]
    await until(lambda: state(concur, "a") is AgentState.RETURNING)
    with pytest.raises(LifecycleError, match="is returning: resume it instead"):
        await concur.admit("a")
    concur.finish("b")
    await asyncio.gather(*waits)


async def test_child_by_primitive_shares_its_parents_seat(concur: Controller) -> None:
    await concur.admit("a")
    await concur.admit("child", parent="a")
    assert concur.stats().population.seated == 1


async def test_observed_tokens_are_counted(concur: Controller) -> None:
    await concur.admit("a")
    concur.observe("a", {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 0})
    concur.pause("a")
    await concur.resume("a")
    concur.observe("a", {"prompt_tokens": 20, "completion_tokens": 5, "cached_tokens": 9})
    concur.pause("a")
    stats = concur.stats()
    assert (stats.prompt_tokens, stats.cached_tokens, stats.output_tokens, stats.recomputed_tokens) == (30, 9, 10, 6)
    assert concur.agents()[0].context_tokens == 25


async def test_observation_never_raises(concur: Controller) -> None:
    concur.observe("nobody", {"prompt_tokens": 10})
    await concur.admit("a")
    concur.observe("a", object())
    concur.pause("a")
    stats = concur.stats()
    assert (stats.prompt_tokens, stats.cached_tokens, stats.recomputed_tokens) == (0, None, None)


# --- running and closing ---


async def test_close_tells_whoever_waits_and_cancels_whoever_runs(concur: Controller, until: Any) -> None:
    await concur.admit("a")
    waits = [asyncio.create_task(concur.admit(name)) for name in "bcd"]
    await until(lambda: concur.stats().population.waiting == 3)
    concur.close()
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ControllerClosedError] * 3
    assert concur.agents() == ()


async def test_closed_controller_admits_nobody(concur: Controller) -> None:
    concur.close()
    with pytest.raises(ControllerClosedError):
        await concur.admit("a")


def test_close_is_idempotent_and_closes_the_reader(make_controller: Any) -> None:
    reader = ScriptedReader()
    concur = make_controller(reader=reader)
    concur.close()
    concur.close()
    assert reader.closed


def test_close_from_many_threads_at_once() -> None:
    concur = Controller(ScriptedReader(), law=FixedWindow(1), tick=0.001).start()
    closers = [threading.Thread(target=concur.close) for _ in range(8)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(20)
    assert not any(closer.is_alive() for closer in closers)


@pytest.mark.parametrize("background", [True, False])
def test_start_is_once(*, background: bool) -> None:
    with (
        Controller(ScriptedReader(), background=background) as concur,
        pytest.raises(LifecycleError, match="started before"),
    ):
        concur.start()
    with pytest.raises(LifecycleError, match="make another one"):
        concur.start()


def test_controller_that_was_never_started_admits_and_closes(make_controller: Any) -> None:
    concur = make_controller(1)
    concur.sync.admit("a")
    concur.close()
    with pytest.raises(LifecycleError):
        concur.start()


def test_no_thread_is_left_after_closing() -> None:
    with Controller(ScriptedReader(), tick=0.001) as concur:
        assert "concur-control" in {thread.name for thread in threading.enumerate()}
        concur.sync.admit("a")
    assert "concur-control" not in {thread.name for thread in threading.enumerate()}


# --- seeing ---


async def test_stats_are_a_moment_and_stay_it(concur: Controller) -> None:
    before = concur.stats()
    await concur.admit("a")
    assert (before.known, concur.stats().known) == (0, 1)
    assert before.population == Population(window=1)
    assert (before.sample, before.sample_age_s, before.problem) == (None, None, None)


def test_sample_age_counts_from_the_last_news(make_controller: Any) -> None:
    clock = ManualClock()
    concur = make_controller(reader=ScriptedReader([reading(1)]), clock=clock)
    for _ in range(3):
        concur.tick()
        clock.advance(5)
    assert concur.stats().sample_age_s == 15
    assert concur.stats().sample == reading(1)


async def test_snapshots_are_frozen(concur: Controller) -> None:
    await concur.admit("a")
    concur.finish("a")
    stats: Any = concur.stats()
    with pytest.raises(FrozenInstanceError):
        stats.window = 9
    with pytest.raises(TypeError):
        stats.finished[Outcome.FAILED] = 9
    with pytest.raises(FrozenInstanceError):
        concur.history()[0].after = 9  # type: ignore[misc]
    assert isinstance(concur.history(), tuple)
    assert isinstance(concur.agents(), tuple)


def test_a_token_budget_is_the_law_by_default() -> None:
    concur = Controller(ScriptedReader([EngineSample(capacity_tokens=1000)]), background=False)
    assert concur.stats().window == TokenBudget().initial
    concur.sync.admit("a")
    concur.observe("a", {"prompt_tokens": 100, "completion_tokens": 0, "cached_tokens": 0})
    concur.pause("a")
    concur.tick()
    assert (concur.stats().window, concur.stats().population.tokens) == (math.inf, 950)
    concur.close()


def test_history_keeps_as_many_changes_as_told(make_controller: Any) -> None:
    law = ConcurLaw(start=1024)
    concur = make_controller(reader=ScriptedReader(map(reading, range(1, 9))), law=law, history=3)
    concur.sync.admit("a")
    for _ in range(8):
        concur.tick()
        concur.pause("a")
        concur.sync.resume("a")
    assert [change.after for change in concur.history()] == [32, 16, 8]


def test_finished_agents_leave_nothing_behind() -> None:
    concur = Controller(ScriptedReader(), law=FixedWindow(4), background=False)
    for number in range(20_000):
        concur.sync.admit(f"agent {number}")
        concur.finish(f"agent {number}")
    limiter = concur._limiter
    containers: list[Any] = [
        limiter._lives,
        limiter._queued,
        limiter._entered,
        limiter._meter._accounts,
        limiter._admission,
    ]
    assert [len(each) for each in containers] == [0] * 5
    assert concur.stats().finished == {Outcome.COMPLETED: 20_000}
    concur.close()


# --- parameters ---

WRONG = [
    ("tick", (0, -1, math.inf, math.nan, True, "1", None)),
    ("stale_after", (0, -1, math.nan, True, "30", None)),
    ("fallback", (0, 0.99, math.nan, True, "8", None)),
    ("history", (0, -1, 2.5, math.nan, True, "9", None)),
]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG for value in values])
def test_wrong_parameters_are_value_errors_that_name_field_and_value(field: str, value: Any) -> None:
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(ValueError) as caught:
        Controller(ScriptedReader(), **wrong)
    assert str(caught.value).startswith(f"Controller: {field} must be a")
    assert str(caught.value).endswith(f"got {value!r}")


def test_a_law_whose_first_window_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="window must be a number of agents, got nan"):
        Controller(ScriptedReader(), law=Broken(initial=math.nan))
