"""A shared controller's events, as its workers hear them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from concur_agents import AgentEvent, Controller, Event, ProblemEvent, WindowChange
from concur_agents.events import AgentEventKind, EventStream
from concur_agents.remote.feed import Feed, event_of
from concur_agents.remote.protocol import OPERATIONS
from concur_agents.samples import Reason
from concur_agents.testing import ManualClock

Serve = Callable[..., Any]
Until = Callable[..., None]


def happened(number: int) -> AgentEvent:
    return AgentEvent(at=float(number), agent_id=f"agent{number}", kind=AgentEventKind.ADMITTED)


class Hearing:
    """What a stream says, heard in a thread."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.heard: list[Event] = []
        self.thread = threading.Thread(target=self._hear, daemon=True)
        self.thread.start()

    def _hear(self) -> None:
        for event in self.stream:
            self.heard.append(event)

    def agents(self) -> list[tuple[str, str]]:
        return [(each.agent_id, str(each.kind)) for each in self.heard if isinstance(each, AgentEvent)]

    def problems(self) -> list[str | None]:
        return [each.problem for each in self.heard if isinstance(each, ProblemEvent)]


async def everything(feed: Feed, after: int, last: int) -> dict[str, Any]:
    """The answer once the feed has the last event."""
    known = after
    while known < last:
        known = (await feed.after(known, wait_s=60, limit=10))["last"]
    return await feed.after(after, wait_s=0, limit=10)


# --- the feed ---


async def test_events_are_numbered_and_asked_for_by_the_last_one_that_is_known() -> None:
    streams: list[EventStream] = []
    feed = Feed(lambda size: streams.append(EventStream(size, lambda _: None)) or streams[-1], ManualClock())
    assert await feed.after(None, wait_s=60, limit=10) == {"events": [], "last": 0}
    waiting = asyncio.create_task(feed.after(0, wait_s=60, limit=10))
    await asyncio.sleep(0)
    streams[0].publish(happened(1))
    answer = await waiting
    assert [event_of(each) for each in answer["events"]] == [happened(1)]
    assert answer["last"] == 1
    for number in range(2, 6):
        streams[0].publish(happened(number))
    answer = await everything(feed, 1, 5)
    assert (answer["last"], answer["missed"]) == (5, 0)
    answer = await feed.after(2, wait_s=0, limit=2)
    assert ([each["number"] for each in answer["events"]], answer["last"]) == ([3, 4], 4), "pages go on from the last"
    assert await feed.after(5, wait_s=0, limit=2) == {"events": [], "last": 5, "missed": 0}
    feed.close()


async def test_who_comes_too_late_is_told_how_much_it_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concur_agents.remote.feed._KEPT", 3)
    stream = EventStream(100, lambda _: None)
    feed = Feed(lambda _: stream, ManualClock())
    await feed.after(None, wait_s=0, limit=10)
    for number in range(1, 9):
        stream.publish(happened(number))
    answer = await everything(feed, 2, 8)
    assert [each["number"] for each in answer["events"]] == [6, 7, 8]
    assert answer["missed"] == 3
    feed.close()


async def test_a_feed_that_nobody_asks_listens_no_more_and_says_so_to_who_comes_back() -> None:
    clock, open_now = ManualClock(), set[EventStream]()

    def listen(size: int) -> EventStream:
        stream = EventStream(size, open_now.discard)
        open_now.add(stream)
        return stream

    feed = Feed(listen, clock)
    known = (await feed.after(None, wait_s=0, limit=10))["last"]
    clock.advance(59)
    feed.tidy()
    assert len(open_now) == 1
    clock.advance(2)
    feed.tidy()
    assert not open_now
    answer = await feed.after(known, wait_s=0, limit=10)
    assert answer["missed"] == 1, "nobody knows how much"
    assert len(open_now) == 1
    feed.close()


