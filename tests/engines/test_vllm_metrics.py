"""vLLM's metrics, rule by rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from concur_agents.engines import read_sample

Body = Callable[[str], str]


def test_old_and_new_names_at_once_count_once_and_engines_add_up(body: Body) -> None:
    sample = read_sample(body("vllm_transition"))
    assert (sample.engine, sample.running, sample.queued) == ("vllm", 6, 1)
    assert sample.rank_usages == {"0": 8.125e-06, "1": 0.5}
    assert (sample.hit_counter, sample.hit_tokens_total) == ("prefix_cache_hits_total", 25.0)
    assert (sample.query_tokens_total, sample.pinned_usage) == (100.0, 0.5)


def test_preemptions_are_retractions(body: Body) -> None:
    assert read_sample(body("vllm_transition")).retractions_total == 5.0


def test_evictable_cache_role_and_gauge_are_unknown(body: Body) -> None:
    sample = read_sample(body("vllm_transition"))
    assert (sample.occupied_usage, sample.role, sample.hit_rate_gauge) == (None, None, None)


@pytest.mark.parametrize("prefix", ["vllm:", "vllm_", "ray_vllm:", "ray_vllm_"])
def test_every_prefix_reads_the_same(body: Body, prefix: str) -> None:
    text = body("vllm_transition")
    assert read_sample(text.replace("vllm:", prefix)) == read_sample(text)


def test_two_prefixes_at_once_count_once(body: Body) -> None:
    text = body("vllm_transition")
    assert read_sample(text + text.replace("vllm:", "ray_vllm_")) == read_sample(text)


def test_old_names_alone_are_read(body: Body) -> None:
    old = [line for line in body("vllm_transition").splitlines() if line.startswith("vllm:gpu_")]
    sample = read_sample("\n".join([*old, ""]))
    assert (sample.pinned_usage, sample.hit_counter) == (0.5, "gpu_prefix_cache_hits_total")


def test_pool_size_is_from_labels_one_way_or_the_other(body: Body) -> None:
    assert read_sample(body("vllm_transition")).capacity_tokens == 1600 + 1500


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        ('block_size="16",num_gpu_blocks="7281"', 116496),
        ('block_size="16",num_gpu_blocks="None"', None),
        ('block_size="None",num_gpu_blocks="10"', None),
        ('block_size="16"', None),
        ('block_size="16",num_gpu_blocks="0"', None),
        ('block_size="16",num_gpu_blocks="-3"', None),
        ('block_size="16",num_gpu_blocks="²"', None),
        (f'block_size="16",num_gpu_blocks="{"9" * 5000}"', None),
    ],
)
def test_pool_size_that_labels_do_not_give_is_unknown(labels: str, tokens: int | None) -> None:
    assert read_sample(f"vllm:cache_config_info{{{labels}}} 1.0\n").capacity_tokens == tokens


def test_pool_size_of_one_engine_is_not_taken_for_that_of_all() -> None:
    usages = "".join(f'vllm:kv_cache_usage_perc{{engine="{engine}"}} 0.1\n' for engine in (0, 1))
    one = 'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="10"} 1.0\n'
    assert read_sample(usages + one).capacity_tokens is None
