"""One run of the batch on the emulator."""

import asyncio
import dataclasses

import pytest

from benchmarks.engines.emulated import emulated
from benchmarks.engines.wire import fetch
from benchmarks.real.batch import run_batch
from benchmarks.real.workload import StepPlan
from concur_agents import FixedWindow, Uncontrolled


def running_requests(url):
    return fetch("GET", f"{url}/v1/loads")["loads"][0]["num_running_reqs"]


async def test_every_agent_takes_all_its_steps_with_the_lengths_of_its_plan(engine, small):
    plans = small.plan()
    batch = await run_batch(plans, engine, Uncontrolled())
    assert batch.lost == 0
    for plan, agent in zip(plans, batch.agents, strict=True):
        assert agent.agent_id == plan.agent_id
        assert agent.steps == len(plan.steps)
        assert agent.output_tokens == sum(step.output_tokens for step in plan.steps)
    assert batch.makespan_s == max(agent.ended_s for agent in batch.agents)


async def test_a_conversation_finds_its_own_tokens_again(engine, small):
    batch = await run_batch(small.plan()[:1], engine, Uncontrolled())
    steps = len(small.plan()[0].steps)
    # The last token of each reply has no KV until the next step.
    assert batch.recomputed_tokens == steps - 1
    assert batch.hit_rate > 0.4


async def test_the_prompt_grows_by_reply_and_observation(engine, small):
    plan = small.plan()[0]
    batch = await run_batch([plan], engine, Uncontrolled())
    prompt = plan.system.count(" ") + 4 + plan.task.count(" ") + 3 + 4  # roles and separators, as the emulator counts
    total = 0
    for step in plan.steps:
        total += prompt
        prompt += step.output_tokens + 1 + step.observation.count(" ") + 3 + 4
    assert batch.prompt_tokens == total


async def test_a_window_of_one_makes_agents_wait_for_each_other(engine, small):
    batch = await run_batch(small.plan(), engine, FixedWindow(1))
    waits = [agent.wait_s for agent in sorted(batch.agents, key=lambda agent: agent.ended_s)]
    assert waits == sorted(waits)  # each waited for whole lives before its own
    assert batch.lost == 0


async def test_the_window_is_recorded_with_no_limit_as_none(engine, small):
    free = await run_batch(small.plan(), engine, Uncontrolled())
    fixed = await run_batch(small.plan(), engine, FixedWindow(2))
    assert [change.window for change in free.window] == [None]
    assert [(change.window, change.reason) for change in fixed.window] == [(2, "start")]


async def test_an_agent_that_the_engine_refuses_is_lost_and_the_others_go_on(engine, small):
    first, *others = small.plan()
    too_long = dataclasses.replace(first, task=" bab" * 9000)
    batch = await run_batch([too_long, *others], engine, FixedWindow(1))
    assert batch.lost == 1
    assert "BadRequestError" in batch.agents[0].error
    assert [agent.error for agent in batch.agents[1:]] == [None] * len(others)


async def test_another_length_than_forced_loses_the_agent(cost, small):
    # A pool so small that the engine cuts the reply.
    async with emulated({"max_total_tokens": 128, "context_length": 8192}, cost, speedup=500.0) as engine:
        plan = small.plan()[0]
        greedy = dataclasses.replace(plan, steps=(StepPlan(output_tokens=100, tool_s=0.0, observation=""),))
        batch = await run_batch([greedy], engine, Uncontrolled())
    assert "instead of 100" in batch.agents[0].error


async def test_everybody_is_told_of_each_end(engine, small):
    ended = []
    batch = await run_batch(small.plan(), engine, Uncontrolled(), ended=ended.append)
    assert sorted(record.agent_id for record in ended) == [agent.agent_id for agent in batch.agents]


async def test_cancelling_ends_all_agents_and_leaves_the_engine_idle(engine, small):
    plans = [
        dataclasses.replace(plan, steps=(StepPlan(output_tokens=4000, tool_s=0.0, observation=""),))
        for plan in small.plan()
    ]
    run = asyncio.create_task(run_batch(plans, engine, Uncontrolled()))
    while await asyncio.to_thread(running_requests, engine.url) < len(plans):
        pass
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await engine.flush()  # refused while anything runs
