"""The token budget: what it lets be seated, what it learns, and what it does without."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from concur_agents import Decision, EngineSample, FixedWindow, Population, Reason, TokenBudget

POOL = EngineSample(capacity_tokens=1000)
PLAIN = TokenBudget(margin=0.0)


def seen(**known: Any) -> Population:
    """Agents whose replies say everything; nothing is amiss."""
    usual = {"measured": True, "first_context": 50.0, "mean_context": 100.0, "reports_reuse": True, "elapsed_s": 1.0}
    return Population(window=math.inf, **{**usual, "waiting": 3, **known})


def decide(law: TokenBudget, sample: EngineSample = POOL, **known: Any) -> Decision:
    return law.decide(sample, seen(**known))


def after(decision: Decision) -> TokenBudget:
    assert isinstance(decision.law, TokenBudget)
    return decision.law


# --- the budget ---


def test_budget_is_the_pool_without_the_margin_with_the_shared_prefix_in_it_once() -> None:
    decision = decide(TokenBudget(margin=0.1), shared_prefix=40.0)
    assert (decision.window, decision.tokens, decision.reason) == (math.inf, 860.0, Reason.FOLLOW)


def test_budget_is_never_below_nothing() -> None:
    assert decide(PLAIN, shared_prefix=2000.0).tokens == 0


def test_what_requests_hold_beyond_what_agents_are_known_to_is_taken_off() -> None:
    """As first prompts are: their agents have not replied yet."""
    pinned = replace(POOL, pinned_usage=0.5)
    assert decide(PLAIN, pinned, held=300.0, shared_prefix=50.0).tokens == 1000 - 50 - (500 - 50 - 300)
    assert decide(PLAIN, pinned, held=700.0).tokens == 1000


def test_capacity_is_remembered_so_that_no_later_reading_is_needed() -> None:
    law = after(decide(PLAIN))
    assert decide(law, EngineSample(), shared_prefix=100.0).tokens == 900
    assert law.capacity == 1000


def test_an_engine_that_came_back_with_another_pool_is_heard() -> None:
    assert decide(after(decide(PLAIN)), EngineSample(capacity_tokens=500)).tokens == 500


def test_nothing_of_what_it_learns_changes_the_law_itself() -> None:
    decide(PLAIN, reuse=0.1)
    assert TokenBudget(margin=0.0) == PLAIN


# --- before the first reply ---


def test_as_many_are_seated_as_it_starts_with_until_somebody_has_replied() -> None:
    law = TokenBudget(start=5)
    assert law.initial == 5
    decision = law.decide(EngineSample(), Population(window=5))
    assert (decision.window, decision.reason, decision.ahead) == (5, Reason.START, 0)


def test_a_large_pool_begins_with_as_many_as_it_holds_of_long_first_prompts() -> None:
    decision = TokenBudget(start=5).decide(EngineSample(capacity_tokens=100 * 8192), Population(window=5))
    assert (decision.window, decision.reason) == (100, Reason.START)


def test_in_a_small_pool_some_begin_all_the_same() -> None:
    assert TokenBudget(start=500).decide(POOL, Population(window=5)).window == 4


def test_with_the_first_reply_tokens_count_and_heads_do_not() -> None:
    law = after(TokenBudget(start=5).decide(POOL, Population(window=5)))
    assert decide(law).window == math.inf


# --- look-ahead and patience, in refills ---


def timed(law: TokenBudget = PLAIN, *, speed: float = 100.0) -> TokenBudget:
    """After four samples of a second each in which the engine has prefilled so much: a refill is ten seconds."""
    for _ in range(4):
        law = after(decide(law, replace(POOL, computed=speed, elapsed_s=1.0)))
    return replace(law, seen_s=1000.0)


def test_a_refill_is_the_pool_at_the_fastest_prefill_seen() -> None:
    assert timed().refill_s == 10
    assert timed(timed(), speed=10.0).refill_s == 10
    assert timed(timed(), speed=200.0).refill_s == 5


def test_prefill_is_measured_over_some_samples_and_not_in_one() -> None:
    law = PLAIN
    for computed in (400.0, 0.0, 0.0):
        law = after(decide(law, replace(POOL, computed=computed, elapsed_s=1.0)))
        assert law.refill_s == math.inf
    assert after(decide(law, replace(POOL, computed=0.0, elapsed_s=1.0))).refill_s == 10


def test_where_counters_do_not_tell_prefill_is_what_replies_say_was_not_cached() -> None:
    law = PLAIN
    for _ in range(4):
        law = after(decide(law, computed=50.0, elapsed_s=1.0))
    assert law.refill_s == 20


def test_look_ahead_is_what_agents_grow_by_in_a_refill() -> None:
    assert decide(timed(), growth=7.0, cycle_s=2.0).ahead == 10 / 2 * 7
    assert decide(timed(TokenBudget(ahead=0.5)), growth=7.0, cycle_s=2.0).ahead == 0.5 * 10 / 2 * 7
    assert decide(timed(TokenBudget(ahead=0.0)), growth=7.0, cycle_s=2.0).ahead == 0


def test_look_ahead_of_an_unknown_refill_is_a_minute() -> None:
    assert decide(PLAIN, growth=7.0, cycle_s=2.0, elapsed_s=100.0).ahead == 60 / 2 * 7


def test_it_looks_no_further_ahead_than_back() -> None:
    """A refill seems long while the engine has had little to do, and nobody knows how long a cycle will be."""
    law = after(decide(PLAIN, growth=7.0, cycle_s=2.0, elapsed_s=1.0))
    assert decide(law, growth=7.0, cycle_s=2.0, elapsed_s=3.0).ahead == 4 / 2 * 7


@pytest.mark.parametrize("known", [{"growth": 7.0}, {"cycle_s": 2.0}, {"growth": 7.0, "cycle_s": 0.0}])
def test_while_nobody_knows_how_fast_agents_grow_each_may_double(known: dict[str, Any]) -> None:
    assert decide(timed(), **known).ahead == 50.0


def test_patience_is_in_refills_and_without_end_while_that_is_unknown() -> None:
    assert decide(PLAIN).patience_s == math.inf
    assert decide(timed()).patience_s == 10
    assert decide(timed(TokenBudget(patience=3.0))).patience_s == 30


# --- trust ---


def test_trust_falls_when_agents_that_kept_their_seats_lost_their_contexts() -> None:
    decision = decide(PLAIN, reuse=0.84)
    assert (decision.reason, decision.tokens) == (Reason.CUT, 950)
    assert decide(PLAIN, reuse=0.85).reason is Reason.FOLLOW
    assert decide(TokenBudget(margin=0.0, lost=0.5), reuse=0.51).reason is Reason.FOLLOW


def test_what_is_lost_while_more_is_held_than_the_budget_says_nothing_of_the_pool() -> None:
    assert decide(PLAIN, reuse=0.1, held=901.0, tokens=900.0).reason is Reason.FOLLOW
    assert decide(PLAIN, reuse=0.1, held=900.0, tokens=900.0).reason is Reason.CUT


@pytest.mark.parametrize(
    ("queued", "pinned", "reason"),
    [
        (1, 0.95, Reason.FOLLOW),
        (1, None, Reason.FOLLOW),
        (1, 0.7, Reason.CUT),
        (0, 0.95, Reason.CUT),
        (None, None, Reason.CUT),
    ],
)
def test_what_is_lost_while_requests_wait_for_memory_says_nothing_of_the_pool(
    queued: int | None, pinned: float | None, reason: Reason
) -> None:
    assert decide(PLAIN, replace(POOL, queued=queued, pinned_usage=pinned), reuse=0.1, held=900.0).reason is reason


def test_no_second_cut_before_each_agent_has_come_back_since_the_first() -> None:
    """What was lost before the cut shows only then."""
    cut = decide(PLAIN, reuse=0.1, cycle_s=1.0, elapsed_s=1.0)
    assert cut.reason is Reason.CUT
    law, reasons = after(cut), []
    for _ in range(3):
        decision = decide(law, reuse=0.1, cycle_s=2.5, elapsed_s=1.0)
        law, reasons = after(decision), [*reasons, decision.reason]
    assert reasons == [Reason.FOLLOW, Reason.FOLLOW, Reason.CUT]
    assert law.trust == pytest.approx(0.95**2)


def test_trust_is_won_back_slowly_while_nothing_is_lost() -> None:
    law = after(decide(PLAIN, reuse=0.1))
    decision = decide(law, reuse=0.98, elapsed_s=1.0, cycle_s=1.0)
    assert (decision.reason, decision.tokens) == (Reason.GROW, pytest.approx(950 * 1.02))
    assert decide(law, reuse=0.98, elapsed_s=1.0, cycle_s=2.0).tokens == pytest.approx(950 * 1.02**0.5)
    assert decide(law, reuse=0.9, elapsed_s=1.0, cycle_s=1.0).reason is Reason.FOLLOW
    for _ in range(20):
        law = after(decide(law, reuse=1.0, elapsed_s=1.0, cycle_s=1.0))
    assert law.trust == 1


def test_a_tenth_of_the_pool_is_always_trusted() -> None:
    law = PLAIN
    for _ in range(100):
        law = after(decide(law, reuse=0.0))
    assert decide(law).tokens == pytest.approx(100)


def test_retractions_count_where_replies_do_not_report_what_was_cached() -> None:
    retracted = replace(POOL, retractions=1.0)
    assert decide(PLAIN, retracted, reports_reuse=False).reason is Reason.CUT
    assert decide(PLAIN, retracted, reuse=1.0).reason is Reason.FOLLOW
    assert decide(PLAIN, replace(POOL, retractions=0.0), reports_reuse=False).reason is Reason.FOLLOW


def test_the_engines_hit_rate_counts_where_replies_do_not_report_what_was_cached() -> None:
    """What a step adds to its context must miss: 25 of 125. And what began cold: one step in five."""
    known = {"reports_reuse": False, "mean_context": 100.0, "growth": 25.0}
    kept = replace(POOL, hit_rate=0.8)
    assert decide(PLAIN, kept, **known, cold_share=0.0).reason is Reason.FOLLOW
    assert decide(PLAIN, replace(POOL, hit_rate=0.8 * 0.8), **known, cold_share=0.2).reason is Reason.FOLLOW
    assert decide(PLAIN, replace(POOL, hit_rate=0.8 * 0.8), **known, cold_share=0.0).reason is Reason.CUT


@pytest.mark.parametrize("cold", [0.6, None])
def test_the_engines_hit_rate_says_nothing_while_most_steps_are_cold(cold: float | None) -> None:
    known = {"reports_reuse": False, "mean_context": 100.0, "growth": 25.0, "cold_share": cold}
    assert decide(PLAIN, replace(POOL, hit_rate=0.0), **known).reason is Reason.FOLLOW


def test_while_nobody_came_back_nothing_is_known_to_be_lost() -> None:
    assert decide(PLAIN, replace(POOL, hit_rate=0.0), reuse=None, growth=25.0, cold_share=0.0).reason is Reason.FOLLOW


# --- where the engine does not say its capacity ---


BLIND = EngineSample()


def test_without_a_capacity_as_much_is_held_as_it_starts_with() -> None:
    decision = decide(TokenBudget(margin=0.0, start=4), BLIND)
    assert (decision.tokens, decision.reason) == (4 * 50, Reason.START)


def test_without_a_capacity_more_is_tried_while_nothing_is_lost_and_somebody_waits() -> None:
    law = after(decide(TokenBudget(margin=0.0, start=4), BLIND))
    assert decide(law, BLIND, reuse=1.0, cycle_s=1.0).tokens == 400
    assert decide(law, BLIND, reuse=1.0, cycle_s=2.0).tokens == pytest.approx(200 * math.sqrt(2))
    assert decide(law, BLIND, reuse=1.0, cycle_s=1.0, waiting=0).tokens == 200
    assert decide(law, BLIND, reuse=0.9, cycle_s=1.0).tokens == 200
    assert decide(law, BLIND, reuse=None, cycle_s=1.0).tokens == 200


def test_without_a_capacity_what_was_held_when_contexts_were_lost_was_too_much() -> None:
    law = after(decide(TokenBudget(margin=0.0, start=20), BLIND))
    cut = decide(law, BLIND, reuse=0.8, held=700.0, shared_prefix=100.0)
    assert (cut.reason, cut.tokens) == (Reason.CUT, pytest.approx(800 * 0.8 * 0.9 - 100))
    slower = decide(after(cut), BLIND, reuse=1.0, cycle_s=1.0)
    assert (slower.reason, slower.tokens) == (Reason.GROW, pytest.approx(800 * 0.8 * 0.9 * 1.1))


def test_a_capacity_that_is_said_later_is_believed() -> None:
    law = after(decide(after(decide(PLAIN, BLIND)), BLIND, reuse=0.5, held=100.0))
    assert decide(law, POOL).tokens == 1000 * law.trust


# --- where replies do not say how long contexts are ---


def test_without_usage_another_law_decides() -> None:
    decision = decide(TokenBudget(without=FixedWindow(3)), measured=False, first_context=None)
    assert (decision.window, decision.tokens, decision.reason) == (3, math.inf, Reason.FIXED)


def test_the_papers_law_decides_by_default_and_knows_nothing_without_a_reading() -> None:
    known = {"measured": False, "first_context": None}
    assert decide(TokenBudget(), replace(POOL, pinned_usage=0.1), **known).reason is Reason.GROW
    assert decide(TokenBudget(), BLIND, **known).reason is Reason.UNKNOWN


def test_the_other_law_may_remember() -> None:
    class Remembers(FixedWindow):
        def decide(self, sample: EngineSample, population: Population) -> Decision:
            return Decision(self.n, Reason.FIXED, FixedWindow(self.n + 1))

    law = after(decide(TokenBudget(without=Remembers(3)), measured=False))
    assert law.without == FixedWindow(4)
    assert law.capacity == 1000
    assert decide(law, measured=True).tokens == 950  # and is not asked once replies say so


# --- parameters ---


@pytest.mark.parametrize(
    "parameters",
    [
        {"margin": -0.1},
        {"margin": 1.1},
        {"margin": True},
        {"ahead": -1},
        {"ahead": math.nan},
        {"patience": 0},
        {"lost": 2},
        {"lost": "much"},
        {"start": 0.5},
        {"trust": 0},
    ],
)
def test_parameter_out_of_range_is_named_with_its_value(parameters: dict[str, Any]) -> None:
    ((name, value),) = parameters.items()
    with pytest.raises(ValueError, match=rf"TokenBudget: {name} must be .* got {value!r}"):
        TokenBudget(**parameters)


@pytest.mark.parametrize(
    "edge", [{"margin": 0}, {"ahead": 0}, {"patience": math.inf}, {"lost": 0}, {"lost": 1}, {"start": math.inf}]
)
def test_edges_of_the_ranges_are_allowed(edge: dict[str, Any]) -> None:
    TokenBudget(**edge)


def test_what_is_lost_while_nobody_holds_anything_teaches_nothing() -> None:
    law = TokenBudget(start=4)
    for known in ({}, {"held": 0.0, "reuse": 0.2}, {"held": 1.0, "reuse": 0.1}):
        decided = law.decide(EngineSample(), seen(reports_reuse=True, elapsed_s=1.0, cycle_s=1.0, waiting=3, **known))
        assert isinstance(decided.law, TokenBudget)
        law = decided.law
    assert law.learned >= 50.0  # a first context at least


def test_where_neither_capacity_nor_cache_is_told_another_law_decides() -> None:
    law = TokenBudget(without=FixedWindow(3))
    assert law.decide(EngineSample(), seen(reports_reuse=False)).window == 3
    assert law.decide(EngineSample(), Population(window=16)).reason is Reason.START


def test_the_look_ahead_shrinks_when_only_the_last_few_wait() -> None:
    def ahead(waiting: int) -> float:
        return decide(TokenBudget(), growth=10.0, cycle_s=5.0, waiting=waiting, seated=100).ahead

    assert ahead(0) == 0
    assert ahead(10) == pytest.approx(ahead(20) / 2)
    assert ahead(20) == ahead(500)


@pytest.mark.parametrize("parameters", [{"margin": 1}, {"ahead": math.inf}])
def test_bounds_that_cannot_be_are_refused(parameters: dict[str, float]) -> None:
    (name,) = parameters
    with pytest.raises(ValueError, match=f"TokenBudget: {name} must be"):
        TokenBudget(**parameters)  # type: ignore[arg-type]


def test_what_is_lost_is_no_reason_to_run_fewer_where_agents_generate_most_of_what_they_hold() -> None:
    """Without a capacity: prefill is then little beside decoding, and more may be tried whether or not it is lost."""
    law = after(decide(TokenBudget(margin=0.0, start=4), BLIND, reports_reuse=True))
    known = {"reports_reuse": True, "reuse": 0.1, "held": 200.0, "elapsed_s": 1.0, "cycle_s": 1.0, "waiting": 3}
    cheap = decide(law, BLIND, **known, computed=390.0, output=100.0)
    assert (cheap.reason, cheap.tokens) == (Reason.GROW, 400)
    assert decide(after(cheap), BLIND, **known).reason is Reason.GROW  # until the next replies tell
    assert decide(law, BLIND, **known, computed=400.0, output=100.0).reason is Reason.CUT


# --- contexts that are worth little ---


def test_where_steps_generate_most_of_what_agents_hold_everybody_is_in() -> None:
    """The engine serves them in turn; who waits for a seat would start late, and end alone."""
    decision = decide(PLAIN, mean_context=299.0, generated=100.0, held=5000.0)
    assert (decision.window, decision.tokens, decision.patience_s) == (math.inf, math.inf, math.inf)
    assert decide(PLAIN, mean_context=339.0, generated=100.0, shared_prefix=40.0).tokens == math.inf
    assert decide(PLAIN, mean_context=300.0, generated=100.0).tokens == 1000


@pytest.mark.parametrize("unknown", [{"generated": None}, {"mean_context": None, "generated": 100.0}])
def test_while_nobody_knows_what_contexts_are_worth_they_are_kept(unknown: dict[str, Any]) -> None:
    assert decide(PLAIN, **unknown).tokens == 1000


def test_what_is_lost_while_everybody_is_in_says_nothing_of_the_pool_nor_in_the_cycle_after_it() -> None:
    law = PLAIN
    for _ in range(5):
        law = after(decide(law, mean_context=100.0, generated=100.0, reuse=0.0, cycle_s=3.0))
    assert law.trust == 1
    trusts = []
    for _ in range(3):
        law = after(decide(law, mean_context=900.0, generated=100.0, reuse=0.0, cycle_s=3.0))
        trusts.append(law.trust)
    assert trusts == [1, 1, 0.95]
