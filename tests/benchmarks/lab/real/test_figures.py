"""Means, ratios within repeats, and how two orders compare."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.real.figures import arm_figures, kendall_tau, ranking


def test_ratios_are_taken_within_a_repeat(make_store, make_run) -> None:
    store = make_store(
        make_run("uncontrolled", 1, 200.0),
        make_run("concur", 1, 100.0),
        make_run("concur", 2, 80.0),
        make_run("uncontrolled", 2, 120.0),
        predictions=(
            make_run("uncontrolled", 1, 150.0),
            make_run("uncontrolled", 2, 150.0),
            make_run("concur", 1, 100.0),
            make_run("concur", 2, 98.0),
        ),
    )
    free, concur = arm_figures(store, "swe")
    assert (free.arm, concur.arm) == ("uncontrolled", "concur")
    assert (concur.ratio.low, concur.ratio.mean, concur.ratio.high) == (1.5, 1.75, 2.0)
    assert concur.makespan_s.mean == 90.0
    assert concur.error == pytest.approx(0.1)
    assert concur.predicted_s == 99.0
    assert concur.predicted_ratio == pytest.approx((150 / 100 + 150 / 98) / 2)
    assert (concur.against, concur.predicted_against) == (None, None)  # nobody ran the default law


def test_each_arm_is_compared_with_the_default_law_in_the_same_repeat(make_store, make_run) -> None:
    store = make_store(
        make_run("budget", 1, 100.0),
        make_run("budget", 2, 50.0),
        make_run("thunder", 1, 110.0),
        make_run("thunder", 2, 60.0),
        make_run("thunder", 3, 1.0),
        predictions=(make_run("budget", 1, 100.0), make_run("thunder", 1, 95.0)),
    )
    ours, thunder = arm_figures(store, "swe")
    assert (ours.against.low, ours.against.high) == (1.0, 1.0)
    assert (thunder.against.low, thunder.against.mean, thunder.against.high) == pytest.approx((1.1, 1.15, 1.2))
    assert thunder.predicted_against == 0.95


def test_without_the_other_arm_or_a_prediction_a_ratio_is_unknown(make_store, make_run) -> None:
    store = make_store(make_run("concur", 1, 100.0))
    (concur,) = arm_figures(store, "swe")
    assert (concur.ratio, concur.predicted_s, concur.error) == (None, None, None)
    assert ranking([concur]) is None


def test_a_run_that_was_disturbed_is_left_out(make_store, make_run) -> None:
    store = make_store(
        make_run("uncontrolled", 1, 200.0),
        make_run("uncontrolled", 2, 300.0, others_cpu=0.2),
        make_run("budget", 1, 100.0, others_cpu=0.05),
        make_run("budget", 2, 100.0),
    )
    free, ours = arm_figures(store, "swe")
    assert (free.runs, free.makespan_s.high, ours.ratio.high) == (1, 200.0, 2.0)


def test_only_pairs_of_which_the_same_was_faster_in_every_repeat_are_decided(make_store, make_run) -> None:
    runs = [("a", 100, 130), ("b", 105, 120), ("c", 115, 210), ("d", 300, 310)]
    said = {"a": 100, "b": 90, "c": 300, "d": 200}
    store = make_store(
        *(make_run(arm, repeat, s) for arm, *both in runs for repeat, s in enumerate(both, start=1)),
        predictions=tuple(make_run(arm, repeat, s) for arm, s in said.items() for repeat in (1, 2)),
    )
    order = ranking(arm_figures(store, "swe"))
    assert (order.arms, order.decided, order.agreeing) == (4, 5, 4)  # not a and b; c and d are the wrong way round
    assert order.tau == pytest.approx((5 - 1) / 6)


def test_kendalls_tau_of_known_rankings() -> None:
    assert kendall_tau([1, 2, 3, 4], [10, 20, 30, 40]) == 1.0
    assert kendall_tau([1, 2, 3, 4], [4, 3, 2, 1]) == -1.0
    assert kendall_tau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]) == pytest.approx(-0.4714045)  # scipy.stats.kendalltau
    assert kendall_tau([1, 1], [1, 2]) == 0.0
    with pytest.raises(ValueError, match="equally long"):
        kendall_tau([1], [1, 2])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_kendalls_tau_is_a_symmetric_correlation(pairs) -> None:
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    tau = kendall_tau(left, right)
    assert -1.0000001 <= tau <= 1.0000001
    assert kendall_tau(right, left) == pytest.approx(tau)
    assert kendall_tau(left, [-b for b in right]) == pytest.approx(-tau)
