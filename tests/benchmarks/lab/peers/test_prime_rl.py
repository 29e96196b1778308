"""prime-rl's controller, worked by hand from PrimeIntellect-ai/prime-rl, ``orchestrator/concurrency.py``.

As of its pull request 3556 (growth that tapers); ``original`` is the growth of 3285. KV is ``kv_cache_usage_perc``.
"""

import pytest

from benchmarks.lab.arms.peers.prime_rl import PrimeRl
from concur_agents import EngineSample


def sample(usage=0.0, queued=0, running=10, retractions=0.0):
    return EngineSample(
        pinned_usage=usage, queued=queued, running=running, retractions=retractions, capacity_tokens=320_000
    )


def polled(law, times=1, in_flight=20, **values):
    for _ in range(times):
        law = law.polled(sample(**values), in_flight)
    return law


@pytest.mark.parametrize(("model_len", "window"), [(32_000.0, 10), (131_072.0, 2), (1e9, 1)])
def test_it_starts_with_what_the_pool_holds_of_the_longest_contexts(model_len, window) -> None:
    law = PrimeRl(model_len=model_len)
    assert law.window == 1
    assert polled(law).window == window
    assert polled(PrimeRl(start=16.0)).window == 16


@pytest.mark.parametrize(
    ("law", "usage", "growth"),
    [
        (PrimeRl(start=20.0), 0.0, 1.2),
        (PrimeRl(start=20.0), 0.4, 1.1),
        (PrimeRl(start=20.0), 0.8, 1.0),
        (PrimeRl(start=20.0, original=1.0), 0.6, 1.25),
        (PrimeRl(start=20.0, original=1.0), 0.61, 1.0),
    ],
)
def test_a_turnover_grows_the_cap_by_what_usage_lets(law, usage, growth) -> None:
    assert polled(law, usage=usage).finished(20).cap == pytest.approx(20 * growth ** (1 / 20))


def test_nothing_grows_unless_the_cap_binds_and_nothing_waits() -> None:
    law = PrimeRl(start=20.0)
    assert law.finished(20).cap == 20  # no poll yet
    assert polled(law).finished(17).cap == 20
    assert polled(law, queued=1).finished(20).cap == 20
    assert polled(law).polled(None, 20).finished(20).cap == 20


def test_above_four_fifths_the_cap_is_trimmed_and_not_again_for_six_polls() -> None:
    law = polled(PrimeRl(start=20.0), usage=0.85)
    assert (law.window, law.parks) == (16, False)  # 20 x 0.7 / 0.85; whoever is above it stays
    assert polled(law, 5, usage=0.89).window == 16
    assert polled(law, 6, usage=0.89).window == 15  # 20 x 0.7 / 0.89


def test_above_nine_tenths_the_excess_is_cancelled() -> None:
    law = polled(PrimeRl(start=20.0), usage=0.95)
    assert (law.window, law.parks) == (14, True)
    assert not polled(law).parks  # once


def test_a_preemption_cuts_a_fifth_and_no_more_until_the_rest_has_gone() -> None:
    law = polled(PrimeRl(start=20.0), retractions=1.0)
    assert (law.window, law.parks) == (16, True)
    assert polled(law, 9, retractions=1.0, in_flight=20).window == 16
    assert polled(law, in_flight=16, retractions=1.0).window == 16  # the engine has not settled


@pytest.mark.parametrize(("quiet", "window"), [(4, 8), (6, 12)])  # half of 16 within the grace, else 0.8 of it
def test_a_cut_soon_after_a_cut_is_deeper(quiet, window) -> None:
    law = polled(PrimeRl(start=20.0), retractions=1.0)
    law = polled(law, quiet, in_flight=16)
    assert polled(law, in_flight=16, retractions=1.0).window == window


def test_a_queue_longer_than_half_of_what_runs_cuts_a_tenth_when_it_lasts() -> None:
    law = polled(PrimeRl(start=20.0), 5, queued=6)
    assert law.window == 20
    assert polled(law, queued=6).window == 18
    assert polled(polled(law, queued=5), queued=6).window == 20  # it began anew


async def test_it_is_polled_each_five_seconds_and_sees_retractions_as_they_come(stage) -> None:
    scene = stage("prime-rl:start=10", 1000, {name: [10, 10] for name in "abcdefghij"})
    for name in "abcdefghij":
        await scene[name].use(10)
    for total in (7.0, 7.0, 9.0):
        scene.reader.sample = EngineSample(pinned_usage=0.1, running=1, queued=0, retractions_total=total)
        assert scene.gate.limit.window == 10
        await scene.tick(5)
    assert scene.gate.limit.window == 8
    assert scene.named(scene.gate.within) == list("abcdefgh")  # the youngest two were in their tools


async def test_an_agent_that_ends_grows_the_cap(stage) -> None:
    scene = stage("prime-rl:start=10", 1000, {name: [10] for name in "abcdefghij"})
    for name in "abcdefghij":
        await scene[name].use(10)
    scene.reader.sample = EngineSample(pinned_usage=0.0, running=1, queued=0)
    await scene.tick(5)
    await scene["a"].leave()
    assert scene.gate.limit.cap == pytest.approx(10 * 1.2 ** (1 / 10))


def test_nothing_grows_while_a_cut_drains() -> None:
    law = polled(PrimeRl(start=20.0), retractions=1.0)
    assert polled(law, in_flight=20).finished(20).cap == 16
    assert polled(law, in_flight=16).finished(16).cap > 16


def test_after_a_cut_for_a_queue_its_polls_are_counted_anew() -> None:
    law = polled(PrimeRl(start=20.0), 6, queued=6)
    assert law._draining
    assert not polled(law, in_flight=18, queued=6)._draining
