"""Contexts that are lost though the cache is not full are told, and are not answered with a cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from concur_agents.laws import ConcurLaw, TokenBudget
from concur_agents.samples import EngineSample, Population, Reason
from concur_agents.scatter import ScatterWatch

CAPACITY = 100_000
SEATED = Population(
    window=float("inf"),
    tokens=95_000.0,
    held=30_000.0,
    seated=10,
    generating=5,
    in_tool=5,
    waiting=5,
    mean_context=3000.0,
    measured=True,
    first_context=1000.0,
    growth=100.0,
    cycle_s=1.0,
    reuse=0.3,
    reports_reuse=True,
    elapsed_s=2.0,
    cold_share=0.0,
)


def reading(occupied: float | None = 0.3, pinned: float | None = 0.1, **more: Any) -> EngineSample:
    return EngineSample(occupied_usage=occupied, pinned_usage=pinned, capacity_tokens=CAPACITY, **more)


def watched(*readings: tuple[EngineSample | None, Population]) -> ScatterWatch:
    watch = ScatterWatch()
    for sample, population in readings:
        watch.see(sample, population)
    return watch


def test_contexts_lost_from_a_cache_with_room_are_a_problem_once_seen_thrice() -> None:
    assert watched(*[(reading(), SEATED)] * 2).problem is None
    problem = watched(*[(reading(), SEATED)] * 3).problem
    assert problem is not None
    assert "router" in problem


@pytest.mark.parametrize(
    ("sample", "population"),
    [
        (reading(0.95), SEATED),  # full: that is eviction
        (reading(), replace(SEATED, reuse=0.95)),  # nothing is lost
        (reading(), replace(SEATED, reuse=None)),  # nobody came back
        (reading(None, None), SEATED),  # nobody says how full it is
        (replace(reading(None), capacity_tokens=None), SEATED),
        (reading(None, 0.4), SEATED),  # by an upper estimate it may be full
        (replace(reading(), restarted=True), SEATED),  # emptied
        (None, SEATED),
    ],
)
def test_nothing_else_is(sample: EngineSample | None, population: Population) -> None:
    watch = watched(*[(sample, population)] * 10)
    assert watch.problem is None
    assert watch.see(sample, population)[1] is population


def test_a_law_does_not_see_the_losses_from_the_first_reading_on() -> None:
    sample, population = ScatterWatch().see(reading(hit_rate=0.1), SEATED)
    assert (sample.hit_rate, population.reuse, population.reports_reuse) == (None, None, True)


def test_between_readings_the_losses_stay_unseen() -> None:
    watch = watched((reading(), SEATED))
    sample, population = watch.see(None, SEATED)
    assert (sample, population.reuse) == (EngineSample(), None)


def test_without_replies_that_say_it_the_counters_do() -> None:
    population = replace(SEATED, reports_reuse=False, reuse=None)
    assert watched(*[(reading(hit_rate=0.3), population)] * 3).problem is not None
    assert watched(*[(reading(hit_rate=0.95), population)] * 3).problem is None
    cold = replace(population, cold_share=0.9)
    assert watched(*[(reading(hit_rate=0.1), cold)] * 9).problem is None


def test_it_is_over_when_contexts_are_found_again() -> None:
    fine = (reading(), replace(SEATED, reuse=0.99))
    watch = watched(*[(reading(), SEATED)] * 3, fine, fine)
    assert watch.problem is not None
    watch.see(*fine)
    assert watch.problem is None
    assert watch.see(*fine)[1].reuse == 0.99


def test_where_the_engine_does_not_say_what_is_cached_cuts_are_tried_first() -> None:
    lost = replace(SEATED, held=30_000.0)
    watch = watched(*[(reading(None), lost)] * 5)
    assert watch.problem is not None  # told all the same
    assert watch.see(reading(None), lost)[1].reuse == 0.3
    assert watch.see(reading(None, 0.05), replace(SEATED, held=10_000.0))[1].reuse is None  # it was of no use
    better = watched(*[(reading(None), lost)] * 5)
    assert better.see(reading(None, 0.05), replace(SEATED, held=10_000.0, reuse=0.6))[1].reuse == 0.6


@pytest.mark.parametrize("law", [TokenBudget(), ConcurLaw()], ids=["token_budget", "concur"])
def test_laws_cut_without_it_and_hold_with_it(law: Any) -> None:
    reasons: dict[bool, set[Reason]] = {}
    for guarded in (False, True):
        watch, current = ScatterWatch(), law
        reasons[guarded] = set()
        for _ in range(30):
            # The paper's law looks at pinned usage: half the pool held by running requests is not full either.
            seen = (reading(0.6, 0.55), replace(SEATED, reuse=0.1, tokens=1e6))
            decision = current.decide(*(watch.see(*seen) if guarded else seen))
            current = decision.law or current
            reasons[guarded].add(decision.reason)
    assert Reason.CUT in reasons[False]
    assert Reason.CUT not in reasons[True]
