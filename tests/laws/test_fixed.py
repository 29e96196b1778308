"""The baselines look at nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from concur_agents import Decision, EngineSample, FixedWindow, Population, Reason, Uncontrolled

CONGESTED = EngineSample(pinned_usage=1.0, hit_rate=0.0)


@pytest.mark.parametrize("sample", [EngineSample(), CONGESTED])
def test_fixed_window_is_n_whatever_was_seen(sample: EngineSample) -> None:
    law = FixedWindow(8)
    assert law.initial == 8
    assert law.decide(sample, Population(window=3)) == Decision(8, Reason.FIXED)


@pytest.mark.parametrize("sample", [EngineSample(), CONGESTED])
def test_uncontrolled_is_no_limit_whatever_was_seen(sample: EngineSample) -> None:
    assert Uncontrolled().initial == math.inf
    assert Uncontrolled().decide(sample, Population(window=3)) == Decision(math.inf, Reason.FIXED)


@pytest.mark.parametrize("n", [0, 0.99, -1, math.nan, True, "8", None])
def test_n_is_checked(n: Any) -> None:
    with pytest.raises(ValueError) as caught:
        FixedWindow(n)
    assert str(caught.value) == f"FixedWindow: n must be a number in [1, inf], got {n!r}"


def test_fixed_at_no_limit_is_uncontrolled() -> None:
    assert FixedWindow(math.inf).initial == Uncontrolled().initial
