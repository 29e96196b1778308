"""What a few repeats say of the mean."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.swebench.report.statistics import interval, ratio_interval


def test_a_known_interval():
    found = interval([10.0, 12.0, 14.0])
    half = 4.303 * 2 / math.sqrt(3)  # Student's t with two degrees of freedom
    assert (found.low, found.mean, found.high) == pytest.approx((12 - half, 12, 12 + half))


def test_one_value_says_nothing_of_its_spread():
    assert (interval([3.0]).mean, interval([3.0]).low) == (3.0, None)
    assert ratio_interval([2.0]).mean == pytest.approx(2)
    assert interval([]) is ratio_interval([]) is None


def test_twice_as_fast_and_half_as_fast_are_as_far_from_one():
    found = ratio_interval([0.5, 2.0])
    assert found.mean == pytest.approx(1)
    assert found.low * found.high == pytest.approx(1)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=60))
def test_a_mean_lies_in_its_interval_and_in_the_values(values):
    for found in (interval(values), ratio_interval(values)):
        assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
        assert min(values) - 1e-9 <= found.mean <= max(values) + 1e-9
