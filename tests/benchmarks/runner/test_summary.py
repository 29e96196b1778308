"""Figures follow from records alone."""

import pytest

from benchmarks.swebench.summary import figures_of, peak_context, summarise

DONE = {"capacity_tokens": 1000}


def test_makespan_is_the_end_of_the_last_agent(make_record):
    figures = figures_of([make_record(ended_s=3.0), make_record(ended_s=9.5)], expected=2, closing=DONE)
    assert figures.makespan_s == 9.5


def test_hit_rate_weighs_tokens_not_steps(make_record, make_step):
    records = [make_record(steps=(make_step(900, 900), make_step(100, 0)))]
    assert figures_of(records, expected=1, closing=DONE).hit_rate == 0.9


def test_a_reply_that_does_not_report_its_cache_is_unknown_not_a_miss(make_record, make_step):
    records = [make_record(steps=(make_step(900, 450), make_step(5000, None)))]
    assert figures_of(records, expected=1, closing=DONE).hit_rate == 0.5


def test_hit_rate_is_unknown_when_nothing_was_reported(make_record, make_step):
    figures = figures_of([make_record(steps=(make_step(100, None),))], expected=1, closing=DONE)
    assert (figures.hit_rate, figures.recomputed_tokens) == (None, None)


def test_an_agent_without_a_record_is_lost(make_record):
    assert figures_of([make_record()], expected=3, closing=DONE).lost == 2


def test_an_agent_that_concur_ended_is_lost_and_one_that_failed_by_itself_is_not(make_record):
    records = [make_record(outcome="failed", by_concur=True), make_record(outcome="failed")]
    figures = figures_of(records, expected=2, closing=DONE)
    assert (figures.lost, figures.failed) == (1, 2)


def test_only_passed_tests_count_as_resolved(make_record):
    records = [make_record(resolved=value) for value in (True, False, None)]
    assert figures_of(records, expected=3, closing=DONE).resolved == 1


def test_an_arm_nobody_ended_in_has_no_figures_but_its_lost_agents():
    figures = figures_of([], expected=4, closing=None)
    assert (figures.makespan_s, figures.lost, figures.complete) == (None, 4, False)


def test_peak_context_counts_agents_only_while_they_live(make_record, make_step):
    early = make_record(steps=(make_step(90, 0, 10, started_s=0.0),), ended_s=2.0)
    late = make_record(steps=(make_step(190, 0, 10, started_s=3.0), make_step(290, 0, 10, started_s=5.0)), ended_s=7.0)
    both = make_record(steps=(make_step(40, 0, 10, started_s=0.5),), ended_s=6.5)
    assert peak_context([early, late, both]) == 350


def test_speedup_is_taken_within_a_repeat(make_run, make_record):
    def arm(seconds):
        return [make_record(ended_s=seconds)], [], DONE

    arms = {
        ("uncontrolled", 1): arm(10.0),
        ("uncontrolled", 2): arm(30.0),
        ("concur", 1): arm(5.0),
        ("concur", 2): arm(10.0),
    }
    summary = summarise(make_run(arms, agents=1, repeats=2))
    assert summary["arms"]["concur"]["speedup"] == {"median": 2.5, "min": 2.0, "max": 3.0}
    assert summary["arms"]["uncontrolled"]["makespan_s"] == 20.0
    assert [run["makespan_s"] for run in summary["arms"]["concur"]["repeats"]] == [5.0, 10.0]


def test_over_repeats_the_worst_counts_for_lost_and_resolved(make_run, make_record):
    good, bad = [make_record(resolved=True)], []
    arms = {("concur", 1): (good, [], DONE), ("concur", 2): (bad, [], DONE)}
    merged = summarise(make_run(arms, agents=1, repeats=2))["arms"]["concur"]
    assert (merged["lost"], merged["resolved"]) == (1, 0)


def test_an_interrupted_arm_is_shown_and_not_compared(make_run, make_record):
    arms = {("uncontrolled", 1): ([make_record()], [], DONE), ("concur", 1): ([make_record()], [], None)}
    summary = summarise(make_run(arms, agents=2))
    assert summary["complete"] is False
    assert summary["arms"]["concur"]["speedup"] is None
    assert summary["arms"]["concur"]["complete"] is False


def test_an_arm_that_never_began_is_missing_and_the_run_incomplete(make_run, make_record):
    folder = make_run({("uncontrolled", 1): ([make_record()], [], DONE)}, agents=1, repeats=2)
    summary = summarise(folder)
    assert list(summary["arms"]) == ["uncontrolled"]
    assert summary["complete"] is False


@pytest.mark.parametrize(("other", "same"), [(True, True), (False, False), (None, False)])
def test_arms_are_checked_to_resolve_the_same_agents(make_run, make_record, other, same):
    arms = {
        ("uncontrolled", 1): ([make_record(resolved=True)], [], DONE),
        ("concur", 1): ([make_record(resolved=other)], [], DONE),
    }
    assert summarise(make_run(arms, agents=1))["same_resolved"] is same


def test_the_summary_has_what_the_issue_promises(make_run, make_record):
    arm = summarise(make_run({("concur", 1): ([make_record()], [], DONE)}, agents=1))["arms"]["concur"]
    assert {"makespan_s", "hit_rate", "recomputed_tokens", "agents", "lost", "resolved"} <= set(arm)
