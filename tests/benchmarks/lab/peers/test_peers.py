"""What holds of every peer: all agents get through, and nobody who leaves stays behind."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.arms.peers import PEERS
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.engines import Engine
from benchmarks.lab.simulate import simulate
from concur_agents import ControllerClosedError
from concur_agents.emulator import CostModel, EngineConfig

ENGINE = Engine(
    name="test",
    config=EngineConfig(max_total_tokens=8_000, chunked_prefill_size=None, context_length=8_000),
    cost=CostModel(prefill_token_s=0.001, decode_base_s=0.02),
)
ARMS = [
    *sorted(PEERS),
    "thunder:half-life-s=1",
    "prime-rl:original,model-len=2000",
    "gradient2:requests",
    "netflix-aimd:requests",
    "fireworks:requests",
]


def batch(seed: int, agents: int, steps: int) -> Batch:
    rng = random.Random(seed)
    plans = []
    for number in range(agents):
        prompt, life = rng.randint(50, 400), []
        for _ in range(rng.randint(1, steps)):
            output = rng.randint(1, 60)
            life.append(Step(prompt, output, rng.choice((0.1, 1.0, 40.0))))
            prompt += output + rng.randint(1, 300)
        plans.append(Plan(f"a{number}", life, arrival_s=rng.choice((0.0, 0.0, 9.0))))
    return Batch.of(plans)


@pytest.mark.parametrize("name", ARMS)
def test_all_agents_get_through_more_than_the_pool_holds(name) -> None:
    result = simulate(batch(1, 24, 10), ENGINE, parse_arms(name)[0])
    assert (len(result.agents), result.lost) == (24, 0)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.sampled_from(ARMS), st.integers(0, 999), st.integers(1, 12))
def test_all_agents_of_any_batch_get_through(name, seed, agents) -> None:
    assert simulate(batch(seed, agents, 6), ENGINE, parse_arms(name)[0]).lost == 0


@pytest.mark.parametrize("name", ["thunder", "gradient2", "llm-d"])
def test_a_cell_twice_is_the_same(name) -> None:
    first, second = (simulate(batch(2, 12, 6), ENGINE, parse_arms(name)[0]) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", ARMS)
async def test_nobody_who_gives_up_stays_behind(stage, name) -> None:
    argument = {"prime-rl": ":start=1"}.get(name, "")
    scene = stage(name + argument, 1500, {f"a{n}": [1000, 1000] for n in range(30)})
    asked = [await actor.ask() for actor in scene.actors.values()]
    assert not all(asked)
    held_back = [actor for actor, granted in zip(scene.actors.values(), asked, strict=True) if not granted]
    for actor in held_back:
        await actor.give_up()
    assert not scene.gate.waiting
    for actor in scene.actors.values():
        await actor.leave()
    await scene.tick(3700)  # llm-d hears of no end, and forgets after an hour
    leftovers = {key: value for key, value in vars(scene.gate).items() if isinstance(value, dict | set) and value}
    assert set(leftovers) == {"_steps"}


@pytest.mark.parametrize("name", ["thunder", "llm-d", "gradient2"])
async def test_who_leaves_at_the_moment_it_is_granted_gives_its_room_back(stage, name) -> None:
    arm = {"gradient2": "gradient2:start=1", "llm-d": "llm-d:ends=1"}.get(name, name)
    scene = stage(arm, 1500, {"a": [1000, 1000], "b": [1200], "c": [1200]})
    assert await scene["a"].ask()
    assert not await scene["b"].ask()
    assert not await scene["c"].ask()
    scene["b"].asking.cancel()  # its task has not run yet
    await scene["a"].leave()
    scene.gate.tick()
    await asyncio.sleep(0)
    await scene["b"].leave()
    await scene.tick(5)
    assert scene["c"].generating


@pytest.mark.parametrize("name", ["thunder", "llm-d", "gradient2:start=1"])
async def test_whoever_waits_when_the_gate_closes_is_told_and_so_is_who_comes_later(stage, name) -> None:
    scene = stage(name, 1500, {"a": [1000], "b": [1000], "c": [1000]})
    assert await scene["a"].ask()
    assert not await scene["b"].ask()
    scene.gate.close()
    await asyncio.sleep(0)
    await scene["c"].ask()
    for late in "bc":
        with pytest.raises(ControllerClosedError):
            await scene[late].asking
    assert not scene.gate.waiting
    for actor in scene.actors.values():
        await actor.leave()


def test_a_parameter_that_is_not_there_or_no_number_is_said() -> None:
    with pytest.raises(ValueError, match="arm 'gradient2:speed=1' has no parameter 'speed': choose from start"):
        parse_arms("gradient2:speed=1")
    with pytest.raises(ValueError, match="needs key=number, not 'tick-s=x'"):
        parse_arms("thunder:tick-s=x")
    with pytest.raises(ValueError, match="no parameter '_limit'"):
        parse_arms("gradient2:_limit=1")
