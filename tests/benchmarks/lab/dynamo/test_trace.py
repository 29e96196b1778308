"""Batches in Dynamo's own words."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.dynamo.trace import trace_block, turns, write_trace


def _plan(name: str, *steps: tuple[int, int, float], prefix: int = 0, shared: int = 0) -> Plan:
    return Plan(name, [Step(*step) for step in steps], prefix=prefix, prefix_tokens=shared)


def test_a_turn_adds_what_its_context_has_more_and_waits_for_the_tool_before() -> None:
    batch = Batch.of([_plan("a", (100, 10, 1.5), (150, 20, 9.0))])
    first, second = turns(batch, spare=0)
    assert first == {"session_id": "a", "input_length": 100, "output_length": 10, "hash_ids": [1]}
    assert second == {"session_id": "a", "input_length": 40, "output_length": 20, "hash_ids": [2], "delay": 1500.0}


def test_a_spared_output_token_becomes_the_next_turns_input() -> None:
    batch = Batch.of([_plan("a", (100, 10, 0), (150, 1, 0), (160, 5, 0))])
    lengths = [(turn["input_length"], turn["output_length"]) for turn in turns(batch, spare=1)]
    assert lengths == [(100, 9), (41, 1), (9, 4)]  # an output of one token stays as it is


def test_agents_share_the_ids_of_their_prefix_and_no_others() -> None:
    plans = [_plan(name, (500, 1, 0), prefix=number % 2, shared=200) for number, name in enumerate("abc")]
    a, b, c = (turn["hash_ids"] for turn in turns(Batch.of(plans), spare=0))
    assert a[0] == c[0] != b[0]
    assert len({*a, *b, *c}) == 8  # three blocks each, one of them shared by two


def test_a_prompt_shorter_than_its_prefix_is_a_part_of_it() -> None:
    plans = [_plan("a", (150, 1, 0), shared=200), _plan("b", (300, 1, 0), shared=200)]
    a, b = turns(Batch.of(plans), spare=0)
    assert a["input_length"] == 150
    assert a["hash_ids"] == b["hash_ids"][:1]


def test_every_shared_prefix_is_whole_blocks() -> None:
    plans = [_plan("a", (700, 1, 0), shared=600), _plan("b", (700, 1, 0), prefix=1, shared=320), _plan("c", (9, 1, 0))]
    assert trace_block(Batch.of(plans)) == 40
    assert trace_block(Batch.of(plans[2:])) == 1024


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        (Batch(([_plan("a", (9, 1, 0))], [_plan("b", (9, 1, 0))])), "waves"),
        (Batch.of([Plan("late", [Step(9, 1, 0)], arrival_s=1.0)]), "'late' arrives"),
        (Batch.of([_plan("small", (100, 10, 0), (110, 1, 0))]), "'small', step 1"),
    ],
)
def test_what_the_format_cannot_say_is_refused(batch: Batch, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        list(turns(batch, spare=0))


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(2, 300)), min_size=1, max_size=8),
    st.integers(0, 900),
    st.integers(0, 1),
)
def test_contexts_are_as_long_as_the_plans(grow: Sequence[tuple[int, int]], shared: int, spare: int) -> None:
    steps, context = [], 0
    for added, output in grow:
        steps.append((context + added, output, 0.0))
        context += added + output
    batch = Batch.of([_plan("a", *steps, shared=shared)])
    block, seen = trace_block(batch), 0
    for turn, step in zip(turns(batch, spare=spare), batch.plans[0].steps, strict=True):
        assert len(turn["hash_ids"]) == -(-turn["input_length"] // block)
        assert seen + turn["input_length"] == step.prompt
        seen += turn["input_length"] + turn["output_length"]


def test_the_file_has_one_object_a_line(tmp_path) -> None:
    path = tmp_path / "trace.jsonl"
    write_trace(path, turns(Batch.of([_plan("a", (9, 1, 0), (20, 1, 0))]), spare=0))
    assert [json.loads(line)["input_length"] for line in path.read_text().splitlines()] == [9, 10]
