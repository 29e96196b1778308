"""Requests go on from one another, as an agent's do."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from benchmarks.gateway.workload import MESSAGES, TURNS, body, mean_bytes


def test_each_request_says_all_that_the_one_before_said_and_more():
    said = [json.loads(body("batch-3", turn))["messages"] for turn in range(TURNS)]
    for before, after in pairwise(said):
        assert after[: len(before)] == before
        assert [each["role"] for each in after[len(before) :]] == ["assistant", "tool"]


def test_agents_differ_in_their_task_alone():
    one, other = (json.loads(body(name, 4))["messages"] for name in ("batch-1", "batch-2"))
    assert [mine == its for mine, its in zip(one, other, strict=True)] == [True, False, *[True] * 8]


def test_the_mean_request_has_about_20_messages_and_20_kb():
    lengths = [len(json.loads(body("a", turn))["messages"]) for turn in range(TURNS)]
    assert sum(lengths) / TURNS == MESSAGES
    assert mean_bytes() == pytest.approx(20_000, rel=0.2)
