"""The control loop: readings to windows, and what happens when they or the law fail."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from concur_agents import (
    AgentState,
    ConcurLaw,
    Controller,
    Decision,
    EngineSample,
    EngineUnreachableError,
    FixedWindow,
    Population,
    ProblemEvent,
    Reason,
    TokenBudget,
    WindowChange,
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


class Beating:
    """A reader that counts in on an event for each reading it is allowed to take."""

    def __init__(self) -> None:
        self.beats = threading.Semaphore(0)
        self.number = 0

    def read(self, timeout: float) -> EngineSample:
        self.number += 1
        self.beats.release()
        return reading(self.number)

    def close(self) -> None:
        pass

    def await_beats(self, count: int) -> None:
        for _ in range(count):
            assert self.beats.acquire(timeout=20), "the control loop stands still"


async def test_control_loop_goes_on_while_the_event_loop_is_blocked() -> None:
    reader = Beating()
    async with Controller(reader, tick=0.001):
        reader.await_beats(20)  # blocks this very event loop


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(1), KeyboardInterrupt(), OSError("x")])
def test_control_loop_survives_whatever_a_reader_raises(error: BaseException) -> None:
    class Rude(Beating):
        def read(self, timeout: float) -> EngineSample:
            super().read(timeout)
            raise error

    reader = Rude()
    with Controller(reader, law=ConcurLaw(start=1), tick=0.001) as concur:
        reader.await_beats(5)
        assert concur.stats().problem is not None


def test_controller_may_be_closed_by_its_own_control_loop() -> None:
    closed = threading.Event()

    class Closing(Beating):
        def read(self, timeout: float) -> EngineSample:
            controller.close()
            closed.set()
            return EngineSample()

    controller = Controller(Closing(), tick=0.001).start()
    assert closed.wait(20)
    controller.close()


def test_law_may_look_at_the_controller() -> None:
    """It should not, but must not hang it."""

    class Nosy(FixedWindow):
        def decide(self, sample: EngineSample, population: Population) -> Decision:
            controller.stats()
            controller.history()
            return super().decide(sample, population)

    controller = Controller(ScriptedReader(), law=Nosy(1), background=False)
    controller.tick()
    assert controller.stats().problem is None
    controller.close()


# --- ticks ---


async def test_tick_reads_decides_and_applies(make_controller: Any, until: Any) -> None:
    concur = make_controller(reader=ScriptedReader([reading(1, 0.1), reading(2, 0.1)]), law=ConcurLaw(start=1, alpha=2))
    await concur.admit("a")
    waits = [asyncio.create_task(concur.admit(name)) for name in "bcd"]
    await until(lambda: concur.stats().population.waiting == 3)
    concur.tick()
    await until(lambda: waits[1].done())
    assert not waits[2].done()
    concur.tick()
    await asyncio.gather(*waits)
    assert [change.after for change in concur.history()] == [1, 3, 5]


def test_cut_from_no_limit_parks_at_boundaries(make_controller: Any) -> None:
    concur = make_controller(reader=ScriptedReader([reading(1), reading(2)]), law=ConcurLaw())
    for name in "abcd":
        concur.sync.admit(name)
        concur.pause(name)
        concur.sync.resume(name)
    concur.tick()  # most steps begun are not first ones, but no rate is known yet
    concur.tick()
    assert concur.stats().window == 2
    for name in "abcd":
        concur.pause(name)
    assert [str(state(concur, name)) for name in "abcd"] == ["in_tool", "in_tool", "parked", "parked"]


def test_counters_work_without_any_observed_reply(make_controller: Any) -> None:
    """An agent whose replies nobody observes is not cold for ever."""
    concur = make_controller(reader=ScriptedReader(map(reading, range(1, 9))), law=ConcurLaw(start=8))
    concur.sync.admit("a")
    concur.tick()
    for _ in range(3):
        concur.pause("a")
        concur.sync.resume("a")
        concur.tick()
    assert concur.stats().reason is Reason.CUT


def miss(concur: Controller) -> None:
    """Agent ``a`` takes a step and finds nothing of its context cached."""
    if state(concur, "a") is None:
        concur.sync.admit("a")
    else:
        concur.sync.resume("a")
    concur.observe("a", {"prompt_tokens": 100, "completion_tokens": 0, "cached_tokens": 0})
    concur.pause("a")


def windows_after_misses(concur: Controller, count: int) -> list[float]:
    windows = []
    for _ in range(count):
        miss(concur)
        concur.tick()
        windows.append(concur.stats().window)
    return windows


def test_misses_that_a_cut_explains_cause_no_further_cut(make_controller: Any) -> None:
    concur = make_controller(reader=ScriptedReader(map(reading, range(1, 9))), law=ConcurLaw(start=8))
    assert windows_after_misses(concur, 4) == [8, 4, 4, 2]  # cold, cut, explained by the cut, cut


def test_misses_between_two_news_count_for_the_later_one(make_controller: Any) -> None:
    """Metrics change more rarely than the loop ticks."""
    concur = make_controller(
        reader=ScriptedReader([reading(1), reading(1), reading(1), reading(2)]), law=ConcurLaw(start=8)
    )
    assert windows_after_misses(concur, 2) == [8, 8]
    concur.tick()
    concur.tick()
    assert concur.stats().window == 4


def test_misses_that_a_restart_explains_cause_no_cut(make_controller: Any) -> None:
    script = [reading(5), reading(1), reading(2), reading(3)]
    concur = make_controller(reader=ScriptedReader(script), law=ConcurLaw(start=8))
    miss(concur)
    concur.tick()
    concur.tick()  # the engine is a new one
    assert windows_after_misses(concur, 2) == [8, 4]  # explained by the restart, cut


def test_reader_gets_less_than_a_tick_to_answer(make_controller: Any) -> None:
    timeouts: list[float] = []

    class Noting(ScriptedReader):
        def read(self, timeout: float) -> EngineSample:
            timeouts.append(timeout)
            return super().read(timeout)

    make_controller(reader=Noting(), tick=2.0).tick()
    assert timeouts == [pytest.approx(1.6)]


# --- failures ---


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        (EngineUnreachableError("refused: is it running?"), "refused: is it running?"),
        (ZeroDivisionError("oops"), "reader ScriptedReader failed: ZeroDivisionError: oops"),
    ],
)
def test_reader_that_raises_holds_and_then_opens_up(make_controller: Any, failure: Exception, problem: str) -> None:
    clock = ManualClock()
    concur = make_controller(reader=ScriptedReader([failure]), law=ConcurLaw(start=2), clock=clock, stale_after=30)
    concur.tick()
    assert (concur.stats().window, concur.stats().problem) == (2, problem)
    clock.advance(31)
    concur.tick()
    assert (concur.stats().window, concur.stats().reason) == (math.inf, Reason.STALE)


@pytest.mark.parametrize("garbage", [None, 0, "text", {}, object])
def test_reader_that_returns_garbage_is_a_problem_and_no_crash(make_controller: Any, garbage: Any) -> None:
    concur = make_controller(reader=ScriptedReader([garbage]))
    concur.tick()
    assert concur.stats().problem.startswith("reader ScriptedReader returned no EngineSample but ")


async def test_law_that_raises_lets_agents_go_on_and_warns_once(
    make_controller: Any, caplog: pytest.LogCaptureFixture, until: Any
) -> None:
    concur = make_controller(reader=ScriptedReader(map(reading, range(9))), law=Broken(initial=1))
    await concur.admit("a")
    waits = [asyncio.create_task(concur.admit(name)) for name in "bcd"]
    await until(lambda: concur.stats().population.waiting == 3)
    for _ in range(5):
        concur.tick()
    await asyncio.gather(*waits)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "law Broken failed: RuntimeError: law is broken (agents go on, window inf)" in caplog.text


def test_bug_of_our_own_opens_up_and_logs_once(
    make_controller: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    concur = make_controller(1, reader=ScriptedReader(map(reading, range(9))))
    monkeypatch.setattr("concur_agents.limiter.Limiter.measure", None)
    for _ in range(5):
        concur.tick()
    assert concur.history()[-1].after == math.inf
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_recovery_is_told_once_by_log_and_event(make_controller: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    gone = EngineUnreachableError("gone")
    script: list[Any] = [reading(1), gone, gone, gone, reading(2), reading(3, usage=0.4)]
    concur = make_controller(reader=ScriptedReader(script), law=ConcurLaw(start=4), fallback=16, clock=clock)
    events = concur.events()
    for _ in script:
        concur.tick()
        clock.advance(20)
    events.close()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    told = [each for each in events if not isinstance(each, WindowChange)]
    assert told == [ProblemEvent(at=20, problem="gone"), ProblemEvent(at=80, problem=None)]
    assert [(each.after, each.reason) for each in concur.history()] == [
        (4, Reason.START), (16, Reason.STALE), (4, Reason.RECOVERED),
    ]  # fmt: skip


def test_every_change_is_an_event_and_comes_before_what_it_does(make_controller: Any) -> None:
    concur = make_controller(reader=ScriptedReader([reading(1), reading(2)]), law=ConcurLaw(start=8))
    for name in "abcdefgh":
        concur.sync.admit(name)
        concur.pause(name)
        concur.sync.resume(name)
        concur.pause(name)
    concur.tick()
    events = concur.events()
    concur.tick()
    events.close()
    change, *parked = events
    assert change == concur.history()[-1]
    assert len(parked) == 4


# --- a token budget ---


def grow(controller: Controller, agent: str, context: int) -> None:
    """One step of the agent, which then holds so much."""
    controller._limiter.request(agent, None)
    controller.observe(agent, {"prompt_tokens": context, "completion_tokens": 0, "cached_tokens": 0})
    controller.pause(agent)


def test_a_token_budget_parks_the_youngest_as_contexts_grow(make_controller: Any) -> None:
    reader = ScriptedReader([EngineSample(capacity_tokens=1000, running=number) for number in range(9)])
    controller = make_controller(reader=reader, law=TokenBudget(margin=0.0))
    for agent in "abc":
        grow(controller, agent, 200)
    controller.tick()
    assert controller.stats().population.tokens == 1000
    for agent in "abc":
        grow(controller, agent, 300)
    for agent in "ab":
        grow(controller, agent, 400)
    assert {view.agent_id: str(view.state) for view in controller.agents()} == {
        "a": "in_tool",
        "b": "in_tool",
        "c": "parked",
    }
    assert controller.stats().population.held == 800
