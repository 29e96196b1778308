"""Many threads and event loops on one controller at once."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from concur_agents import (
    AgentEvent,
    AgentEventKind,
    Controller,
    Decision,
    EngineSample,
    Event,
    FixedWindow,
    Law,
    Outcome,
    Population,
    Reason,
)
from concur_agents.testing import ScriptedReader, check_lives

AGENTS, THREADS, LOOPS = 50, 8, 3
ALL = AGENTS * (THREADS + LOOPS)


class Gauge:
    """How many are inside at once, at most."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __enter__(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.now -= 1


def live_in_a_thread(concur: Controller, gauge: Gauge, name: str) -> None:
    for number in range(AGENTS):
        with concur.sync.agent(f"{name}.{number}") as agent:
            for _ in range(3):
                with agent.step(), gauge:
                    pass


async def live_in_a_loop(concur: Controller, gauge: Gauge, name: str) -> None:
    async def live(number: int) -> None:
        async with concur.agent(f"{name}.{number}") as agent:
            for _ in range(3):
                async with agent.step():
                    with gauge:
                        await asyncio.sleep(0)
                await asyncio.sleep(0)

    await asyncio.gather(*map(live, range(AGENTS)))


def run_everyone(concur: Controller, gauge: Gauge) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the assertion below, in the main thread
            errors.append(error)

    work: list[Callable[[], object]] = [
        *(lambda n=n: live_in_a_thread(concur, gauge, f"thread{n}") for n in range(THREADS)),
        *(lambda n=n: asyncio.run(live_in_a_loop(concur, gauge, f"loop{n}")) for n in range(LOOPS)),
    ]
    threads = [threading.Thread(target=guarded, args=(each,), daemon=True) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), f"somebody waits for ever: {concur.agents()}"
    assert errors == []


def most_seated(events: list[Event]) -> int:
    seated: set[str] = set()
    most = 0
    for event in events:
        if isinstance(event, AgentEvent):
            gone = event.kind in (AgentEventKind.PARKED, AgentEventKind.FINISHED)
            (seated.discard if gone else seated.add)(event.agent_id)
            most = max(most, len(seated))
    return most


@dataclass(frozen=True)
class Swinging:
    """The window each sample names as ``running``."""

    initial: float = 3.0

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        return Decision(float(sample.running or 1), Reason.FIXED)


def swings() -> list[EngineSample | Exception]:
    """New windows in 1..6 at every tick, for longer than any test takes."""
    source = random.Random(1)
    return [EngineSample(running=source.randint(1, 6), query_tokens_total=tick) for tick in range(20_000)]


@pytest.mark.parametrize(
    ("law", "script", "most"), [(FixedWindow(4), [], 4), (Swinging(), swings(), 6)], ids=["fixed", "swinging"]
)
def test_no_seat_too_many_and_everyone_finishes(law: Law, script: list[EngineSample | Exception], most: int) -> None:
    gauge = Gauge()
    with Controller(ScriptedReader(script), law=law, tick=0.0005) as concur:
        stream = concur.events(size=1_000_000)
        run_everyone(concur, gauge)
        stats = concur.stats()
        assert concur.agents() == ()
        assert stats.finished == {Outcome.COMPLETED: ALL}
        assert (stats.population.seated, stats.population.waiting, stats.population.parked) == (0, 0, 0)
    events = list(stream)
    assert gauge.most <= most
    assert most_seated(events) <= most
    lives = check_lives(events)
    assert len(lives) == ALL
    steps = [sum(kind in (AgentEventKind.ADMITTED, AgentEventKind.RESUMED) for kind in life) for life in lives.values()]
    assert steps == [3] * ALL
