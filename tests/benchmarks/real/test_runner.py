"""Interleaved arms, and the checks before them."""

import dataclasses
from collections import Counter

import pytest

from benchmarks.engines.emulated import emulated
from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.wire import EngineError
from benchmarks.real.runner import Watch, order, run_arms, warm_up
from benchmarks.swebench.arms import parse_arms
from concur_agents.emulator import Emulator, EngineConfig, ServiceConfig
from concur_agents.emulator.tokenizer import ByteTokenizer

ARMS = parse_arms("uncontrolled,fixed:2,concur")


def test_each_arm_runs_once_a_repeat_and_once_at_each_place():
    runs = [(repeat, arm.name) for repeat, arm in order(ARMS, 3)]
    assert [repeat for repeat, _ in runs] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    names = [arm.name for arm in ARMS]
    for place in range(3):
        assert sorted(name for _, name in runs[place::3]) == sorted(names)
    assert Counter(runs) == Counter({(repeat, name): 1 for repeat in (1, 2, 3) for name in names})


async def test_every_run_does_the_same_work_from_an_empty_cache(engine, small):
    runs, began, ended = [], [], []
    watch = Watch(
        began=lambda repeat, arm: began.append((repeat, arm.name)), agent_ended=ended.append, done=runs.append
    )
    alone = dataclasses.replace(small, agents=1)  # nothing races, so a cache that is left over shows
    await run_arms(engine, alone, ARMS, 2, watch)
    assert [(run.repeat, run.arm) for run in runs] == began
    assert len(ended) == len(runs) == 6
    agents = [run.batch.agents[0] for run in runs]
    assert len({(agent.prompt_tokens, agent.output_tokens, agent.cached_tokens) for agent in agents}) == 1


async def test_calibration_comes_before_each_repeat_and_after_the_last(engine, small):
    happened = []

    async def between() -> None:
        happened.append("calibration")

    watch = Watch(
        began=lambda repeat, arm: happened.append(repeat),
        agent_ended=lambda _: None,
        done=lambda _: None,
        between=between,
    )
    await run_arms(engine, dataclasses.replace(small, agents=1), ARMS[:2], 2, watch)
    assert happened == ["calibration", 1, 1, "calibration", 2, 2, "calibration"]


async def test_warm_up_refuses_an_engine_that_tells_no_cached_tokens(cost):
    config = ServiceConfig(engine=EngineConfig(), cost=cost, speedup=500.0, enable_cache_report=False)
    with Emulator(config) as emulator, pytest.raises(EngineError, match="--enable-cache-report"):
        await warm_up(await connect(emulator.url, speedup=500.0))


class Unsteady(ByteTokenizer):
    """Tokenizes a longer conversation in another way from the start."""

    def render(self, messages, tools):
        return self.encode(f"{len(messages):04d}") + super().render(messages, tools)


async def test_warm_up_refuses_a_tokenizer_with_which_no_conversation_finds_its_own_tokens(cost):
    config = ServiceConfig(engine=EngineConfig(), cost=cost, speedup=500.0)
    with Emulator(config, tokenizer=Unsteady()) as emulator, pytest.raises(EngineError, match="recomputed"):
        await warm_up(await connect(emulator.url, speedup=500.0))


async def test_warm_up_notices_a_pool_that_does_not_hold_two_agents(cost):
    scheduling = {"max_total_tokens": 1700, "context_length": 8192}
    async with emulated(scheduling, cost, speedup=500.0) as engine:
        with pytest.raises(EngineError, match=r"recomputed|does not answer"):
            await warm_up(engine)


async def test_a_server_that_died_ends_the_benchmark_with_its_reason(engine, small):
    def gone() -> None:
        raise EngineError("the server ended with exit code 1")

    dead = Engine(url=engine.url, name="x", model=engine.model, scheduling={}, speedup=500.0, check=gone)
    with pytest.raises(EngineError, match="exit code 1"):
        await run_arms(dead, small, ARMS, 1, Watch(began=print, agent_ended=print, done=print))


async def test_an_address_without_an_engine_is_said_so():
    with pytest.raises(EngineError, match="no engine answers"):
        await connect("http://127.0.0.1:9")
