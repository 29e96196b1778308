"""What we ship for tests must itself be right, and must catch what it is there to catch."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from concur_agents import (
    AgentEvent,
    AgentEventKind,
    Controller,
    EngineSample,
    EngineUnreachableError,
    Event,
    Outcome,
    ProblemEvent,
    Reason,
    WindowChange,
)
from concur_agents.testing import EXPECTED_OUTCOME, AdapterContract, Ending, ManualClock, ScriptedReader, check_lives

ADMITTED, RESUMED = AgentEventKind.ADMITTED, AgentEventKind.RESUMED
PAUSED, PARKED, FINISHED = AgentEventKind.PAUSED, AgentEventKind.PARKED, AgentEventKind.FINISHED


# --- the clock and the reader ---


def test_manual_clock_stands_until_told() -> None:
    clock = ManualClock(5.0)
    assert (clock(), clock()) == (5.0, 5.0)
    clock.advance(2.5)
    clock.advance(0)
    assert clock() == 7.5


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_manual_clock_never_goes_back_nor_nowhere(seconds: float) -> None:
    with pytest.raises(ValueError, match=f"seconds must be a finite number >= 0, got {seconds}"):
        ManualClock().advance(seconds)


def test_scripted_reader_follows_its_script_and_then_repeats_the_last_line() -> None:
    one, two = EngineSample(running=1), EngineSample(running=2)
    reader = ScriptedReader([one, EngineUnreachableError("gone"), two])
    assert reader.read(1) is one
    with pytest.raises(EngineUnreachableError, match="gone"):
        reader.read(1)
    assert [reader.read(1), reader.read(1)] == [two, two]
    assert reader.reads == 4


def test_scripted_reader_can_be_continued_at_its_end() -> None:
    reader = ScriptedReader([EngineSample(running=1)])
    reader.read(1)
    reader.read(1)
    reader.add(EngineSample(running=2), EngineSample(running=3))
    assert [reader.read(1).running, reader.read(1).running] == [2, 3]


def test_scripted_reader_without_script_knows_nothing() -> None:
    reader = ScriptedReader()
    assert reader.read(1) == EngineSample()
    assert not reader.closed
    reader.close()
    assert reader.closed


# --- lives ---


def life(*kinds: AgentEventKind, agent: str = "a") -> list[Event]:
    return [AgentEvent(at=0, agent_id=agent, kind=kind) for kind in kinds]


@pytest.mark.parametrize(
    "kinds",
    [
        (ADMITTED, FINISHED),
        (ADMITTED, PAUSED, RESUMED, PARKED, RESUMED, PAUSED, PARKED, FINISHED),
        (FINISHED,),  # ended while it waited for its first seat
    ],
)
def test_lawful_lives_pass(kinds: tuple[AgentEventKind, ...]) -> None:
    assert check_lives(life(*kinds)) == {"a": list(kinds)}


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ((ADMITTED,), "a must finish exactly once"),
        ((ADMITTED, FINISHED, FINISHED), "a must finish exactly once"),
        ((ADMITTED, FINISHED, PAUSED), "a did something after it finished"),
        ((RESUMED, FINISHED), "a must be admitted first"),
        ((PAUSED, FINISHED), "a must be admitted first"),
        ((ADMITTED, PAUSED, ADMITTED, FINISHED), "a must be admitted first"),
        ((ADMITTED, RESUMED, FINISHED), "a stepped twice without a boundary"),
    ],
)
def test_unlawful_lives_are_caught(kinds: tuple[AgentEventKind, ...], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_lives(life(*kinds))


def test_lives_are_told_apart_and_other_events_are_passed_over() -> None:
    events: list[Event] = [
        *life(ADMITTED),
        *life(ADMITTED, agent="b"),
        ProblemEvent(at=0, problem=None),
        WindowChange(at=0, before=1, after=2, reason=Reason.GROW),
        *life(FINISHED, agent="b"),
        *life(FINISHED),
    ]
    assert check_lives(events) == {"a": [ADMITTED, FINISHED], "b": [ADMITTED, FINISHED]}


# --- the adapter contract, on adapters so small that one sees what they do ---


class GoodAdapter(AdapterContract):
    """A framework of one loop: model, tool, model."""

    async def live(self, controller: Controller, ending: Ending, reached: asyncio.Event) -> None:
        async with controller.agent("a") as agent:
            for turn in range(2):
                async with agent.step():
                    if ending is Ending.MODEL_ERROR:
                        raise ValueError(ending)
                    if ending is Ending.CANCEL_GENERATING:
                        await self.hang(reached)
                if turn == 0:
                    if ending is Ending.TOOL_ERROR:
                        raise ValueError(ending)
                    if ending is Ending.CANCEL_IN_TOOL:
                        await self.hang(reached)

    async def hang(self, reached: asyncio.Event) -> None:
        reached.set()
        await asyncio.get_running_loop().create_future()

    async def run(self, controller: Controller, ending: Ending) -> None:
        reached = asyncio.Event()
        task = asyncio.ensure_future(self.live(controller, ending, reached))
        if ending is Ending.CANCEL_QUEUED:
            while controller.stats().population.waiting == 0:  # noqa: ASYNC110 - the controller has no event for it
                await asyncio.sleep(0)
            task.cancel()
        elif "cancel" in ending:
            await reached.wait()
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class TestGoodAdapter(GoodAdapter):
    """Passes, as every adapter must that subclasses the contract like this."""


class Deaf(GoodAdapter):
    """Never asks Concur."""

    async def run(self, controller: Controller, ending: Ending) -> None:
        pass


class Leaking(GoodAdapter):
    """Does not finish."""

    async def live(self, controller: Controller, ending: Ending, reached: asyncio.Event) -> None:
        agent = controller.agent("a")
        async with agent.step():
            pass


class Cheerful(GoodAdapter):
    """Every end is a success."""

    async def live(self, controller: Controller, ending: Ending, reached: asyncio.Event) -> None:
        agent = controller.agent("a")
        try:
            for _ in range(2):
                async with agent.step():
                    if ending is Ending.MODEL_ERROR:
                        raise ValueError(ending)
        finally:
            agent.finish()


class Greedy(GoodAdapter):
    """One step from beginning to end: generates while its tool runs."""

    async def live(self, controller: Controller, ending: Ending, reached: asyncio.Event) -> None:
        async with controller.agent("a") as agent, agent.step():
            if ending is not Ending.SUCCESS:
                await super().live(controller, ending, reached)


class Forgetful(GoodAdapter):
    """Leaves its place in the queue to nobody."""

    async def run(self, controller: Controller, ending: Ending) -> None:
        controller._limiter.request("a", None)


@pytest.mark.parametrize(
    ("adapter", "ending", "message"),
    [
        (Deaf, Ending.SUCCESS, "no agent was seen at all"),
        (Leaking, Ending.SUCCESS, "agents are left"),
        (Cheerful, Ending.MODEL_ERROR, "outcomes"),
        (Greedy, Ending.SUCCESS, "no boundary between the generations"),
    ],
)
def test_contract_catches_a_broken_adapter(adapter: type[AdapterContract], ending: Ending, message: str) -> None:
    broken = adapter()
    broken.endings = frozenset({ending})
    with pytest.raises(AssertionError, match=message):
        broken.test_every_way_out_finishes_exactly_once()


def test_contract_catches_an_adapter_that_stays_in_the_queue() -> None:
    with pytest.raises(AssertionError):
        Forgetful().test_cancelled_while_queued_leaves_no_trace()


def test_contract_lets_an_adapter_leave_out_what_its_framework_cannot_do() -> None:
    class Limited(Deaf):
        endings = frozenset[Ending]()

    Limited().test_every_way_out_finishes_exactly_once()
    Limited().test_cancelled_while_queued_leaves_no_trace()


def test_contract_itself_cannot_be_run() -> None:
    assert inspect.isabstract(AdapterContract)


def test_every_ending_but_the_queued_one_has_an_outcome() -> None:
    assert set(EXPECTED_OUTCOME) == set(Ending) - {Ending.CANCEL_QUEUED}
    assert set(EXPECTED_OUTCOME.values()) == set(Outcome)
