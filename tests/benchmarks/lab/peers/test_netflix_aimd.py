"""Netflix's AIMD, worked by hand from Netflix/concurrency-limits, ``AIMDLimit.java`` (784c960)."""

import pytest

from benchmarks.lab.arms.peers.netflix_aimd import NetflixAimd


@pytest.mark.parametrize(
    ("seconds", "in_flight", "dropped", "window"),
    [
        (1.0, 10, False, 21),  # half of the limit was in flight
        (1.0, 9, False, 20),  # less: the limit is not what holds back
        (5.0, 9, False, 20),
        (5.1, 20, False, 18),  # slow: int(20 x 0.9)
        (0.1, 1, True, 18),
    ],
)
def test_one_reply(seconds, in_flight, dropped, window) -> None:
    assert NetflixAimd().replied(seconds, in_flight, 0.0, dropped=dropped).window == window


def test_it_stays_within_its_bounds() -> None:
    assert NetflixAimd(start=1.0).replied(9.0, 1, 0.0, dropped=False).window == 1
    assert NetflixAimd(start=200.0).replied(1.0, 200, 0.0, dropped=False).window == 200
