"""What a load is made of, and how long a refill takes."""

from __future__ import annotations

import math

import pytest

from concur_agents import Controller, FixedWindow
from concur_agents.fleet import EngineLoad, Refill
from concur_agents.samples import EngineSample
from concur_agents.testing import ManualClock, ScriptedReader


def computed(tokens: float | None, *, seconds: float | None = 1.0, capacity: int | None = 1000) -> EngineSample:
    return EngineSample(computed=tokens, elapsed_s=seconds, capacity_tokens=capacity)


def test_a_refill_is_the_pool_over_the_fastest_prefill_of_some_readings() -> None:
    refill = Refill()
    for tokens in (10, 30, 10, 30):
        assert refill.seconds is None
        refill.see(computed(tokens))
    assert refill.seconds == 1000 / 20
    for _ in range(4):
        refill.see(computed(100))
    assert refill.seconds == 10
    for _ in range(8):  # idle: slower is not slow
        refill.see(computed(0))
    assert refill.seconds == 10


def test_the_same_reading_counts_once_and_one_without_deltas_not_at_all() -> None:
    refill = Refill()
    same = computed(1000)
    for sample in (None, same, same, same, same, computed(None), computed(5, seconds=None), computed(5, seconds=0)):
        refill.see(sample)
    assert refill.seconds is None


def test_without_a_capacity_a_refill_is_unknown() -> None:
    refill = Refill()
    for _ in range(8):
        refill.see(computed(10, capacity=None))
    assert refill.seconds is None


@pytest.mark.parametrize(
    ("load", "room"),
    [
        (EngineLoad(), True),  # nothing is known, nothing is forbidden
        (EngineLoad(waiting=1), False),
        (EngineLoad(window=4, seated=3), True),
        (EngineLoad(window=3.5, seated=3), False),
        (EngineLoad(tokens=100, held=0), True),
        (EngineLoad(tokens=100, held=1), False),
        (EngineLoad(tokens=100, capacity=1000, held=1), False),
        (EngineLoad(capacity=100, held=1), False),
    ],
)
def test_room_is_a_seat_and_tokens_for_it(load: EngineLoad, room: bool) -> None:
    assert load.has_room(100) is room


async def test_a_load_is_read_from_a_controllers_statistics() -> None:
    reader = ScriptedReader([EngineSample(capacity_tokens=5000, pinned_usage=0.1, running=0)])
    with Controller(reader, law=FixedWindow(1), clock=ManualClock(), background=False) as controller:
        assert EngineLoad.of(controller.stats()).capacity is None
        controller.tick()
        await controller.admit("a")
        load = EngineLoad.of(controller.stats(), 7.0)
    assert (load.seated, load.waiting, load.window, load.capacity) == (1, 0, 1.0, 5000)
    assert (load.tokens, load.refill_s, load.held >= 0) == (math.inf, 7.0, True)
