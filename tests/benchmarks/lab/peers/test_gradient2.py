"""Gradient2's numbers, worked by hand from Netflix/concurrency-limits, ``Gradient2Limit.java`` (f2528de)."""

import pytest

from benchmarks.lab.arms.peers.gradient2 import Gradient2


@pytest.mark.parametrize(
    ("rtt", "limit"),
    [
        (1.0, 0.8 * 20 + 0.2 * (20 + 4)),  # as long as ever: 20.8
        (1.6, 0.8 * 20 + 0.2 * (20 + 4)),  # long becomes 1.3; 1.5 x 1.3 / 1.6 is above 1
        (5.0, 0.8 * 20 + 0.2 * (20 * 0.9 + 4)),  # long becomes 3; 1.5 x 3 / 5 = 0.9
        (199.0, 0.8 * 20 + 0.2 * (20 * 1.5 * 100 / 199 + 4)),  # long becomes 100: 0.754
    ],
)
def test_the_limit_follows_the_gradient(rtt, limit) -> None:
    law = Gradient2().measured(1.0, 9)  # 9 in flight are less than half of 20: held
    assert law.limit == 20
    assert law.measured(rtt, 20).limit == pytest.approx(limit)


def test_the_gradient_is_never_below_a_half() -> None:
    law = Gradient2(long=1e9)
    for _ in range(10):
        law = law.measured(1.0, 0)
    assert law.measured(100.0, 20).limit == pytest.approx(0.8 * 20 + 0.2 * (20 * 0.5 + 4))


def test_the_long_average_is_plain_for_ten_measurements_and_exponential_then() -> None:
    law = Gradient2()
    for rtt in range(1, 11):
        law = law.measured(float(rtt), 0)
    assert law._long_rtt == pytest.approx(5.5)
    assert law.measured(11.5, 0)._long_rtt == pytest.approx(5.5 + (11.5 - 5.5) * 2 / 601)


def test_a_long_average_twice_the_short_is_lowered() -> None:
    law = Gradient2().measured(3.0, 0).measured(1.0, 0)  # 2.0 is not more than twice 1.0
    assert law._long_rtt == pytest.approx(2.0)
    assert law.measured(0.5, 0)._long_rtt == pytest.approx(1.5 * 0.95)


def test_a_measurement_is_the_mean_over_a_second_and_ten_requests() -> None:
    law = Gradient2()
    for number in range(10):
        assert law._measured == 0
        law = law.replied(float(number), 20 - number, 0.5 + number, dropped=False)
    assert (law._measured, law._long_rtt) == (1, pytest.approx(4.5))
    assert law.window == 20  # 20.8
    for _ in range(30):
        law = law.replied(1.0, 20, 9.9, dropped=False)
    assert law._measured == 1  # not within the same second


def test_the_limit_stays_within_its_bounds() -> None:
    law = Gradient2(start=200.0)
    assert law.measured(1.0, 200).limit == 200
    assert Gradient2(start=20.0, least=20.0, queue=0.0, long=1e9).measured(1.0, 0).measured(99.0, 20).limit == 20
