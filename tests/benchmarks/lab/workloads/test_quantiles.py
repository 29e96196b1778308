"""Distributions known by quantiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.workloads.quantiles import Quantiles


@pytest.mark.parametrize(
    ("share", "value"), [(0, 1), (0.25, 10**0.5), (0.5, 10), (0.75, 10**1.5), (1, 100)], ids=lambda value: f"{value:g}"
)
def test_between_quantiles_the_logarithm_grows_evenly(share, value) -> None:
    assert Quantiles((0, 1), (0.5, 10), (1, 100)).at(share) == pytest.approx(value)


def test_below_zero_the_value_grows_evenly() -> None:
    assert Quantiles((0, -10), (0.5, 10), (1, 1000)).at(0.25) == pytest.approx(0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6), st.floats(0, 1))
def test_every_value_is_between_the_least_and_the_most(values, share) -> None:
    values.sort()
    quantiles = Quantiles(*((number / (len(values) - 1), value) for number, value in enumerate(values)))
    assert values[0] - 1e-6 <= quantiles.at(share) <= values[-1] + 1e-6


@given(st.floats(0, 1), st.floats(0.01, 100))
def test_times_makes_every_value_so_many_times_as_large(share, factor) -> None:
    quantiles = Quantiles((0, -3), (0.2, 0), (0.6, 5), (1, 50))
    assert quantiles.times(factor).at(share) == pytest.approx(factor * quantiles.at(share), abs=1e-9)


@pytest.mark.parametrize("points", [(), ((0, 1),), ((0.1, 1), (1, 2)), ((0, 1), (0.9, 2))])
def test_quantiles_span_everything(points) -> None:
    with pytest.raises(ValueError, match="begin at 0 and end at 1"):
        Quantiles(*points)


@pytest.mark.parametrize("points", [((0, 2), (1, 1)), ((0, 1), (0.6, 2), (0.5, 3), (1, 4))])
def test_quantiles_do_not_fall(points) -> None:
    with pytest.raises(ValueError, match="must not fall"):
        Quantiles(*points)
