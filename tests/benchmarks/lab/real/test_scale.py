"""A batch made smaller keeps its shape."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.real.scale import Scale, scaled

STEPS = [Step(1000, 100, 2.0), Step(1300, 50, 4.0), Step(1500, 100, 6.0), Step(1700, 10, 0.0)]


def one(scale: Scale, steps=STEPS, **more) -> Plan:
    return scaled(Batch.of([Plan("a", steps, **more)]), scale).plans[0]


def test_lengths_and_seconds_have_factors_of_their_own() -> None:
    plan = one(Scale(tokens=0.1, tools=0.5), arrival_s=8.0, prefix=3, prefix_tokens=300)
    assert list(plan.steps) == [Step(100, 10, 1.0), Step(130, 5, 2.0), Step(150, 10, 3.0), Step(170, 1, 0.0)]
    assert (plan.arrival_s, plan.prefix, plan.prefix_tokens) == (4.0, 3, 30)


def test_merged_steps_generate_and_wait_as_much_and_contexts_end_where_they_did() -> None:
    plan = one(Scale(merge=2))
    assert list(plan.steps) == [Step(1000, 150, 6.0), Step(1500, 110, 6.0)]


def test_an_agent_ends_before_its_context_is_too_long() -> None:
    assert len(one(Scale(longest=1400)).steps) == 2
    with pytest.raises(ValueError, match="'a': its first step"):
        one(Scale(longest=500))


def test_waves_stay_and_their_pause_is_time_that_is_not_the_engines() -> None:
    batch = Batch(([Plan("a", STEPS)], [Plan("b", STEPS)]), update_s=60.0)
    small = scaled(batch, Scale(tools=0.1))
    assert [[plan.agent_id for plan in wave] for wave in small.waves] == [["a"], ["b"]]
    assert small.update_s == pytest.approx(6.0)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 300)), min_size=1, max_size=20),
    st.floats(0.001, 2.0),
    st.integers(1, 5),
)
def test_a_context_that_only_grew_still_only_grows(added, tokens, merge) -> None:
    steps, prompt = [], 0
    for told, output in added:
        prompt += told
        steps.append(Step(prompt, output, 0.0))
        prompt += output
    small = one(Scale(tokens=tokens, merge=merge, longest=10**6), steps).steps
    for before, after in itertools.pairwise(small):
        assert after.prompt > before.prompt + before.output


@pytest.mark.parametrize("field", [{"tokens": 0}, {"tools": -1}, {"merge": 0}, {"longest": 1}], ids=str)
def test_what_cannot_be_is_named(field) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        Scale(**field)
