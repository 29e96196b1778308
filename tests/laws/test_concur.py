"""The paper's rule, row by row."""

from __future__ import annotations

import math
from typing import Any

import pytest

from concur_agents import ConcurLaw, Decision, EngineSample, Population, Reason

GROW, CUT, HOLD, UNKNOWN = Reason.GROW, Reason.CUT, Reason.HOLD, Reason.UNKNOWN


def decide(law: ConcurLaw, usage: float | None, hits: float | None, window: float, **population: Any) -> Decision:
    return law.decide(EngineSample(pinned_usage=usage, hit_rate=hits), Population(window=window, **population))


def test_defaults_are_the_papers() -> None:
    law = ConcurLaw()
    assert (law.alpha, law.beta, law.u_low, law.u_high, law.h_thresh) == (2, 0.5, 0.2, 0.5, 0.2)


@pytest.mark.parametrize(
    ("usage", "hits", "window", "wanted", "reason"),
    [
        (0.0, 0.9, 8, 10, GROW),
        (0.19, 0.0, 8, 10, GROW),  # growth looks at usage alone
        (0.19, None, 8, 10, GROW),
        (0.2, 0.0, 8, 8, HOLD),  # U < U_low is strict
        (0.35, 0.0, 8, 8, HOLD),  # between the thresholds a bad hit rate is held
        (0.5, 0.0, 8, 8, HOLD),  # U > U_high is strict
        (0.51, 0.2, 8, 8, HOLD),  # H < H_thresh is strict
        (0.51, 0.19, 8, 4, CUT),
        (1.0, 0.0, 8, 4, CUT),
        (1.0, 0.0, 3, 1.5, CUT),  # admission rounds, the law does not: W - beta W
        (1.0, 1.0, 8, 8, HOLD),
        (1.0, None, 8, 8, HOLD),
        (None, 0.0, 8, 8, UNKNOWN),
        (None, None, 8, 8, UNKNOWN),
    ],
)
def test_rule(usage: float | None, hits: float | None, window: float, wanted: float, reason: Reason) -> None:
    assert decide(ConcurLaw(), usage, hits, window) == Decision(wanted, reason)


def test_every_parameter_of_the_rule_counts() -> None:
    law = ConcurLaw(alpha=3, beta=0.25, u_low=0.4, u_high=0.8, h_thresh=0.6)
    assert decide(law, 0.39, None, 10).window == 13
    assert decide(law, 0.8, 0.0, 10).reason is HOLD
    assert decide(law, 0.81, 0.59, 10).window == 7.5


def test_beta_of_one_cuts_everything_and_leaves_the_floor_to_admission() -> None:
    assert decide(ConcurLaw(beta=1), 0.9, 0.0, 8).window == 0


def test_reuse_replaces_the_counters_where_replies_report_it() -> None:
    reported = {"reports_reuse": True, "cold_share": 1.0}
    assert decide(ConcurLaw(), 0.9, 0.9, 8, reuse=0.1, **reported).reason is CUT
    assert decide(ConcurLaw(), 0.9, 0.0, 8, reuse=0.9, **reported).reason is HOLD


def test_nobody_came_back_means_unknown_reuse_and_holds_whatever_the_counters_say() -> None:
    assert decide(ConcurLaw(), 0.9, 0.0, 8, reports_reuse=True, reuse=None).reason is HOLD


@pytest.mark.parametrize(("cold_share", "reason"), [(None, CUT), (0.0, CUT), (0.5, CUT), (0.51, HOLD), (1.0, HOLD)])
def test_counters_are_held_while_most_steps_must_miss(cold_share: float | None, reason: Reason) -> None:
    assert decide(ConcurLaw(), 0.9, 0.0, 8, cold_share=cold_share).reason is reason


def test_start_is_unlimited_so_that_a_batch_that_fits_is_never_slowed() -> None:
    assert ConcurLaw().initial == math.inf
    assert ConcurLaw(start=4).initial == 4


def test_first_cut_from_no_limit_is_from_the_seated() -> None:
    assert decide(ConcurLaw(), 0.9, 0.0, math.inf, seated=40) == Decision(20, CUT)


def test_foreign_load_alone_does_not_cut_no_limit_to_nothing() -> None:
    assert decide(ConcurLaw(), 0.9, 0.0, math.inf, seated=0) == Decision(math.inf, HOLD)


def test_growth_of_no_limit_is_no_limit() -> None:
    assert decide(ConcurLaw(), 0.1, None, math.inf) == Decision(math.inf, GROW)


WRONG = [
    *[(field, value) for field in ("u_low", "u_high", "h_thresh") for value in (-0.01, 1.01)],
    *[(field, value) for field in ("alpha", "beta") for value in (0, -1)],
    ("beta", 1.01),
    ("start", 0.99),
    ("start", -math.inf),
    *[
        (field, value)
        for field in ("alpha", "beta", "u_low", "u_high", "h_thresh", "start")
        for value in (math.nan, True, "0.5", None)
    ],
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_wrong_parameters_are_value_errors_that_name_field_and_value(field: str, value: Any) -> None:
    with pytest.raises(ValueError) as caught:
        ConcurLaw(**{field: value})
    assert f"ConcurLaw: {field} must be a number in" in str(caught.value)
    assert str(caught.value).endswith(f"got {value!r}")


def test_u_high_below_u_low_is_refused() -> None:
    with pytest.raises(ValueError, match=r"u_high must be a number in \[0.6, 1\], got 0.5"):
        ConcurLaw(u_low=0.6)


@pytest.mark.parametrize(
    "edge",
    [{"alpha": math.inf}, {"beta": 1}, {"u_low": 0}, {"u_low": 0.5}, {"u_high": 1}, {"h_thresh": 0}, {"start": 1}],
)
def test_edges_of_each_range_are_allowed(edge: dict[str, float]) -> None:
    ConcurLaw(**edge)


@pytest.mark.parametrize(
    ("seated", "capacity", "mean_context", "after"),
    [
        (32, 16_000, 1_000.0, 8.0),  # the pool holds 16 of the 32: half of those
        (8, 16_000, 1_000.0, 4.0),  # all 8 would fit, so what is seated counts
        (32, None, 1_000.0, 16.0),
        (32, 16_000, None, 16.0),
    ],
)
def test_first_cut_from_no_limit_starts_from_what_the_pool_holds(seated, capacity, mean_context, after) -> None:
    sample = EngineSample(pinned_usage=0.9, hit_rate=0.1, capacity_tokens=capacity)
    population = Population(window=math.inf, seated=seated, mean_context=mean_context)
    assert ConcurLaw().decide(sample, population) == Decision(after, Reason.CUT)


def test_cut_of_a_limited_window_is_the_papers_whatever_the_pool_holds() -> None:
    sample = EngineSample(pinned_usage=0.9, hit_rate=0.1, capacity_tokens=1_000)
    assert ConcurLaw().decide(sample, Population(window=10.0, seated=10, mean_context=1_000.0)).window == 5.0
