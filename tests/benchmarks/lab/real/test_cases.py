"""The workloads that are run on a real engine."""

import pytest

from benchmarks.lab.real.cases import CASES, get_cases
from benchmarks.lab.workloads import WORKLOADS

POOL = 16_000


def test_there_are_three_of_different_shape_and_the_lab_knows_all() -> None:
    assert len(CASES) >= 3
    assert set(CASES) <= set(WORKLOADS)


@pytest.mark.parametrize("name", CASES)
def test_each_overfills_the_pool_with_contexts_that_the_server_takes(name) -> None:
    case = CASES[name]
    line = case.line(case.batch(0), 1)
    assert line.final_tokens > 2 * POOL
    assert max(plan.longest for plan in case.batch(0).plans) <= case.scale.longest < 8192
    assert case.batch(0) == case.batch(0)
    assert case.batch(0, repeat=2) == case.batch(1) != case.batch(0)


def test_an_unknown_name_or_a_name_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'nothing'"):
        get_cases(["swe", "nothing"])
    with pytest.raises(ValueError, match="once"):
        get_cases(["swe", "swe"])
    with pytest.raises(ValueError, match="once"):
        get_cases([])
