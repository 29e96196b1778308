"""Laws around laws."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import pytest
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
    Uncontrolled,
)


@dataclass(frozen=True)
class Counting:
    """Wants as many agents as it was asked times, and remembers what it was shown."""

    asked: int = 0
    seen: tuple[EngineSample, ...] = ()
    initial: float = 1.0

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        asked = self.asked + 1
        return Decision(asked, Reason.GROW, replace(self, asked=asked, seen=(*self.seen, sample)))


def run(law: Law, samples: list[EngineSample], *, window: float = 8.0) -> list[Any]:
    decisions: list[Decision] = []
    for sample in samples:
        decision = law.decide(sample, Population(window=window, reuse=sample.hit_rate, seated=4))
        decisions.append(decision)
        law = decision.law or law
    return decisions


def usages(*values: float | None) -> list[EngineSample]:
    return [EngineSample(pinned_usage=value) for value in values]


# --- Clamped ---


@pytest.mark.parametrize(
    ("low", "high", "wanted", "reason"),
    [(1, 8, 8, Reason.CLAMPED), (1, 10, 10, Reason.GROW), (1, 64, 10, Reason.GROW), (16, 64, 16, Reason.CLAMPED)],
)
def test_clamped_keeps_the_window_in_bounds_and_says_when_it_changed_it(
    low: float, high: float, wanted: float, reason: Reason
) -> None:
    decision = Clamped(ConcurLaw(), low, high).decide(EngineSample(pinned_usage=0.0), Population(window=8))
    assert (decision.window, decision.reason) == (wanted, reason)


def test_clamped_bounds_the_first_window_too() -> None:
    assert Clamped(ConcurLaw(), high=64).initial == 64
    assert Clamped(FixedWindow(2), low=4).initial == 4


def test_clamped_law_that_looks_at_nothing_still_says_so() -> None:
    """Else missing readings would send a fixed window to the fallback."""
    assert Clamped(FixedWindow(50), high=10).decide(EngineSample(), Population(window=10)).reason is Reason.FIXED
    assert Clamped(Uncontrolled(), high=10).decide(EngineSample(), Population(window=10)).reason is Reason.FIXED


def test_clamped_law_that_knows_nothing_still_says_so() -> None:
    decision = Clamped(ConcurLaw(), high=10).decide(EngineSample(), Population(window=20))
    assert decision.reason is Reason.UNKNOWN


def test_clamped_passes_on_what_the_inner_law_remembers() -> None:
    decisions = run(Clamped(Counting(), high=2), usages(0.1, 0.1, 0.1))
    assert [decision.window for decision in decisions] == [1, 2, 2]
    assert decisions[-1].law == Clamped(Counting(3, tuple(usages(0.1, 0.1, 0.1))), high=2)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0.5, 4, r"Clamped: low must be a number in \[1, inf\], got 0.5"),
        (8, 4, r"Clamped: high must be a number in \[8, inf\], got 4"),
        (math.nan, 4, "Clamped: low must be .* got nan"),
        (1, math.nan, "Clamped: high must be .* got nan"),
        (1, "9", "Clamped: high must be .* got '9'"),
        (True, 9, "Clamped: low must be .* got True"),
    ],
)
def test_clamped_bounds_are_checked(low: float, high: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Clamped(ConcurLaw(), low, high)


# --- Smoothed ---


def test_smoothed_shows_the_exponentially_weighted_average() -> None:
    inner = run(Smoothed(Counting(), weight=0.5), usages(0.0, 1.0, 1.0))[-1].law.law
    assert [sample.pinned_usage for sample in inner.seen] == [0.0, 0.5, 0.75]


def test_smoothed_averages_hit_rate_and_reuse_too() -> None:
    thrashing = EngineSample(pinned_usage=0.9, hit_rate=0.0)
    fine = replace(thrashing, hit_rate=1.0)
    one_bad_reading = run(Smoothed(ConcurLaw(), weight=0.3), [fine, thrashing])
    assert one_bad_reading[-1].reason is Reason.HOLD
    assert run(Smoothed(ConcurLaw(), weight=0.3), [fine] + [thrashing] * 6)[-1].reason is Reason.CUT


def test_unknown_leaves_the_average_and_stays_unknown_to_the_inner_law() -> None:
    decisions = run(Smoothed(Counting(), weight=0.5), usages(0.0, None, 1.0))
    assert [sample.pinned_usage for sample in decisions[-1].law.law.seen] == [0.0, None, 0.5]
    assert run(Smoothed(ConcurLaw()), usages(0.0, None))[-1].reason is Reason.UNKNOWN


def test_restart_begins_a_new_average() -> None:
    restarted = EngineSample(pinned_usage=0.1, restarted=True)
    inner = run(Smoothed(Counting(), weight=0.5), [*usages(1.0, 1.0), restarted])[-1].law.law
    assert inner.seen[-1].pinned_usage == 0.1


def test_law_object_is_never_changed_and_serves_two_controllers_without_mixing() -> None:
    law = Smoothed(Counting(), weight=0.5)
    busy, idle = run(law, usages(1.0, 1.0)), run(law, usages(0.0, 0.0))
    assert law == Smoothed(Counting(), weight=0.5)
    assert [decision.law.usage for decision in (*busy, *idle)] == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("law", [ConcurLaw(), FixedWindow(2), Clamped(ConcurLaw()), Smoothed(ConcurLaw())])
def test_laws_are_frozen(law: Any) -> None:
    field = next(iter(law.__dataclass_fields__))
    with pytest.raises(FrozenInstanceError):
        setattr(law, field, 1)


@pytest.mark.parametrize("weight", [0, -0.1, 1.1, math.nan, True, "0.3", None])
def test_weight_is_checked(weight: Any) -> None:
    with pytest.raises(ValueError) as caught:
        Smoothed(ConcurLaw(), weight)
    assert str(caught.value) == f"Smoothed: weight must be a number in (0, 1], got {weight!r}"


def test_wrappers_nest_in_either_order() -> None:
    samples = usages(0.0, 0.1, 0.1)
    inside = run(Clamped(Smoothed(ConcurLaw(start=1)), high=9), samples)
    outside = run(Smoothed(Clamped(ConcurLaw(start=1), high=9)), samples)
    assert [decision.window for decision in inside] == [decision.window for decision in outside] == [9, 9, 9]
    assert isinstance(inside[-1].law, Clamped)
    assert isinstance(outside[-1].law, Smoothed)


SHARES = st.none() | st.floats(0, 1) | st.sampled_from([0.2, 0.5])
SAMPLES = st.builds(EngineSample, pinned_usage=SHARES, hit_rate=SHARES, restarted=st.booleans())


@given(samples=st.lists(SAMPLES, max_size=20))
def test_weight_of_one_is_the_inner_law(samples: list[EngineSample]) -> None:
    smoothed, plain = run(Smoothed(ConcurLaw(), weight=1), samples), run(ConcurLaw(), samples)
    assert [(each.window, each.reason) for each in smoothed] == [(each.window, each.reason) for each in plain]


@given(samples=st.lists(st.floats(0, 1), min_size=1, max_size=30), weight=st.floats(0.01, 1))
def test_average_never_leaves_the_range_of_what_was_read(samples: list[float], weight: float) -> None:
    seen = run(Smoothed(Counting(), weight=weight), usages(*samples))[-1].law.law.seen
    assert all(min(samples) - 1e-9 <= sample.pinned_usage <= max(samples) + 1e-9 for sample in seen)
