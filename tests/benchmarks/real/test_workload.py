"""The batch of agents."""

import dataclasses

import pytest

from benchmarks.real.workload import Workload

POOL = 16_000


def test_the_same_seed_makes_the_same_agents_and_another_seed_others():
    assert Workload(seed=1).plan() == Workload(seed=1).plan()
    assert Workload(seed=1).plan() != Workload(seed=2).plan()


def test_an_agent_is_the_same_in_a_smaller_batch():
    assert Workload(agents=5).plan() == Workload().plan()[:5]


def test_every_draw_is_in_its_range():
    workload = Workload(seed=3)
    for plan in workload.plan():
        assert plan.system.count(" ") == workload.system_tokens
        assert workload.task_tokens[0] <= plan.task.count(" ") <= workload.task_tokens[1]
        assert workload.steps[0] <= len(plan.steps) <= workload.steps[1]
        for step in plan.steps:
            assert workload.output_tokens[0] <= step.output_tokens <= workload.output_tokens[1]
        for step in plan.steps[:-1]:
            assert workload.tool_s[0] <= step.tool_s <= workload.tool_s[1]
            assert workload.observation_tokens[0] <= step.observation.count(" ") <= workload.observation_tokens[1]


def test_nothing_follows_the_last_step():
    assert all(plan.steps[-1].tool_s == 0.0 and not plan.steps[-1].observation for plan in Workload().plan())


def test_agents_differ_but_share_the_system_prompt():
    plans = Workload().plan()
    assert len({plan.system for plan in plans}) == 1
    assert len({plan.task for plan in plans}) == len({plan.agent_id for plan in plans}) == len(plans)


@pytest.mark.parametrize("seed", range(5))
def test_the_default_batch_overfills_the_pool_three_to_four_times(seed):
    total = sum(plan.final_tokens for plan in Workload(seed=seed).plan())
    assert 3 * POOL <= total <= 4 * POOL


def test_seed_zero_is_the_batch_that_the_published_figures_are_of():
    plans = Workload().plan()
    assert sum(len(plan.steps) for plan in plans) == 240
    assert sum(plan.final_tokens for plan in plans) == 56_012


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agents", 0),
        ("system_tokens", 0),
        ("steps", (0, 3)),
        ("steps", (5, 4)),
        ("task_tokens", (0, 1)),
        ("output_tokens", (0, 1)),
        ("tool_s", (-1.0, 1.0)),
    ],
)
def test_a_bad_range_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(Workload(), **{field: value})
