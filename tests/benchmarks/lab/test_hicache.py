"""The lab's host tier: an arm's flag, and engines that have one."""

import pytest

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.engines import get_engine, with_host_cache
from benchmarks.lab.simulate import simulate
from concur_agents.emulator import EngineConfig, HiCacheConfig


def thrashing() -> Batch:
    """Twelve agents whose contexts take twice the pool of 4,000 tokens."""
    steps = [Step(prompt, 20, 0.5) for prompt in range(400, 800, 100)]
    return Batch.of([Plan(f"a{number}", steps) for number in range(12)])


def test_a_host_tier_spares_what_the_pool_would_have_lost() -> None:
    engine = get_engine("qwen3-32b-tp2").with_config(max_total_tokens=4000)
    plain, hosted = (simulate(thrashing(), engine, arm) for arm in parse_arms("uncontrolled,hicache"))
    assert plain.recomputed_tokens > 5000
    assert hosted.recomputed_tokens < plain.recomputed_tokens / 5
    assert hosted.makespan_s < plain.makespan_s


def test_any_arm_can_have_a_host_tier() -> None:
    engine = get_engine("qwen3-32b-tp2")
    for arm, running in zip(parse_arms("hicache,hicache:fixed:8,hicache:requests:5"), (2048, 2048, 5), strict=True):
        config = arm.flags(engine).config
        assert isinstance(config, EngineConfig)
        assert config.hicache == HiCacheConfig()
        assert config.max_running_requests == running
    with pytest.raises(ValueError, match="unknown arm 'nothing'"):
        parse_arms("hicache:nothing")


def test_an_engine_with_a_host_tier_is_the_same_engine() -> None:
    plain, hosted = get_engine("qwen3-32b-tp2"), get_engine("qwen3-32b-tp2-hicache")
    assert hosted.config == with_host_cache(plain).config
    assert hosted.cost == plain.cost


def test_an_engine_of_another_kind_says_that_it_has_none() -> None:
    with pytest.raises(ValueError, match="no host tier for the engine vllm"):
        with_host_cache(get_engine("vllm-qwen3-32b-tp2"))
