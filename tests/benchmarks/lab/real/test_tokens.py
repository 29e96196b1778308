"""Prompts of a real model's vocabulary."""

import itertools

from benchmarks.lab.batch import Plan, Step
from benchmarks.lab.real.tokens import token_ids

STEPS = [Step(200, 10, 0.0)]


def common(one, other) -> int:
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True))))


def test_agents_share_their_prefix_and_next_to_nothing_beyond() -> None:
    one = token_ids(Plan("a", STEPS, prefix=1, prefix_tokens=50), 0)
    other = token_ids(Plan("b", STEPS, prefix=1, prefix_tokens=80), 0)
    assert len(one) == len(other) == 210
    assert 50 <= common(one, other) <= 52


def test_other_prefixes_and_other_seeds_part_at_once() -> None:
    one = token_ids(Plan("a", STEPS, prefix=1, prefix_tokens=50), 0)
    for other in (
        token_ids(Plan("b", STEPS, prefix=2, prefix_tokens=50), 0),
        token_ids(Plan("a", STEPS, prefix=1, prefix_tokens=50), 1),
    ):
        assert common(one, other) <= 2


def test_ids_are_words_of_the_model() -> None:
    ids = token_ids(Plan("a", [Step(5000, 10, 0.0)]), 0)
    assert min(ids) >= 500
    assert max(ids) < 2300