@pytest.mark.parametrize(
    "event",
    [
        AgentEvent(at=1.0, agent_id="a/\u00e9", kind=AgentEventKind.FINISHED, outcome=None),
        ProblemEvent(at=2.0, problem=None),
        ProblemEvent(at=2.0, problem="no metrics"),
    ],
)
async def test_an_event_arrives_as_it_was(event: Event) -> None:
    stream = EventStream(10, lambda _: None)
    feed = Feed(lambda _: stream, ManualClock())
    await feed.after(None, wait_s=0, limit=1)
    stream.publish(event)
    answer = await feed.after(0, wait_s=60, limit=1)
    assert event_of(answer["events"][0]) == event
    feed.close()


def test_what_is_no_event_is_named() -> None:
    with pytest.raises(ValueError, match="event must be one of agent, problem, window, got 'storm'"):
        event_of({"event": "storm", "at": 1.0})


# --- over HTTP ---


def test_a_worker_hears_what_happens_to_everybodys_agents(serve: Serve, until_true: Until) -> None:
    service = serve(window=4)
    with Controller.connect(service.url) as here, Controller.connect(service.url) as there:
        hearing = Hearing(here.events())
        with there.sync.agent("a") as agent, agent.step():
            pass
        there.flush()
        until_true(lambda: ("a", "finished") in hearing.agents())
        assert hearing.agents() == [("a", "admitted"), ("a", "paused"), ("a", "finished")]
        service.controller.limiter.set_window(2, new_epoch=False)
    hearing.thread.join(30)
    assert not hearing.thread.is_alive(), "it ends with its controller"


def test_changes_of_the_window_are_told_with_their_reasons(serve: Serve, until_true: Until) -> None:
    service = serve(window=4)
    with Controller.connect(service.url) as concur:
        hearing = Hearing(concur.events())
        change = WindowChange(at=1.0, before=4.0, after=float("inf"), reason=Reason.GROW, sample=None, population=None)
        for stream in service.controller.limiter.streams:
            stream.publish(change)
        until_true(lambda: hearing.heard)
        assert hearing.heard == [change]


def test_a_controller_that_starts_anew_is_heard_again_and_both_are_said(serve: Serve, until_true: Until) -> None:
    service = serve(window=4)
    port = int(service.url.rpartition(":")[2])
    with Controller.connect(service.url, patience_s=0.5) as concur:
        hearing = Hearing(concur.events())
        service.__exit__(None, None, None)
        until_true(lambda: len(hearing.problems()) == 1)
        assert "is gone" in str(hearing.problems()[0])
        serve(window=4, port=port)
        until_true(lambda: hearing.problems()[-1] is None)

        def again() -> bool:
            with concur.sync.agent() as agent, agent.step():
                pass
            concur.flush()
            return bool(hearing.agents())

        until_true(again)


def test_a_controller_without_events_says_so_and_the_stream_ends(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(OPERATIONS, "events")  # type: ignore[arg-type]
    with Controller.connect(serve().url) as concur:
        assert list(concur.events()) == []
    assert "tells no events" in caplog.text


def test_a_shell_script_can_listen(serve: Serve) -> None:
    service = serve(window=4)
    with httpx.Client(base_url=f"{service.url}/concur/v1/", trust_env=False, timeout=30) as http:
        last = http.get("events").json()["last"]
        http.post("agents/a/admit", json={})
        answer = http.get(f"events?after={last}&wait_s=20").json()
        assert [(each["event"], each["agent_id"], each["kind"]) for each in answer["events"]] == [
            ("agent", "a", "admitted")
        ]
        assert http.get("events?after=x").json()["error"]["message"].startswith("after must be a whole number")


def test_a_bad_size_is_named(serve: Serve) -> None:
    with (
        Controller.connect(serve().url) as concur,
        pytest.raises(ValueError, match="size must be a whole number >= 1, got 0"),
    ):
        concur.events(size=0)


def test_nobody_is_kept_waiting_when_the_controller_stops(serve: Serve, until_true: Until) -> None:
    service = serve()
    answers: list[httpx.Response] = []

    def ask() -> None:
        with httpx.Client(base_url=f"{service.url}/concur/v1/", trust_env=False, timeout=90) as http:
            last = http.get("events").json()["last"]
            answers.append(http.get(f"events?after={last}&wait_s=60"))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    until_true(lambda: service.desk._waiting == 1)
    service.__exit__(None, None, None)
    asking.join(30)
    assert [each.json()["events"] for each in answers] == [[]]
