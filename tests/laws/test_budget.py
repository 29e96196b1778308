"""The token budget: what it lets be seated, what it learns, and what it does without."""

from __future__ import annotations

import math
from typing import Any

import pytest

from concur_agents import Decision, EngineSample, FixedWindow, Population, Reason, TokenBudget
from concur_agents.samples import Growth

POOL = EngineSample(capacity_tokens=1000)


def seen(**known: Any) -> Population:
    return Population(window=math.inf, **{"measured": True, "first_context": 50.0, "mean_context": 100.0, **known})


def decide(law: TokenBudget, sample: EngineSample = POOL, **known: Any) -> Decision:
    return law.decide(sample, seen(**known))


def test_budget_is_what_of_the_pool_is_to_be_filled_with_the_shared_prefix_in_it_once() -> None:
    decision = decide(TokenBudget(fill=0.9), shared_prefix=40.0)
    assert (decision.window, decision.tokens) == (math.inf, 860.0)


def test_nobodys_size_is_known_before_the_first_reply() -> None:
    decision = TokenBudget(start=5).decide(POOL, Population(window=5))
    assert (decision.window, decision.reason) == (5, Reason.START)
    assert TokenBudget(start=5).initial == 5


def test_room_is_kept_for_what_agents_are_going_to_grow_by() -> None:
    assert decide(TokenBudget(), held=300.0, peak=420.0, horizon=30.0).growth == Growth(seated=120.0, each=30.0)
    assert decide(TokenBudget(reserve=0.5), held=300.0, peak=420.0, horizon=30.0).growth == Growth(seated=60, each=15)


def test_trust_falls_while_agents_find_their_contexts_evicted_and_is_won_back() -> None:
    law = TokenBudget(fill=1.0)
    cut = decide(law, reuse=0.5)
    assert cut.reason is Reason.CUT
    assert cut.tokens == 900.0
    assert isinstance(cut.law, TokenBudget)
    again = decide(cut.law, reuse=0.5)
    assert again.tokens == pytest.approx(810.0)
    assert isinstance(again.law, TokenBudget)
    held = decide(again.law, reuse=0.9)
    assert (held.tokens, held.reason) == (again.tokens, Reason.FIXED)
    for _ in range(20):
        again = decide(again.law, reuse=1.0)
        assert isinstance(again.law, TokenBudget)
    assert again.tokens == 1000.0


def test_trust_has_an_end() -> None:
    law = TokenBudget(fill=1.0)
    for _ in range(100):
        decision = decide(law, reuse=0.0)
        assert isinstance(decision.law, TokenBudget)
        law = decision.law
    assert decision.tokens == 100.0


def test_capacity_is_remembered_so_that_no_later_reading_is_needed() -> None:
    known = decide(TokenBudget()).law
    assert isinstance(known, TokenBudget)
    blind = decide(known, EngineSample())
    assert (blind.tokens, blind.reason) == (950.0, Reason.FIXED)


def test_an_engine_that_restarted_with_another_pool_is_heard() -> None:
    known = decide(TokenBudget(fill=1.0)).law
    assert isinstance(known, TokenBudget)
    assert decide(known, EngineSample(capacity_tokens=500)).tokens == 500.0


@pytest.mark.parametrize(
    ("sample", "known"),
    [(EngineSample(pinned_usage=0.1), {}), (POOL, {"measured": False, "first_context": None})],
    ids=["capacity unknown", "contexts unknown"],
)
def test_without_capacity_or_contexts_another_law_decides(sample: EngineSample, known: dict[str, Any]) -> None:
    decision = decide(TokenBudget(without=FixedWindow(3)), sample, **known)
    assert (decision.window, decision.tokens) == (3, math.inf)


def test_the_other_law_may_remember() -> None:
    first = TokenBudget().decide(EngineSample(pinned_usage=0.1), Population(window=16))
    assert (first.window, first.reason) == (18, Reason.GROW)  # the paper's
    assert isinstance(first.law, TokenBudget)


@pytest.mark.parametrize(
    "parameters",
    [{"fill": 0}, {"fill": 1.1}, {"reserve": -0.1}, {"low_reuse": 2}, {"start": 0.5}, {"trust": 0}],
)
def test_parameter_out_of_range_is_named(parameters: dict[str, float]) -> None:
    ((name, value),) = parameters.items()
    with pytest.raises(ValueError, match=rf"TokenBudget: {name} must be .* got {value}"):
        TokenBudget(**parameters)  # type: ignore[arg-type]
