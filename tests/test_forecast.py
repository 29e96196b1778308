"""How much agents are going to hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents.forecast import Forecast

TOKENS = st.floats(0, 1e6)
MANY = st.lists(TOKENS, max_size=20)


def forecast(*finals: float, going_on: tuple[float, ...] = (), first: float = 0.0, least: float = 5.0) -> Forecast:
    return Forecast(finals, going_on, first=first, least=least)


def test_agents_grow_as_far_as_those_before_them_that_went_further() -> None:
    ends = forecast(100, 200, 300)
    assert ends.remaining(50) == 150
    assert ends.remaining(150) == 100
    assert ends.remaining(250) == 50


def test_beyond_everybody_nobody_says_that_it_is_at_its_end() -> None:
    assert forecast(100).remaining(100) == 5
    assert forecast().remaining(7) == 5


def test_who_goes_on_counts_as_one_that_grows_by_as_much_again() -> None:
    # One short one has finished; three that began with it are at 100, from 20: on average they end at 180.
    ends = forecast(110, going_on=(100, 100, 100), first=20)
    assert ends.remaining(100) == pytest.approx((110 + 3 * 180) / 4 - 100)


def test_agents_that_end_together_need_room_for_all_their_growth() -> None:
    assert forecast(100).peak([10, 10, 10]) == (300, 90)


def test_where_some_end_while_others_grow_little_room_is_kept() -> None:
    peak, horizon = forecast(100).peak([95, 75, 50, 25, 5])
    assert peak == 95 + 75 + 50 + 25 + 5 + 5 * 5  # when the first ends; after that they are ever fewer
    assert horizon == 5


def test_nobody_holds_nothing() -> None:
    assert forecast(100).peak([]) == (0, 0)


@given(MANY, MANY, MANY, TOKENS, TOKENS)
def test_a_peak_is_at_least_what_is_held_and_at_most_what_all_end_with(
    finals: list[float], going_on: list[float], contexts: list[float], first: float, least: float
) -> None:
    ends = Forecast(finals, going_on, first=first, least=least)
    peak, horizon = ends.peak(contexts)
    rounding = 1e-6 * (1 + peak)
    assert peak >= sum(contexts) - rounding
    assert peak <= sum(context + ends.remaining(context) for context in contexts) + rounding
    assert 0 <= horizon <= max((ends.remaining(context) for context in contexts), default=0.0)


@given(MANY, TOKENS, TOKENS)
def test_remaining_is_never_negative(finals: list[float], context: float, least: float) -> None:
    assert Forecast(finals, (), first=0.0, least=least).remaining(context) >= 0
