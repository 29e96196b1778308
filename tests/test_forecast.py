"""How much agents are going to hold: where contexts end, by the Kaplan-Meier estimate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents.forecast import Forecast

TOKENS = st.floats(0, 1e6)
MANY = st.lists(TOKENS, max_size=20)
SOME = st.lists(TOKENS, min_size=1, max_size=20)


def test_where_contexts_end_is_the_kaplan_meier_estimate() -> None:
    """By hand: six agents that ended, four that go on.

    ====  ==========  =======  ===================
    at    might have  ended    go on beyond
    ====  ==========  =======  ===================
    10    10          1        9/10
    20    8           2        9/10 * 6/8
    40    4           1        9/10 * 6/8 * 3/4
    50    3           2        9/10 * 6/8 * 3/4 * 1/3
    ====  ==========  =======  ===================
    """
    ends = Forecast([20, 10, 50, 40, 50, 20], going_on=[15, 20, 30, 60])
    begun = {9: 1.0, 10: 0.9, 19: 0.9, 20: 0.675, 39: 0.675, 40: 0.50625, 49: 0.50625, 50: 0.16875, 1e9: 0.16875}
    for context, share in begun.items():
        assert ends.goes_on(0, context) == pytest.approx(share)
    # Of those that have come so far already.
    assert ends.goes_on(10, 9) == 1
    assert ends.goes_on(20, 20) == pytest.approx(3 / 4)
    assert ends.goes_on(25, 25) == pytest.approx(3 / 4 * 1 / 3)


def test_without_those_that_go_on_the_shortest_would_speak_for_all() -> None:
    """A batch that began together: one short one has ended, nine are beyond it."""
    assert Forecast([10], going_on=[30] * 9).goes_on(5, 10) == pytest.approx(0.9)
    assert Forecast([10], going_on=[]).goes_on(5, 10) == 0


def test_who_is_at_an_end_when_another_ends_there_might_have_ended_too() -> None:
    assert Forecast([10], going_on=[10]).goes_on(0, 10) == pytest.approx(1 / 2)


def test_where_nobody_has_ended_nobody_is_taken_to_end() -> None:
    assert Forecast([], going_on=[10, 20]).goes_on(10, 1e9) == 1
    assert Forecast([], going_on=[10, 20]).peak([10, 20], within=100) == (230, 100)


def test_beyond_everybody_who_has_ended_nothing_is_known() -> None:
    assert Forecast([10, 20], going_on=[]).goes_on(20, 5) == 1


def test_agents_that_end_together_need_room_for_all_their_growth() -> None:
    peak, horizon = Forecast([100] * 9, going_on=[]).peak([10, 10, 10], within=80)
    assert (peak, horizon) == (270, 80)


def test_where_some_end_while_others_grow_little_room_is_kept() -> None:
    """Ends of every length, agents at every stage: who ends frees what the others grow by."""
    lengths = [float(10 * number) for number in range(1, 101)]
    stages = lengths[:99]
    peak, _ = Forecast(lengths, going_on=stages).peak(stages, within=500)
    assert sum(stages) <= peak < 1.05 * sum(stages)


def test_one_standard_deviation_is_kept_for_chance() -> None:
    # One in ten of those that come so far ends at 100: 16 are expected to be 14.4 then, and may be 15.6.
    peak, horizon = Forecast([100] * 10, going_on=[110] * 90).peak([95] * 16, within=8)
    assert peak == pytest.approx(16 * 0.9 * 103 + math.sqrt(16 * 0.9 * 0.1) * 103)
    assert horizon == 8


def test_where_as_many_end_as_others_grow_nothing_swells() -> None:
    nobody_ends = Forecast([], going_on=[100, 200])
    assert nobody_ends.swell([100, 200], 50) == 100
    half_end = Forecast([130, 400], going_on=[])
    assert half_end.swell([100], 50) == 0  # as likely to be gone as to hold 150
    assert half_end.swell([100] * 1000, 50) == 0
    assert nobody_ends.swell([100] * 1000, 50) == pytest.approx(50_000)
    assert nobody_ends.swell([], 50) == 0


def test_nobody_holds_nothing() -> None:
    assert Forecast([100], going_on=[]).peak([], within=10) == (0, 0)


def test_without_looking_ahead_what_is_held_is_all() -> None:
    assert Forecast([100], going_on=[50]).peak([10, 20], within=0) == (30, 0)


@given(MANY, MANY, TOKENS, TOKENS, TOKENS)
def test_a_chance_is_a_share_and_falls_with_growth(
    finals: list[float], going_on: list[float], context: float, growth: float, more: float
) -> None:
    ends = Forecast(finals, going_on)
    near, far = ends.goes_on(context, growth), ends.goes_on(context, growth + more)
    assert 0 <= far <= near <= 1
    assert ends.goes_on(context, 0) == 1


@given(MANY, MANY, MANY, TOKENS)
def test_a_peak_is_at_least_what_is_held_and_at_most_what_all_grow_to(
    finals: list[float], going_on: list[float], contexts: list[float], within: float
) -> None:
    peak, horizon = Forecast(finals, going_on).peak(contexts, within)
    assert peak >= sum(contexts)
    assert 0 <= horizon <= within
    # One deviation more than expected of those that may have ended by then, never more than each alone.
    most = [context + within for context in contexts]
    assert peak <= sum(most) + math.sqrt(sum((size / 2) ** 2 for size in most)) + 1e-6 * (1 + peak)


@given(SOME, TOKENS, TOKENS)
def test_while_nobody_has_ended_looking_further_never_needs_less(
    contexts: list[float], within: float, more: float
) -> None:
    ends = Forecast([], contexts)
    near, far = ends.peak(contexts, within), ends.peak(contexts, within + more)
    assert near[0] <= far[0] * (1 + 1e-12)
    assert near[1] <= far[1]


@given(SOME, SOME, SOME, TOKENS)
def test_more_agents_that_go_on_never_make_an_end_more_likely(
    finals: list[float], going_on: list[float], others: list[float], growth: float
) -> None:
    """Of those that are further than every end."""
    beyond = [max(finals) + 1 + each for each in others]
    with_them, without = Forecast(finals, [*going_on, *beyond]), Forecast(finals, going_on)
    for context in going_on:
        assert with_them.goes_on(context, growth) >= without.goes_on(context, growth) * (1 - 1e-12)
