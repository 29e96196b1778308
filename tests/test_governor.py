"""When a law is asked, and whether its answer is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from concur_agents import (
    Clamped,
    ConcurLaw,
    Decision,
    EngineSample,
    FixedWindow,
    Population,
    Reason,
    Smoothed,
    TokenBudget,
    Uncontrolled,
)
from concur_agents.governor import Governor

STALE_AFTER = 30.0
BUSY = Population(window=0, seated=10, generating=8, in_tool=2, waiting=5)
CALM = Population(window=0, seated=10, generating=8, in_tool=2, waiting=0)
IDLE = Population(window=0)


@dataclass
class Scripted:
    """Says, or raises, what it is told to; remembers what it was asked."""

    answers: list[Any]
    initial: float = 8.0
    asked: list[tuple[EngineSample, Population]] = field(default_factory=list)

    def decide(self, sample: EngineSample, population: Population) -> Any:
        self.asked.append((sample, population))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def govern(law: Any, *, fallback: float = math.inf, history: int = 100) -> Governor:
    return Governor(law, stale_after=STALE_AFTER, fallback=fallback, now=0.0, history=history)


def grow(window: float) -> Decision:
    return Decision(window, Reason.GROW)


def cut(window: float) -> Decision:
    return Decision(window, Reason.CUT)


def hold(window: float = 8) -> Decision:
    return Decision(window, Reason.HOLD)


def reading(number: int, **fields: Any) -> EngineSample:
    """A reading unlike those of other numbers."""
    return EngineSample(pinned_usage=0.9, query_tokens_total=number, hit_tokens_total=0, **fields)


# --- contexts lost from a cache with room ---


SCATTERED = replace(BUSY, window=8, held=30_000.0, reuse=0.1, reports_reuse=True, measured=True, mean_context=3000.0)


def test_contexts_lost_from_a_cache_with_room_are_told_and_not_answered_with_a_cut() -> None:
    governor = govern(ConcurLaw(start=8))
    for now in range(1, 7):
        governor.read(reading(now, occupied_usage=0.3, capacity_tokens=100_000), SCATTERED, 0, now)
    assert governor.window == 8
    assert governor.problem is not None
    assert "router" in governor.problem
    for now in range(7, 13):
        governor.read(reading(now, occupied_usage=0.95, capacity_tokens=100_000), SCATTERED, 0, now)
    assert governor.problem is None
    assert governor.window < 8  # the cache is full: that is eviction


# --- once per fresh sample ---


def test_law_sees_a_reading_once_and_then_only_the_agents() -> None:
    law = Scripted([cut(4), Decision(4, Reason.UNKNOWN)])
    governor = govern(law)
    for now in range(5):
        governor.read(reading(1), BUSY, 0, now)
        assert governor.decided == (now == 0)
    assert [sample for sample, _ in law.asked] == [reading(1), *[EngineSample()] * 4]
    assert (governor.window, governor.reason, governor.problem) == (4, Reason.CUT, None)


def test_law_sees_deltas_and_the_window_it_chose() -> None:
    law = Scripted([cut(4), hold(4)])
    governor = govern(law)
    governor.read(EngineSample(query_tokens_total=100, hit_tokens_total=0), BUSY, 0, 1)
    governor.read(EngineSample(query_tokens_total=200, hit_tokens_total=50), BUSY, 0, 2)
    assert [sample.hit_rate for sample, _ in law.asked] == [None, 0.5]
    assert [population.window for _, population in law.asked] == [8, 4]


def test_time_between_two_samples_is_that_between_fresh_readings() -> None:
    law = Scripted([hold()])
    governor = govern(law)
    for now, number in ((1, 1), (3, 2), (5, 2), (9, 3)):
        governor.read(reading(number), BUSY, 0, now)
    assert [sample.elapsed_s for sample, _ in law.asked] == [None, 2, None, 6]


def test_law_that_remembers_is_followed_by_its_successor() -> None:
    second = Scripted([cut(1)])
    governor = govern(Scripted([Decision(8, Reason.HOLD, second)]))
    governor.read(reading(1), BUSY, 0, 1)
    governor.read(reading(2), BUSY, 0, 2)
    assert governor.window == 1
    assert len(second.asked) == 1


# --- what is not taken ---


def test_growth_is_held_while_nobody_waits() -> None:
    governor = govern(Scripted([grow(10), grow(10)]))
    governor.read(reading(1), CALM, 0, 1)
    assert (governor.window, governor.reason) == (8, Reason.UNSATURATED)
    governor.read(reading(2), BUSY, 0, 2)
    assert (governor.window, governor.reason) == (10, Reason.GROW)


def test_cut_is_held_until_the_last_one_reached_every_boundary() -> None:
    governor = govern(Scripted([cut(4), cut(2), cut(2)]))
    governor.read(reading(1), BUSY, 0, 1)
    governor.read(reading(2), BUSY, 3, 2)
    assert (governor.window, governor.reason) == (4, Reason.UNSETTLED)
    governor.read(reading(3), BUSY, 0, 3)
    assert (governor.window, governor.reason) == (2, Reason.CUT)


def test_direction_counts_and_not_the_name_a_wrapper_gave_it() -> None:
    governor = govern(Scripted([Decision(10, Reason.CLAMPED), Decision(4, Reason.CLAMPED)]))
    governor.read(reading(1), CALM, 0, 1)
    assert governor.reason is Reason.UNSATURATED
    governor.read(reading(2), CALM, 1, 2)
    assert (governor.window, governor.reason) == (8, Reason.UNSETTLED)


def test_clamped_growth_is_held_too() -> None:
    governor = govern(Clamped(ConcurLaw(start=9), high=10))
    governor.read(EngineSample(pinned_usage=0.0), CALM, 0, 1)
    assert (governor.window, governor.reason) == (9, Reason.UNSATURATED)


def test_window_below_one_becomes_one() -> None:
    governor = govern(Scripted([cut(0.25)]))
    governor.read(reading(1), BUSY, 0, 1)
    assert governor.window == 1


def test_first_window_below_one_becomes_one_and_no_number_is_refused() -> None:
    assert govern(Scripted([], initial=0)).window == 1
    with pytest.raises(ValueError, match="window must be a number of agents, got nan"):
        govern(Scripted([], initial=math.nan))


# --- stale ---


def test_nothing_new_for_stale_after_falls_back_and_not_before() -> None:
    governor = govern(Scripted([cut(4), Decision(4, Reason.UNKNOWN)]), fallback=32)
    governor.read(reading(1), BUSY, 0, 1)
    governor.read(reading(1), BUSY, 0, 1 + STALE_AFTER)
    assert (governor.window, governor.problem) == (4, None)
    governor.read(reading(1), BUSY, 0, 1.1 + STALE_AFTER)
    assert (governor.window, governor.reason) == (32, Reason.STALE)
    assert governor.problem == "the engine's metrics have not changed for 30 s"


def test_recovery_goes_on_from_the_window_before_the_fallback() -> None:
    governor = govern(Scripted([cut(4), Decision(4, Reason.UNKNOWN), hold(4)]), fallback=32)
    governor.read(reading(1), BUSY, 0, 1)
    governor.read(reading(1), BUSY, 0, 100)
    assert governor.window == 32
    governor.read(reading(2), BUSY, 0, 101)
    assert (governor.window, governor.reason, governor.problem) == (4, Reason.RECOVERED, None)


def test_law_is_asked_on_recovery_with_its_own_window_and_not_the_fallback() -> None:
    law = Scripted([cut(4), Decision(4, Reason.UNKNOWN), hold(4)])
    governor = govern(law, fallback=32)
    governor.read(reading(1), BUSY, 0, 1)
    governor.read(reading(1), BUSY, 0, 100)
    governor.read(reading(2), BUSY, 0, 101)
    assert [population.window for _, population in law.asked] == [8, 4, 4]


def test_unreachable_engine_holds_and_then_falls_back() -> None:
    governor = govern(ConcurLaw(start=4), fallback=32)
    governor.missed("refused", BUSY, 0, 10)
    assert (governor.window, governor.problem) == (4, "refused")
    governor.missed("refused", BUSY, 0, STALE_AFTER + 0.1)
    assert (governor.window, governor.reason, governor.problem) == (32, Reason.STALE, "refused for 30 s")


def test_an_answer_ends_the_problem_even_if_it_says_nothing_new() -> None:
    governor = govern(ConcurLaw(start=4))
    governor.read(reading(1), IDLE, 0, 1)
    governor.missed("refused", IDLE, 0, 2)
    assert governor.problem == "refused"
    governor.read(reading(1), IDLE, 0, 3)
    assert governor.problem is None


def test_idle_engine_is_not_stale() -> None:
    governor = govern(ConcurLaw(start=4), fallback=32)
    for now in range(0, 1000, 10):
        governor.read(reading(1), IDLE, 0, now)
    assert (governor.window, governor.problem) == (4, None)


def test_staleness_counts_from_when_the_agents_began_to_generate_again() -> None:
    governor = govern(ConcurLaw(start=4), fallback=32)
    governor.read(reading(1), IDLE, 0, 0)
    governor.read(reading(1), IDLE, 0, 1000)
    governor.read(reading(1), BUSY, 0, 1000 + STALE_AFTER)
    assert governor.window == 4
    governor.read(reading(1), BUSY, 0, 1001 + STALE_AFTER)
    assert governor.window == 32


def test_samples_without_what_the_law_needs_hold_and_then_fall_back() -> None:
    governor = govern(ConcurLaw(start=4), fallback=32)
    for now in range(31):
        governor.read(EngineSample(running=now), BUSY, 0, now)
        assert (governor.window, governor.reason, governor.problem) == (4, Reason.UNKNOWN, None)
    governor.read(EngineSample(running=31), BUSY, 0, 31)
    assert (governor.window, governor.reason) == (32, Reason.STALE)
    assert governor.problem == "the engine's metrics lack what the law needs for 30 s"
    governor.read(EngineSample(running=32), BUSY, 0, 32)
    assert (governor.window, governor.reason) == (32, Reason.STALE)
    governor.read(EngineSample(pinned_usage=0.4), BUSY, 0, 33)
    assert (governor.window, governor.reason) == (4, Reason.RECOVERED)


@pytest.mark.parametrize("law", [FixedWindow(4), Uncontrolled(), Clamped(FixedWindow(8), high=4)])
def test_law_that_needs_no_sample_is_not_disturbed_by_their_absence(law: Any) -> None:
    governor = govern(law, fallback=32)
    for now in range(0, 200, 10):
        governor.missed("refused", BUSY, 0, now)
        governor.read(EngineSample(), BUSY, 0, now)
    assert governor.window == law.initial
    assert [change.reason for change in governor.history] == [Reason.START]


# --- without readings ---


KNOWN = Population(
    window=0, seated=8, generating=8, waiting=5, measured=True, first_context=50.0, mean_context=80.0, held=600.0
)


def test_a_token_budget_goes_on_by_replies_alone_and_is_never_stale() -> None:
    governor = govern(TokenBudget(margin=0.0), fallback=32)
    governor.read(EngineSample(capacity_tokens=1000), KNOWN, 0, 0)
    assert governor.tokens == 1000
    for now in range(1, 200, 10):
        governor.missed("refused", replace(KNOWN, shared_prefix=float(now)), 0, now)
        assert (governor.tokens, governor.window, governor.problem) == (1000 - now, math.inf, "refused")
        assert governor.decided
    governor.read(EngineSample(capacity_tokens=500), KNOWN, 0, 300)
    assert (governor.tokens, governor.reason, governor.problem) == (500, Reason.FOLLOW, None)


def test_metrics_that_stand_still_do_not_keep_a_token_budget_from_what_replies_say() -> None:
    governor = govern(TokenBudget(margin=0.0))
    for now, shared in enumerate((0, 100, 200)):
        governor.read(EngineSample(capacity_tokens=1000), replace(KNOWN, shared_prefix=shared), 0, now)
        assert governor.tokens == 1000 - shared


def test_the_papers_law_holds_without_readings_and_its_window_is_back_with_them() -> None:
    governor = govern(ConcurLaw(start=4), fallback=32)
    seen = []
    for now in range(0, 50, 10):
        governor.missed("refused", BUSY, 0, now)
        assert not governor.decided
        seen.append((governor.window, governor.reason))
    assert seen == [(4, Reason.START)] * 4 + [(32, Reason.STALE)]
    governor.read(reading(1), BUSY, 0, 51)
    assert (governor.window, governor.reason, governor.problem) == (4, Reason.RECOVERED, None)
    assert governor.decided


def test_agents_that_a_law_could_not_judge_without_a_reading_are_not_remembered_twice() -> None:
    """They are shown again, with what they did since, when a reading is there."""
    governor = govern(Smoothed(ConcurLaw(start=4), weight=0.5))
    governor.read(reading(1), replace(BUSY, reuse=1.0, reports_reuse=True), 0, 0)
    for now in range(1, 10):
        governor.read(reading(1), replace(BUSY, reuse=0.0, reports_reuse=True), 0, now)
    governor.read(reading(2), replace(BUSY, reuse=0.0, reports_reuse=True), 0, 10)
    assert isinstance(governor._law, Smoothed)
    assert governor._law.reuse == 0.5


def test_a_law_that_needs_no_reading_ends_a_fallback_without_one() -> None:
    governor = govern(Scripted([cut(4), RuntimeError("boom"), hold(4)]), fallback=32)
    governor.read(reading(1), BUSY, 0, 1)
    governor.read(reading(2), BUSY, 0, 2)
    assert (governor.window, governor.reason) == (32, Reason.LAW_FAILED)
    governor.read(reading(2), BUSY, 0, 3)
    assert (governor.window, governor.reason, governor.problem) == (4, Reason.RECOVERED, None)


# --- a law that fails ---


FAILURES = [
    RuntimeError("boom"),
    None,
    8,
    Decision(math.nan, Reason.GROW),
    Decision("many", Reason.GROW),  # type: ignore[arg-type]
    Decision(None, Reason.GROW),  # type: ignore[arg-type]
    Decision(8, Reason.GROW, tokens=math.nan),
    Decision(8, Reason.GROW, ahead=math.inf),
    Decision(8, Reason.GROW, ahead=-1.0),
    Decision(8, Reason.GROW, patience_s=math.nan),
]


@pytest.mark.parametrize("answer", FAILURES)
def test_law_that_fails_opens_up_until_it_works_again(answer: object) -> None:
    governor = govern(Scripted([cut(4), answer, answer, hold(4)]), fallback=32)
    governor.read(reading(1), BUSY, 0, 1)
    for number in (2, 3):
        governor.read(reading(number), BUSY, 0, number)
        assert (governor.window, governor.reason) == (32, Reason.LAW_FAILED)
        assert governor.problem is not None
        assert governor.problem.startswith("law Scripted failed: ")
    governor.read(reading(4), BUSY, 0, 4)
    assert (governor.window, governor.reason, governor.problem) == (4, Reason.RECOVERED, None)


def test_law_that_cannot_do_without_a_sample_fails_instead_of_hanging() -> None:
    governor = govern(Scripted([cut(4), TypeError("'<' not supported")]), fallback=32)
    governor.read(reading(1), BUSY, 0, 1)
    governor.missed("refused", BUSY, 0, 100)
    assert (governor.window, governor.reason) == (32, Reason.LAW_FAILED)


def test_law_that_cannot_do_without_a_sample_is_held_until_that_has_lasted() -> None:
    """It may be right but for not knowing what to say; metrics often stand still for some ticks."""
    governor = govern(Scripted([cut(4), TypeError("'<' not supported"), cut(2)]), fallback=32)
    governor.read(reading(1), BUSY, 0, 1)
    governor.read(reading(1), BUSY, 0, 2)
    assert (governor.window, governor.reason, governor.problem) == (4, Reason.CUT, None)
    assert not governor.decided
    governor.read(reading(2), BUSY, 0, 3)
    assert (governor.window, governor.reason) == (2, Reason.CUT)


def test_something_else_that_failed_opens_up_too() -> None:
    governor = govern(ConcurLaw(start=4), fallback=32)
    governor.failed("a bug", 1)
    assert (governor.window, governor.problem) == (32, "a bug")


# --- history and restarts ---


def test_history_begins_with_the_start_and_has_every_change_once() -> None:
    governor = govern(Scripted([cut(4), hold(4), grow(6)]))
    for number in range(1, 4):
        governor.read(reading(number), BUSY, 0, number)
    assert [(each.at, each.before, each.after, each.reason) for each in governor.history] == [
        (0, 8, 8, Reason.START),
        (1, 8, 4, Reason.CUT),
        (3, 4, 6, Reason.GROW),
    ]
    assert governor.history[1].sample == reading(1)
    assert governor.history[1].population == BUSY


def test_history_is_bounded_and_keeps_the_newest() -> None:
    governor = govern(Scripted([cut(7 - number % 2) for number in range(50)]), history=3)
    for number in range(50):
        governor.read(reading(number), BUSY, 0, number)
    assert [change.at for change in governor.history] == [47, 48, 49]


def test_restart_is_told_and_its_reading_is_only_a_baseline() -> None:
    law = Scripted([hold()])
    governor = govern(law)
    assert not governor.read(reading(100), BUSY, 0, 1)
    assert governor.read(reading(5), BUSY, 0, 2)
    assert not governor.read(reading(10), BUSY, 0, 3)
    assert [sample.hit_rate for sample, _ in law.asked] == [None, None, 0.0]


def test_restart_is_told_even_when_the_law_fails_or_does_not_know() -> None:
    for answer in (Decision(8, Reason.UNKNOWN), RuntimeError()):
        governor = govern(Scripted([hold(), answer]))
        governor.read(reading(100), BUSY, 0, 1)
        assert governor.read(reading(5), BUSY, 0, 2)


def test_reading_that_ends_a_fallback_is_not_held_against_the_window_before_it() -> None:
    governor = govern(Scripted([cut(4), Decision(4, Reason.UNKNOWN), cut(1), cut(2)]), fallback=32)
    governor.read(reading(1), BUSY, 0, 1)
    governor.read(reading(1), BUSY, 0, 100)
    governor.read(reading(2), BUSY, 0, 101)
    assert (governor.window, governor.reason) == (4, Reason.RECOVERED)
    governor.read(reading(3), BUSY, 0, 102)
    assert (governor.window, governor.reason) == (2, Reason.CUT)


# --- a token budget ---


def budgeted(tokens: float, reason: Reason = Reason.FIXED) -> Decision:
    return Decision(math.inf, reason, tokens=tokens, ahead=9.0, patience_s=7.0)


def test_a_budget_is_taken_as_it_is_whoever_waits() -> None:
    governor = govern(Scripted([budgeted(100), budgeted(50), budgeted(200)]))
    for number, tokens in enumerate((100, 50, 200)):
        governor.read(reading(number), CALM, over=3, now=number)
        assert (governor.window, governor.tokens, governor.ahead, governor.patience_s) == (math.inf, tokens, 9, 7)


def test_only_what_the_law_did_to_a_budget_is_history() -> None:
    answers = [budgeted(100), budgeted(99), budgeted(90, Reason.CUT), budgeted(95, Reason.GROW)]
    governor = govern(Scripted(answers, initial=math.inf))
    for number in range(4):
        governor.read(reading(number), BUSY, over=0, now=number)
    assert [(change.reason, change.tokens) for change in governor.history] == [
        (Reason.START, math.inf),
        (Reason.CUT, 90),
        (Reason.GROW, 95),
    ]


def test_the_fallback_has_no_budget_and_recovery_has_the_one_from_before() -> None:
    governor = govern(Scripted([budgeted(100), Decision(math.inf, Reason.UNKNOWN)], initial=math.inf))
    governor.read(reading(0), BUSY, over=0, now=0)
    governor.missed("no answer", BUSY, 0, STALE_AFTER + 1)
    assert (governor.tokens, governor.ahead, governor.patience_s) == (math.inf, 0, math.inf)
    governor._law = Scripted([budgeted(70)])
    governor.read(reading(1), BUSY, over=0, now=STALE_AFTER + 2)
    assert (governor.tokens, governor.ahead, governor.patience_s) == (100, 9, 7)
    assert governor.reason is Reason.RECOVERED
