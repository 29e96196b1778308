"""Fireworks' AIMD, worked by hand from fireworks-ai 1.2.30, ``training/sdk/concurrency.py``."""

import pytest

from benchmarks.lab.arms.peers.fireworks import Fireworks
from concur_agents import EngineSample


@pytest.mark.parametrize(
    ("waited", "window"),
    [
        (0.0, 12),  # min(0.5 / 0.001, 4) more
        (0.125, 12),
        (0.25, 10),  # twice the target over what is waited
        (0.5, 9),
        (0.51, 4),  # halved
    ],
)
def test_the_first_update_from_eight(waited, window) -> None:
    assert Fireworks().updated(waited).window == window


def test_the_average_forgets_by_three_tenths() -> None:
    law = Fireworks().updated(1.0)
    assert law.window == 4
    assert law.updated(0.0)._ema == pytest.approx(0.7)
    assert law.updated(0.0).window == 2  # still above the target
    assert law.updated(0.0).updated(0.0).window == 3  # 0.49: 2 + 0.5 / 0.49


def test_every_32_replies_the_queue_is_taken_over_them() -> None:
    """Little: 16 queued for two polls of a second are 32 request-seconds, 1 s for each of 32 replies."""
    law = Fireworks()
    for _ in range(2):
        law = law.polled(EngineSample(queued=16), 8)
    for number in range(32):
        assert law.window == 8, number
        law = law.replied(3.0, 8, 0.0, dropped=False)
    assert (law.window, law._ema) == (4, 1.0)


def test_without_a_reading_it_does_not_move() -> None:
    law = Fireworks().polled(None, 8).polled(EngineSample(), 8)
    for _ in range(64):
        law = law.replied(3.0, 8, 0.0, dropped=False)
    assert law.window == 8


def test_it_stays_within_its_bounds() -> None:
    assert Fireworks(start=1.0).updated(9.0).window == 1
    assert Fireworks(start=255.0).updated(0.0).window == 256
