"""Tokens of the agents' own replies, and the thrash signal made from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents import Population, TokenUsage
from concur_agents.meter import Meter, Sums


def step(
    meter: Meter,
    agent: str,
    prompt: int | None,
    cached: int | None,
    output: int | None = 0,
    *,
    kept_seat: bool = True,
    began: float = 0.0,
    ended: float = 0.0,
) -> None:
    meter.begin(agent, began, kept_seat=kept_seat)
    meter.observe(agent, TokenUsage(prompt=prompt, cached=cached, output=output))
    meter.end(agent, ended)


def seen(meter: Meter) -> Population:
    return meter.annotate(Population(window=1))


@pytest.fixture
def meter() -> Meter:
    """One in which agent ``a`` has taken its first step: 100 tokens in context."""
    meter = Meter()
    step(meter, "a", 90, 0, 10, kept_seat=False)
    return meter


def test_first_step_is_cold_and_says_nothing_of_reuse(meter: Meter) -> None:
    assert seen(meter).reuse is None
    assert seen(meter).cold_share == 1.0


def test_reuse_is_the_share_of_the_old_context_that_was_still_cached(meter: Meter) -> None:
    step(meter, "a", 140, 75)
    assert seen(meter).reuse == 0.75


def test_tokens_cached_beyond_the_old_context_are_another_agents_doing(meter: Meter) -> None:
    step(meter, "a", 140, 140)
    assert seen(meter).reuse == 1.0


def test_reuse_is_weighted_by_tokens_over_agents(meter: Meter) -> None:
    step(meter, "b", 300, 0, kept_seat=False)
    step(meter, "a", 100, 100)
    step(meter, "b", 300, 0)
    assert seen(meter).reuse == 100 / 400


def test_agent_that_lost_its_seat_is_not_counted(meter: Meter) -> None:
    step(meter, "a", 140, 0, kept_seat=False)
    assert seen(meter).reuse is None
    assert seen(meter).cold_share == 1.0


def test_agent_is_counted_again_once_it_kept_its_seat(meter: Meter) -> None:
    step(meter, "a", 100, 0, kept_seat=False)
    step(meter, "a", 100, 50)
    assert seen(meter).reuse == 0.5


def test_what_was_evicted_before_a_cut_or_restart_is_not_counted_after_it(meter: Meter) -> None:
    meter.new_epoch()
    step(meter, "a", 100, 0)
    assert seen(meter).reuse is None
    step(meter, "a", 100, 40)
    assert seen(meter).reuse == 0.4


def test_step_that_spans_a_cut_is_not_counted(meter: Meter) -> None:
    meter.begin("a", 0, kept_seat=True)
    meter.new_epoch()
    meter.observe("a", TokenUsage(prompt=100, cached=0, output=0))
    meter.end("a", 0)
    assert seen(meter).reuse is None


def test_sums_before_a_cut_are_dropped(meter: Meter) -> None:
    step(meter, "a", 100, 0)
    meter.new_epoch()
    assert seen(meter).reuse is None


@given(st.data())
def test_whenever_a_law_looks_nothing_is_counted_twice_and_nothing_is_lost(data: st.DataObject) -> None:
    """It takes its time, and agents go on meanwhile."""
    meter, seen, counted = Meter(), [], meter_sums()
    at_look: Sums | None = None
    for move in data.draw(st.lists(st.sampled_from(["step", "look", "reset"]), max_size=60)):
        if move == "look":
            at_look = meter.sums
        elif move == "reset":
            if at_look is not None:  # None: the law did not decide on what it saw
                seen.append(at_look)
                meter.reset(at_look)
                at_look = None
        else:
            agent, prompt = data.draw(st.sampled_from("abc")), data.draw(st.integers(0, 100))
            cached, kept = data.draw(st.integers(0, prompt)), data.draw(st.booleans())
            before = meter.sums
            step(meter, agent, prompt, cached, kept_seat=kept)
            for name in counted:
                counted[name] += getattr(meter.sums, name) - getattr(before, name)
    for name, total in counted.items():
        assert sum(getattr(each, name) for each in [*seen, meter.sums]) == total


def meter_sums() -> dict[str, int]:
    return dict.fromkeys(("kept", "expected", "computed", "cold", "begun"), 0)


def test_sums_that_a_cut_began_anew_are_not_taken_below_nothing(meter: Meter) -> None:
    """Between what a law saw and its decision nothing may cut, but if it does no sum is nonsense."""
    step(meter, "a", 100, 0)
    seen_by_law = meter.sums
    meter.new_epoch()
    meter.reset(seen_by_law)
    assert (meter.sums.kept, meter.sums.expected) == (0, 0)


def test_computed_is_what_was_not_cached(meter: Meter) -> None:
    assert seen(meter).computed == 90
    step(meter, "a", 150, 100)
    step(meter, "b", 80, 80, kept_seat=False)
    assert seen(meter).computed == 90 + 50
    meter.reset(meter.sums)
    assert seen(meter).computed == 0


def test_what_was_computed_is_unknown_where_replies_do_not_say_what_was_cached() -> None:
    meter = Meter()
    step(meter, "a", 90, None, kept_seat=False)
    assert seen(meter).computed is None


def test_reset_begins_new_sums(meter: Meter) -> None:
    step(meter, "a", 100, 0)
    meter.reset(meter.sums)
    assert seen(meter).reuse is None
    step(meter, "a", 100, 100)
    assert seen(meter).reuse == 1.0


def test_compaction_expects_only_what_is_still_asked_for(meter: Meter) -> None:
    step(meter, "a", 40, 30)
    assert seen(meter).reuse == 0.75
    assert meter.totals.recomputed == 10


def test_recomputed_counts_lost_context_but_no_cold_start(meter: Meter) -> None:
    assert meter.totals.recomputed == 0
    step(meter, "a", 150, 80)
    assert meter.totals.recomputed == 20


def test_recomputed_counts_what_parking_cost_too(meter: Meter) -> None:
    step(meter, "a", 150, 0, kept_seat=False)
    assert meter.totals.recomputed == 100


def test_last_observation_of_a_step_counts_once() -> None:
    """Streams report running counts."""
    meter = Meter()
    meter.begin("a", 0, kept_seat=False)
    for output in (1, 2, 3):
        meter.observe("a", TokenUsage(prompt=10, cached=0, output=output))
    meter.end("a", 0)
    meter.end("a", 0)
    assert (meter.totals.prompt, meter.totals.output) == (10, 3)
    assert meter.context("a") == 13


def test_observation_of_a_step_that_was_never_ended_is_dropped_by_the_next() -> None:
    meter = Meter()
    meter.begin("a", 0, kept_seat=False)
    meter.observe("a", TokenUsage(prompt=10))
    meter.begin("a", 0, kept_seat=True)
    meter.end("a", 0)
    assert meter.totals.prompt == 0


def test_nothing_reported_is_unknown_and_not_zero() -> None:
    meter = Meter()
    step(meter, "a", 10, None)
    step(meter, "a", 10, None)
    assert (meter.totals.cached, meter.totals.recomputed) == (None, None)
    assert (seen(meter).reuse, seen(meter).reports_reuse) == (None, False)


def test_zero_reported_is_known() -> None:
    meter = Meter()
    step(meter, "a", 10, 0)
    assert (meter.totals.cached, meter.totals.recomputed) == (0, 0)
    assert seen(meter).reports_reuse


def test_an_agent_whose_replies_told_of_cached_tokens_found_none_where_one_leaves_them_out(meter: Meter) -> None:
    step(meter, "a", 140, 75)
    step(meter, "a", 160, None)
    assert meter.totals.cached == 75
    assert meter.totals.recomputed == 25 + 140
    assert seen(meter).reuse == 75 / 240


@pytest.mark.parametrize("prompt", [160, None], ids=["not told before", "a reply that tells nothing at all"])
def test_what_is_left_out_else_stays_unknown(meter: Meter, prompt: int | None) -> None:
    step(meter, "b", 100, 50, kept_seat=False)  # whose client says it: another's need not
    step(meter, "a" if prompt else "b", prompt, None)
    assert meter.totals.recomputed == 0
    assert seen(meter).reuse is None


def test_unknown_prompt_keeps_the_context_it_last_knew(meter: Meter) -> None:
    step(meter, "a", None, None, None)
    assert meter.context("a") == 100


def test_unknown_output_makes_the_prompt_a_lower_bound() -> None:
    meter = Meter()
    step(meter, "a", 10, None, None)
    assert meter.context("a") == 10


def test_step_without_usage_counts_as_a_step(meter: Meter) -> None:
    meter.begin("a", 0, kept_seat=True)
    meter.end("a", 0)
    assert meter.steps("a") == 2
    assert meter.context("a") == 100


def test_agent_that_keeps_its_seat_is_not_cold_even_if_nothing_was_ever_observed() -> None:
    """Else the counters' hit rate could never be used where replies are not observed."""
    meter = Meter()
    meter.begin("a", 0, kept_seat=False)
    for _ in range(3):
        meter.begin("a", 0, kept_seat=True)
    assert seen(meter).cold_share == 0.25


