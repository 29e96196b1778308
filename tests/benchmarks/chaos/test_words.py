"""What agents say."""

from __future__ import annotations

from benchmarks.chaos.words import said


def test_words_are_the_same_for_a_seed_and_as_many_as_asked_for() -> None:
    assert said("a", 100) == said("a", 100) != said("b", 100)
    assert said("a", 400).startswith(said("a", 100))
    assert [len(said("a", length)) for length in (0, 1, 777)] == [0, 1, 777]
