"""The lab's vLLM: registered, read as a scrape of vLLM would be, and driven like any engine."""

import pytest

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.engines import Engine, get_engine
from benchmarks.lab.reading import VllmReader
from benchmarks.lab.simulate import simulate
from concur_agents.emulator import CostModel, Request
from concur_agents.emulator.vllm import VllmConfig, VllmScheduler

COST = CostModel(prefill_token_s=0.01, decode_base_s=1.0)
SMALL = Engine(
    name="test",
    config=VllmConfig(max_total_tokens=1600, context_length=1024, max_batched_tokens=256, max_running_requests=64),
    cost=COST,
    build=VllmScheduler,
    reader=VllmReader,
)


def test_the_same_card_and_pool_under_another_engine() -> None:
    ours, other = get_engine("vllm-qwen3-32b-tp2"), get_engine("qwen3-32b-tp2")
    assert ours.cost == other.cost
    assert 0 <= other.config.max_total_tokens - ours.config.max_total_tokens < 16
    assert isinstance(ours.scheduler(), VllmScheduler)
    assert ours.with_config(max_running_requests=7).config.max_running_requests == 7


def test_a_reading_says_what_vllm_says_and_nothing_of_evictable_cache() -> None:
    scheduler = VllmScheduler(SMALL.config, COST)
    reader = VllmReader(scheduler)
    scheduler.submit(Request("a", b"abcd" * 160, b"abcd" * 10))
    scheduler.step()
    sample = reader.read(1.0)
    assert (sample.engine, sample.occupied_usage, sample.capacity_tokens) == ("vllm", None, 1600)
    assert (sample.running, sample.queued, sample.retractions_total) == (1, 0, 0.0)
    assert sample.pinned_usage == pytest.approx(10 / 99)
    assert (sample.query_tokens_total, sample.hit_tokens_total) == (160.0, 0.0)
    while not scheduler.idle:
        scheduler.step()
    assert reader.read(1.0).pinned_usage == 0.0
    reader.close()


def test_a_batch_too_large_for_the_pool_preempts_and_loses_nobody() -> None:
    batch = Batch.of([Plan(f"a{n}", [Step(100 + 60 * k, 40, 5.0) for k in range(4)]) for n in range(24)])
    free, held = (simulate(batch, SMALL, parse_arms(arm)[0]) for arm in ("uncontrolled", "fixed:4"))
    assert (free.lost, held.lost) == (0, 0)
    assert free.retractions > 0
    assert held.retractions == 0
    assert held.hit_rate > free.hit_rate