def test_cold_share_of_a_tick_without_steps_is_the_last_one(meter: Meter) -> None:
    assert Meter().annotate(Population(window=1)).cold_share is None
    meter.reset(meter.sums)
    assert seen(meter).cold_share == 1.0
    meter.reset(meter.sums)
    assert seen(meter).cold_share == 1.0
    meter.begin("a", 0, kept_seat=True)
    assert seen(meter).cold_share == 0.0


def test_forgotten_agent_is_cold_again(meter: Meter) -> None:
    meter.forget("a")
    assert (meter.steps("a"), meter.context("a")) == (0, None)
    step(meter, "a", 100, 0)
    assert seen(meter).reuse is None
    assert meter.totals.recomputed == 0


def test_forgetting_keeps_the_totals(meter: Meter) -> None:
    meter.forget("a")
    meter.forget("nobody")
    assert (meter.totals.prompt, meter.totals.output) == (90, 10)


def test_ending_what_was_never_begun_changes_nothing() -> None:
    meter = Meter()
    meter.end("ghost", 0)
    assert meter.totals == Meter().totals


def test_mean_context_is_of_agents_that_are_known_and_have_one() -> None:
    meter = Meter()
    assert meter.annotate(Population(window=1)).mean_context is None
    for agent, prompt in (("a", 100), ("b", 300), ("a", 200)):
        meter.begin(agent, 0, kept_seat=True)
        meter.observe(agent, TokenUsage(prompt=prompt, output=0))
        meter.end(agent, 0)
    meter.begin("new", 0, kept_seat=False)
    assert meter.annotate(Population(window=1)).mean_context == 250
    meter.forget("b")
    assert meter.annotate(Population(window=1)).mean_context == 200
    meter.forget("a")
    assert meter.annotate(Population(window=1)).mean_context is None


