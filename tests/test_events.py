"""Streams of events: every reader gets its own, in order, and none slows the controller down."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from concur_agents import AgentEvent, AgentEventKind, Controller, Event, EventStream, Outcome, ProblemEvent
from concur_agents.testing import ScriptedReader

ADMITTED, RESUMED = AgentEventKind.ADMITTED, AgentEventKind.RESUMED
PAUSED, PARKED, FINISHED = AgentEventKind.PAUSED, AgentEventKind.PARKED, AgentEventKind.FINISHED


def event(number: float) -> Event:
    return ProblemEvent(at=number, problem=None)


def stream(size: int = 100) -> EventStream:
    return EventStream(size, lambda _: None)


def numbers(events: EventStream) -> list[float]:
    return [each.at for each in events]


def kinds(events: EventStream) -> list[tuple[str, AgentEventKind]]:
    events.close()
    return [(each.agent_id, each.kind) for each in events if isinstance(each, AgentEvent)]


# --- the stream itself ---


def test_iteration_gives_events_in_order_and_ends_when_closed() -> None:
    events = stream()
    for number in range(3):
        events.publish(event(number))
    events.close()
    assert numbers(events) == [0, 1, 2]
    assert numbers(events) == []


async def test_async_iteration_gives_events_in_order_and_ends_when_closed() -> None:
    events = stream()
    events.publish(event(1))
    events.close()
    assert [each.at async for each in events] == [1]


async def test_async_reader_sleeps_until_an_event_comes() -> None:
    events = stream()
    reader = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    assert not reader.done()
    events.publish(event(7))
    assert (await reader).at == 7


def test_blocked_reader_wakes_for_an_event_and_for_the_end() -> None:
    events, first = stream(), threading.Event()
    seen: list[float] = []

    def read() -> None:
        for each in events:
            seen.append(each.at)
            first.set()

    reader = threading.Thread(target=read)
    reader.start()
    events.publish(event(1))
    assert first.wait(20)
    events.close()
    reader.join(20)
    assert not reader.is_alive()
    assert seen == [1]


def test_slow_reader_loses_the_oldest_and_can_see_how_many() -> None:
    events = stream(size=3)
    for number in range(10):
        events.publish(event(number))
    events.close()
    assert numbers(events) == [7, 8, 9]
    assert events.dropped == 7


def test_nothing_is_added_after_the_end() -> None:
    events = stream()
    events.close()
    events.publish(event(1))
    assert numbers(events) == []


async def test_reader_that_gives_up_again_and_again_leaves_nothing_behind() -> None:
    events = stream()
    for _ in range(50):
        reader = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
    assert len(events._sleepers) <= 1


def test_two_threads_share_one_stream_without_loss() -> None:
    events = stream(10_000)
    seen: list[float] = []
    readers = [threading.Thread(target=lambda: seen.extend(each.at for each in events)) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(2000):
        events.publish(event(number))
    events.close()
    for reader in readers:
        reader.join(20)
    assert sorted(seen) == list(range(2000))


# --- the controller's ---


async def test_a_whole_life_is_told(make_controller: Any) -> None:
    concur = make_controller()
    events = concur.events()
    async with concur.agent("a") as agent:
        async with agent.step():
            pass
        async with agent.step():
            agent.park()
        async with agent.step():
            pass
    assert kinds(events) == [
        ("a", ADMITTED), ("a", PAUSED), ("a", RESUMED), ("a", PARKED), ("a", RESUMED), ("a", PAUSED), ("a", FINISHED),
    ]  # fmt: skip


def test_finish_tells_the_outcome(make_controller: Any) -> None:
    concur = make_controller()
    events = concur.events()
    concur.sync.admit("a")
    concur.finish("a", Outcome.FAILED)
    events.close()
    assert [each.outcome for each in events if isinstance(each, AgentEvent)] == [None, Outcome.FAILED]


def test_every_subscriber_gets_everything_from_then_on(make_controller: Any) -> None:
    concur = make_controller(2)
    early = concur.events()
    concur.sync.admit("a")
    late = concur.events()
    concur.sync.admit("b")
    assert kinds(early) == [("a", ADMITTED), ("b", ADMITTED)]
    assert kinds(late) == [("b", ADMITTED)]


def test_no_event_is_made_while_nobody_listens(make_controller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    concur = make_controller()
    first, second = concur.events(), concur.events()
    first.close()
    concur.sync.admit("a")
    second.close()
    monkeypatch.setattr("concur_agents.limiter.AgentEvent", None)
    concur.pause("a")
    assert kinds(second) == [("a", ADMITTED)]


def test_subscriber_that_never_reads_costs_at_most_its_size(make_controller: Any) -> None:
    concur = make_controller()
    events = concur.events(size=10)
    for _ in range(100):
        concur.sync.admit("a")
        concur.finish("a")
    assert events.dropped == 190
    assert len(kinds(events)) == 10


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "9", None])
def test_size_is_checked(make_controller: Any, size: Any) -> None:
    with pytest.raises(ValueError, match="size must be a whole number >= 1, got"):
        make_controller().events(size=size)


def test_stream_ends_with_the_controller_after_everyones_last_event(make_controller: Any) -> None:
    concur = make_controller(1)
    events = concur.events()
    concur.sync.admit("a")
    concur.close()
    assert [each.kind for each in events if isinstance(each, AgentEvent)] == [ADMITTED, FINISHED]


def test_stream_of_a_closed_controller_is_at_its_end(make_controller: Any) -> None:
    concur = make_controller()
    concur.close()
    assert list(concur.events()) == []


def test_closing_a_stream_twice_is_no_error(make_controller: Any) -> None:
    events = make_controller().events()
    events.close()
    events.close()


async def test_stream_can_be_read_while_agents_run() -> None:
    async with Controller(ScriptedReader(), background=False) as concur:
        events = concur.events()
        seen: list[Event] = []

        async def watch() -> None:
            seen.extend([each async for each in events])

        watcher = asyncio.create_task(watch())
        async with concur.agent("a") as agent, agent.step():
            await asyncio.sleep(0)
    await watcher
    assert len(seen) == 3
