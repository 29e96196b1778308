"""What two readings say together."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents import EngineSample

BEFORE = EngineSample(retractions_total=2, hit_tokens_total=100, query_tokens_total=1000, hit_counter="a")
AFTER = replace(BEFORE, retractions_total=5, hit_tokens_total=130, query_tokens_total=1100)


def test_deltas_of_counters() -> None:
    sample = AFTER.since(BEFORE)
    assert (sample.hit_rate, sample.retractions, sample.restarted) == (0.3, 3, False)


def test_since_keeps_the_reading_itself() -> None:
    assert AFTER.since(BEFORE).same_reading(AFTER)
    assert AFTER.since(BEFORE).hit_tokens_total == 130


def test_first_reading_has_no_deltas() -> None:
    assert AFTER.since(None) == AFTER
    assert AFTER.since(None).hit_rate is None


def test_nothing_looked_up_is_an_unknown_rate_and_not_zero() -> None:
    assert BEFORE.since(BEFORE).hit_rate is None
    assert BEFORE.since(BEFORE).retractions == 0


def test_everything_missed_is_zero_and_not_unknown() -> None:
    assert replace(BEFORE, query_tokens_total=1100).since(BEFORE).hit_rate == 0.0


def test_more_hits_than_lookups_are_at_most_all() -> None:
    """The two counters are not read at one moment."""
    assert replace(BEFORE, hit_tokens_total=300, query_tokens_total=1100).since(BEFORE).hit_rate == 1.0


@pytest.mark.parametrize("counter", ["retractions_total", "hit_tokens_total", "query_tokens_total"])
def test_any_counter_that_went_down_is_a_restart_without_deltas(counter: str) -> None:
    less: dict[str, Any] = {counter: 1.0}
    sample = replace(AFTER, **less).since(BEFORE)
    assert sample.restarted
    assert (sample.hit_rate, sample.retractions) == (None, None)


def test_reading_after_a_restart_is_the_new_baseline() -> None:
    reborn = replace(BEFORE, retractions_total=0, hit_tokens_total=0, query_tokens_total=0)
    assert reborn.since(AFTER).restarted
    later = replace(reborn, hit_tokens_total=5, query_tokens_total=10).since(reborn)
    assert (later.hit_rate, later.restarted) == (0.5, False)


def test_what_was_computed_is_what_was_looked_up_and_not_found_since_the_one_before() -> None:
    sample = AFTER.since(BEFORE, 2.5)
    assert (sample.computed, sample.elapsed_s) == (70, 2.5)
    assert BEFORE.since(BEFORE, 1.0).computed == 0
    assert (AFTER.since(None, 2.5).computed, AFTER.since(None, 2.5).elapsed_s) == (None, None)
    assert AFTER.since(BEFORE).elapsed_s is None


def test_what_was_computed_is_unknown_when_a_counter_is_and_after_a_restart() -> None:
    assert replace(AFTER, hit_counter="b").since(BEFORE, 1.0).computed is None
    assert replace(AFTER, hit_tokens_total=None).since(BEFORE, 1.0).computed is None
    reborn = replace(BEFORE, query_tokens_total=1.0).since(AFTER, 1.0)
    assert (reborn.restarted, reborn.computed, reborn.elapsed_s) == (True, None, None)


def test_a_cache_that_was_emptied_is_a_restart_whose_deltas_are_good() -> None:
    """With new weights the engine goes on, and its counters too."""
    sample = replace(AFTER, occupied_usage=0.1).since(replace(BEFORE, occupied_usage=0.9), 1.0)
    assert (sample.restarted, sample.hit_rate, sample.computed) == (True, 0.3, 70)


@pytest.mark.parametrize(
    ("before", "after"), [(0.9, 0.5), (0.1, 0.01), (0.5, 0.9), (None, 0.1), (0.9, None), (0.0, 0.0)]
)
def test_a_cache_that_is_smaller_or_unknown_was_not_emptied(before: float | None, after: float | None) -> None:
    assert not replace(AFTER, occupied_usage=after).since(replace(BEFORE, occupied_usage=before)).restarted


def test_another_counter_family_gives_no_rate_and_is_no_restart() -> None:
    sample = replace(AFTER, hit_counter="b", hit_tokens_total=1, query_tokens_total=2).since(BEFORE)
    assert (sample.hit_rate, sample.retractions, sample.restarted) == (None, 3, False)


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("counter", ["hit_tokens_total", "query_tokens_total"])
def test_rate_is_unknown_when_either_end_is(counter: str, end: str) -> None:
    blank: dict[str, Any] = {counter: None}
    before = replace(BEFORE, **blank) if end == "before" else BEFORE
    after = replace(AFTER, **blank) if end == "after" else AFTER
    assert after.since(before).hit_rate is None
    assert after.since(before).retractions == 3
    assert not after.since(before).restarted


def test_retractions_are_unknown_when_either_end_is() -> None:
    assert AFTER.since(replace(BEFORE, retractions_total=None)).retractions is None
    assert replace(AFTER, retractions_total=None).since(BEFORE).retractions is None


def test_rate_a_reader_made_up_itself_is_not_believed() -> None:
    assert replace(BEFORE, hit_rate=0.9).since(BEFORE).hit_rate is None


def test_same_reading_ignores_what_only_two_readings_tell() -> None:
    assert AFTER.since(BEFORE).same_reading(AFTER)
    assert AFTER.same_reading(replace(AFTER, restarted=True, hit_rate=0.5, retractions=1, computed=3.0, elapsed_s=1.0))


@pytest.mark.parametrize(
    "change", [{"pinned_usage": 0.5}, {"running": 1}, {"query_tokens_total": 1101}, {"rank_usages": {"0": 0.1}}]
)
def test_any_change_is_another_reading(change: dict[str, Any]) -> None:
    assert not replace(AFTER, **change).same_reading(AFTER)


def test_nothing_is_the_same_as_no_reading() -> None:
    assert not AFTER.same_reading(None)


def test_every_field_of_a_sample_starts_unknown() -> None:
    known = {"rank_usages", "restarted"}
    assert all(getattr(EngineSample(), each.name) is None for each in fields(EngineSample) if each.name not in known)


def test_samples_are_frozen_ranks_too() -> None:
    sample: Any = EngineSample()
    with pytest.raises(FrozenInstanceError):
        sample.pinned_usage = 0.5
    with pytest.raises(TypeError):
        sample.rank_usages["0"] = 0.5


COUNTERS = st.none() | st.integers(0, 10**12)
READINGS = st.builds(
    EngineSample,
    retractions_total=COUNTERS,
    hit_tokens_total=COUNTERS,
    query_tokens_total=COUNTERS,
    hit_counter=st.sampled_from([None, "a", "b"]),
)


@given(before=READINGS, after=READINGS)
def test_a_rate_is_always_a_share_and_never_comes_with_a_restart(before: EngineSample, after: EngineSample) -> None:
    sample = after.since(before)
    assert sample.hit_rate is None or 0 <= sample.hit_rate <= 1
    assert sample.retractions is None or sample.retractions >= 0
    assert not (sample.restarted and (sample.hit_rate is not None or sample.retractions is not None))