# --- sizes ---


def test_what_contexts_hold_is_averaged_over_first_steps_growth_and_ends(meter: Meter) -> None:
    step(meter, "b", 280, 0, 20, kept_seat=False)
    step(meter, "a", 140, 100, 20)
    step(meter, "b", 350, 300, 10)
    population = seen(meter)
    assert population.first_context == pytest.approx((100 + 300) / 2)
    assert population.growth == pytest.approx((60 + 60) / 2)
    meter.forget("a")
    ends = meter.forecast()()
    assert ends.goes_on(100, 59) == 1
    assert ends.goes_on(100, 60) == 1 / 2  # a ended at 160, b goes on at 360


def test_what_a_step_generates_is_averaged_over_those_that_say_so(meter: Meter) -> None:
    assert seen(Meter()).generated is None
    assert seen(meter).generated == 10
    step(meter, "a", 140, 100, 30)
    step(meter, "a", 180, 140, None)
    assert seen(meter).generated == pytest.approx(20)


def test_growth_and_cycle_are_those_of_first_steps_until_somebody_came_back() -> None:
    """As much as they began with, in as long as that took."""
    meter = Meter()
    assert (seen(meter).growth, seen(meter).cycle_s, meter.growth) == (None, None, 0)
    for agent, prompt, ended in (("a", 1000, 3.0), ("b", 2000, 5.0)):
        step(meter, agent, prompt, 0, kept_seat=False, began=1.0, ended=ended)
    assert (seen(meter).growth, seen(meter).cycle_s, meter.growth) == (1500, 3, 1500)


