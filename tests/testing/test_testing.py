"""What we ship for tests must itself be right, and must catch what it is there to catch."""

from __future__ import annotations

import pytest

from concur_agents import (
    AgentEvent,
    AgentEventKind,
    EngineSample,
    EngineUnreachableError,
    Event,
    ProblemEvent,
    Reason,
    WindowChange,
)
from concur_agents.testing import ManualClock, ScriptedReader, check_lives

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
