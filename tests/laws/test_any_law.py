"""What holds for every law of ours, on every sample and population there can be."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from concur_agents import (
    Clamped,
    ConcurLaw,
    Decision,
    EngineSample,
    FixedWindow,
    Law,
    Population,
    Reason,
    Smoothed,
    TokenBudget,
    Uncontrolled,
)

SHARE = st.none() | st.floats(0, 1)
COUNT = st.integers(0, 10_000)
TOKENS = st.none() | st.floats(0, 1e9)
WINDOW = st.floats(1, 1e6) | st.just(math.inf)
SAMPLE = st.builds(
    EngineSample,
    pinned_usage=SHARE,
    occupied_usage=SHARE,
    hit_rate=SHARE,
    hit_rate_gauge=SHARE,
    running=st.none() | COUNT,
    queued=st.none() | COUNT,
    capacity_tokens=st.none() | st.integers(1, 10**9),
    retractions=st.none() | st.floats(0, 1e6),
    computed=st.none() | st.floats(0, 1e9),
    elapsed_s=st.none() | st.floats(0, 1e6),
    restarted=st.booleans(),
)
POPULATION = st.builds(
    Population,
    window=WINDOW,
    seated=COUNT,
    generating=COUNT,
    in_tool=COUNT,
    parked=COUNT,
    waiting=COUNT,
    reuse=SHARE,
    reports_reuse=st.booleans(),
    cold_share=SHARE,
    measured=st.none() | st.booleans(),
    mean_context=TOKENS,
    first_context=TOKENS,
    held=st.floats(0, 1e9),
    tokens=st.floats(0, 1e9) | st.just(math.inf),
    growth=TOKENS,
    cycle_s=st.none() | st.floats(0, 1e6),
    computed=TOKENS,
    elapsed_s=st.none() | st.floats(0, 1e6),
    shared_prefix=st.floats(0, 1e6),
)
CONCUR = st.builds(
    ConcurLaw,
    alpha=st.floats(0.01, 100) | st.just(math.inf),
    beta=st.floats(0.01, 1),
    u_low=st.floats(0, 0.5),
    u_high=st.floats(0.5, 1),
    h_thresh=st.floats(0, 1),
    start=WINDOW,
)
BUDGET = st.builds(
    TokenBudget,
    margin=st.floats(0, 0.99),
    ahead=st.floats(0, 100),
    patience=st.floats(0.01, 100),
    lost=st.floats(0, 1),
    start=WINDOW,
    trust=st.floats(0.01, 1),
)
PLAIN = BUDGET | CONCUR | st.builds(FixedWindow, WINDOW) | st.just(Uncontrolled())
LAWS = st.recursive(
    PLAIN,
    lambda inner: (
        st.builds(Clamped, inner, low=st.floats(1, 64), high=st.floats(64, 1e6) | st.just(math.inf))
        | st.builds(Smoothed, inner, weight=st.floats(0.01, 1))
    ),
    max_leaves=3,
)


def looks_at_nothing(law: Law) -> bool:
    return isinstance(law, FixedWindow | Uncontrolled) or (hasattr(law, "law") and looks_at_nothing(law.law))


def is_budget(law: Law) -> bool:
    return isinstance(law, TokenBudget) or (hasattr(law, "law") and is_budget(law.law))


def decisions(law: Law, seen: list[tuple[EngineSample, Population]]) -> list[tuple[Population, Decision]]:
    taken = []
    for sample, population in seen:
        decision = law.decide(sample, population)
        taken.append((population, decision))
        law = decision.law or law
    return taken


@given(law=LAWS, seen=st.lists(st.tuples(SAMPLE, POPULATION), max_size=5))
def test_windows_are_numbers_and_laws_are_pure(law: Law, seen: list[tuple[EngineSample, Population]]) -> None:
    first = decisions(law, seen)
    assert not any(math.isnan(decision.window) for _, decision in first)
    assert decisions(law, seen) == first


@given(law=CONCUR | st.builds(Smoothed, CONCUR), seen=st.lists(st.tuples(SAMPLE, POPULATION), min_size=1, max_size=5))
def test_unknown_usage_never_changes_the_window(law: Law, seen: list[tuple[EngineSample, Population]]) -> None:
    (*_, (sample, _)), (*_, (population, decision)) = seen, decisions(law, seen)
    assert (sample.pinned_usage is None) == (decision.reason is Reason.UNKNOWN)
    assert decision.reason is not Reason.UNKNOWN or decision.window == population.window


@given(law=LAWS, population=POPULATION)
def test_without_a_reading_a_law_is_fixed_or_goes_on_by_replies_or_knows_nothing(
    law: Law, population: Population
) -> None:
    decision = law.decide(EngineSample(), population)
    if looks_at_nothing(law):
        assert decision.reason is Reason.FIXED
    elif is_budget(law) and (population.measured is None or (population.measured and population.reports_reuse)):
        assert decision.reason is not Reason.UNKNOWN
    else:
        assert decision.reason is Reason.UNKNOWN


@given(law=BUDGET, seen=st.lists(st.tuples(SAMPLE, POPULATION), max_size=8))
def test_a_budget_is_never_below_nothing_and_what_it_looks_ahead_by_is_a_number(
    law: Law, seen: list[tuple[EngineSample, Population]]
) -> None:
    for _, decision in decisions(law, seen):
        assert decision.tokens >= 0
        assert decision.ahead >= 0
        assert decision.patience_s >= 0