def test_growth_and_cycle_are_those_of_agents_that_came_back_once_there_are_any() -> None:
    meter = Meter()
    for number in range(50):
        step(meter, f"new{number}", 1000, 0, kept_seat=False, began=0.0, ended=3.0)
    step(meter, "new0", 1100, 1000, 50, began=20.0, ended=33.0)
    assert (seen(meter).growth, seen(meter).cycle_s, meter.growth) == (150, 30, 150)  # tool and step


def test_an_agent_that_was_parked_meanwhile_says_nothing_of_the_cycle() -> None:
    meter = Meter()
    step(meter, "a", 100, 0, kept_seat=False, began=0.0, ended=2.0)
    step(meter, "a", 100, 0, kept_seat=False, began=100.0, ended=104.0)
    assert seen(meter).cycle_s == 2
    step(meter, "a", 100, 0, began=110.0, ended=114.0)
    assert seen(meter).cycle_s == 10


def test_an_agent_that_finishes_in_its_tool_ends_no_step() -> None:
    """Its way out ends whatever step runs, and mostly none does."""
    meter = Meter()
    step(meter, "a", 100, 0, kept_seat=False, began=0.0, ended=2.0)
    step(meter, "a", 100, 100, began=8.0, ended=12.0)
    meter.end("a", 12.0)
    meter.forget("a")
    assert seen(meter).cycle_s == 10
    step(meter, "b", None, None, None, kept_seat=False)
    step(meter, "c", 10, 0, kept_seat=False)
    meter.end("c", 0)
    meter.end("c", 0)
    assert seen(meter).measured  # three of four steps


def test_an_agent_that_drops_history_has_not_grown(meter: Meter) -> None:
    step(meter, "a", 40, 40, 10)
    assert seen(meter).growth == 0


def test_later_agents_count_more_once_there_were_many() -> None:
    meter = Meter()
    for number in range(300):
        step(meter, f"early{number}", 100, 0, kept_seat=False)
    for number in range(300):
        step(meter, f"late{number}", 200, 0, kept_seat=False)
    first = seen(meter).first_context
    assert first is not None
    assert 190 < first < 200


def test_shared_prefix_is_what_new_agents_find_of_others(meter: Meter) -> None:
    assert seen(meter).shared_prefix == 0
    step(meter, "b", 300, 80, 0, kept_seat=False)
    assert seen(meter).shared_prefix == 80
    assert meter.footprint("b") == 220
    assert meter.footprint("a") == 20
    assert meter.footprint("nobody") is None
    assert meter.first_footprint == pytest.approx(200 - 80)


def test_whether_replies_have_usage_is_known_once_a_step_has_ended() -> None:
    meter = Meter()
    assert seen(meter).measured is None
    step(meter, "a", None, None, None, kept_seat=False)
    assert seen(meter).measured is False
    step(meter, "a", 10, None)
    assert seen(meter).measured is True
