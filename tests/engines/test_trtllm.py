"""TensorRT-LLM: what its two pages say, rule by rule, and how a server is read that has one, both or neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents.engines import AnyEngine, TensorRTLLM, read_sample
from concur_agents.errors import EngineUnreachableError, MetricsError
from concur_agents.samples import EngineSample

Body = Callable[[str], str]
ENOUGH = 10.0
SHORT = 0.2
PROMETHEUS = "/prometheus/metrics"


def iteration(**changes: Any) -> dict[str, Any]:
    pool = {"maxNumBlocks": 100, "usedNumBlocks": 25, "tokensPerBlock": 32, "reusedBlocks": 3, "missedBlocks": 1}
    return {"iter": 1, "numActiveRequests": 2, "numQueuedRequests": 1, "kvCacheStats": pool} | changes


def pool(**changes: Any) -> dict[str, Any]:
    return iteration(kvCacheStats=iteration()["kvCacheStats"] | changes)


# --- the pages ---


def test_prometheus_page_says_it_all_but_evictable_cache_and_retractions(body: Body) -> None:
    sample = read_sample(body("trtllm_prometheus"))
    assert (sample.engine, sample.running, sample.queued) == ("tensorrt_llm", 5, 2)
    assert (sample.pinned_usage, sample.capacity_tokens, sample.hit_rate_gauge) == (0.375, 128_000, 0.75)
    assert (sample.hit_tokens_total, sample.query_tokens_total) == (900 * 32, 1200 * 32)
    assert (sample.occupied_usage, sample.retractions_total, sample.role) == (None, None, None)


@pytest.mark.parametrize("prefix", ["trtllm_", "trtllm:"])
def test_both_prefixes_read_the_same(body: Body, prefix: str) -> None:
    text = body("trtllm_prometheus")
    assert read_sample(text.replace("trtllm_", prefix)) == read_sample(text)


def test_usage_is_from_blocks_where_no_share_is_given(body: Body) -> None:
    text = "".join(
        line for line in body("trtllm_prometheus").splitlines(keepends=True) if "_kv_cache_utilization" not in line
    )
    assert read_sample(text).pinned_usage == 0.375


def test_tokens_of_ended_requests_count_where_blocks_are_not_counted(body: Body) -> None:
    text = "".join(line for line in body("trtllm_prometheus").splitlines(keepends=True) if "_blocks_total" not in line)
    sample = read_sample(text)
    assert (sample.hit_counter, sample.hit_tokens_total, sample.query_tokens_total) == (
        "prompt_cached_tokens_total",
        20000,
        50000,
    )


def test_a_counter_that_is_not_there_yet_beside_its_twin_has_counted_nothing(body: Body) -> None:
    text = "".join(line for line in body("trtllm_prometheus").splitlines(keepends=True) if "reused_blocks" not in line)
    sample = read_sample(text)
    assert (sample.hit_tokens_total, sample.query_tokens_total) == (0, 300 * 32)


def test_of_iterations_the_last_of_each_rank_counts(body: Body) -> None:
    sample = read_sample(body("trtllm_iterations"))
    assert sample.rank_usages == {"0": 0.125, "1": 0.4}
    assert (sample.pinned_usage, sample.capacity_tokens) == (0.4, 64_000)
    assert (sample.running, sample.queued, sample.hit_rate_gauge) == (10, 3, 0.8)
    assert (sample.hit_tokens_total, sample.query_tokens_total) == (48 * 32, 70 * 32)


def test_one_rank_can_be_read_alone(body: Body) -> None:
    sample = read_sample(body("trtllm_iterations"), rank=1)
    assert (sample.pinned_usage, sample.capacity_tokens, sample.running) == (0.4, 32_000, 6)
    assert read_sample(body("trtllm_iterations"), rank=7) == EngineSample(engine="tensorrt_llm")


def test_cached_blocks_count_as_free_so_usage_is_pinned_usage() -> None:
    assert read_sample(json.dumps([pool(usedNumBlocks=0, missedBlocks=1000)])).pinned_usage == 0.0


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (pool(usedNumBlocks=101), "pinned_usage"),
        (pool(usedNumBlocks=None), "pinned_usage"),
        (pool(maxNumBlocks=0), "pinned_usage"),
        (pool(maxNumBlocks=0), "capacity_tokens"),
        (pool(tokensPerBlock="32"), "capacity_tokens"),
        (pool(tokensPerBlock=True), "hit_tokens_total"),
        (pool(reusedBlocks=-1), "hit_tokens_total"),
        (pool(missedBlocks=float("nan")), "query_tokens_total"),
        (pool(missedBlocks=10**400), "hit_counter"),
        (iteration(kvCacheStats=None), "capacity_tokens"),
        (iteration(kvCacheStats=[]), "pinned_usage"),
        (iteration(numActiveRequests=None), "running"),
        (iteration(numQueuedRequests=float("inf")), "queued"),
        ({"iterLatencyMS": 7.0}, "queued"),
    ],
)
def test_what_is_not_said_or_unusable_is_unknown_and_never_zero(row: dict[str, Any], field: str) -> None:
    sample = read_sample(json.dumps([row]))
    assert sample.engine == "tensorrt_llm"
    assert getattr(sample, field) is None


def test_a_pool_of_one_rank_is_not_taken_for_that_of_all() -> None:
    rows = [pool() | {"attentionDpRank": 0}, pool(maxNumBlocks=None) | {"attentionDpRank": 1}]
    sample = read_sample(json.dumps(rows))
    assert (sample.capacity_tokens, sample.rank_usages) == (None, {"0": 0.25})


@pytest.mark.parametrize("text", ["[1]", "[null]", "[{}]", '[{"a": 1}]', "[[]]", "[" * 100_000, '[{"iter": 1}]'])
def test_other_json_is_not_metrics(text: str) -> None:
    with pytest.raises(MetricsError, match="JSON"):
        read_sample(text)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["kvCacheStats", "numActiveRequests", "numQueuedRequests", "attentionDpRank"]),
            st.none()
            | st.integers()
            | st.floats()
            | st.dictionaries(st.sampled_from(list(iteration()["kvCacheStats"])), st.integers() | st.floats()),
        )
    )
)
def test_any_rows_are_a_sample_in_range_or_a_metrics_error(rows: list[Any]) -> None:
    try:
        sample = read_sample(json.dumps(rows))
    except MetricsError:
        return
    assert all(0 <= usage <= 1 for usage in sample.rank_usages.values())
    assert all(value is None or value >= 0 for value in (sample.running, sample.queued, sample.capacity_tokens))
    if sample.query_tokens_total is not None:
        assert 0 <= sample.hit_tokens_total <= sample.query_tokens_total


# --- a server ---


@pytest.fixture(params=[TensorRTLLM, AnyEngine])
def reader(request: pytest.FixtureRequest, server: Any, closing: Callable[[Any], Any]) -> Any:
    return closing(request.param(server.url))


def test_prometheus_page_is_preferred_since_reading_it_takes_nothing_away(server, reader, body: Body) -> None:
    server.answer(PROMETHEUS, body("trtllm_prometheus"))
    server.answer("/metrics", json.dumps([iteration()]))
    for _ in range(3):
        sample = reader.read(ENOUGH)
    assert sample.pinned_usage == 0.375
    assert server.paths.count("/metrics") <= 1  # to learn what is there


def test_iterations_are_read_where_there_is_no_other_page(server, reader) -> None:
    server.answer("/metrics", json.dumps([iteration()]))
    assert [reader.read(ENOUGH).pinned_usage for _ in range(3)] == [0.25] * 3


def test_no_iteration_since_the_last_reading_is_the_same_reading_again(server, reader) -> None:
    server.answer("/metrics", json.dumps([iteration()]))
    first = reader.read(ENOUGH)
    server.answer("/metrics", "[]")
    assert reader.read(ENOUGH).same_reading(first)
    server.answer("/metrics", json.dumps([pool(usedNumBlocks=50)]))
    assert reader.read(ENOUGH).pinned_usage == 0.5


def test_before_the_first_request_nothing_is_known_and_the_flag_is_named(server, reader) -> None:
    server.answer("/metrics", "[]")
    with pytest.raises(MetricsError, match=r"first request.*enable_iter_perf_stats"):
        reader.read(ENOUGH)
    server.answer("/metrics", json.dumps([iteration()]))
    assert reader.read(ENOUGH).capacity_tokens == 3200


def test_a_page_that_counts_requests_but_no_iterations_is_not_enough(server, reader) -> None:
    server.answer(PROMETHEUS, "trtllm_prompt_tokens_total 5.0\ntrtllm_prompt_cached_tokens_total 1.0\n")
    server.answer("/metrics", json.dumps([iteration()]))
    for _ in range(2):
        assert reader.read(ENOUGH).pinned_usage == 0.25


def test_counters_that_go_down_are_a_restart(server, reader) -> None:
    server.answer("/metrics", json.dumps([pool(reusedBlocks=30)]))
    before = reader.read(ENOUGH)
    server.answer("/metrics", json.dumps([pool(reusedBlocks=0, missedBlocks=0)]))
    assert reader.read(ENOUGH).since(before).restarted


def test_neither_page_names_the_flags(server, closing) -> None:
    with pytest.raises(MetricsError, match=r"404.*enable_iter_perf_stats.*return_perf_metrics"):
        closing(TensorRTLLM(server.url)).read(ENOUGH)


def test_a_page_that_takes_its_time_is_explained(server, closing) -> None:
    server.hang("/metrics")
    with pytest.raises(EngineUnreachableError, match=r"no whole reply.*return_perf_metrics"):
        closing(TensorRTLLM(server.url)).read(SHORT)


def test_any_engine_looks_elsewhere_after_a_page_that_never_answers(server, closing, body: Body) -> None:
    server.hang("/metrics")
    server.answer(PROMETHEUS, body("trtllm_prometheus"))
    reader = closing(AnyEngine(server.url))
    with pytest.raises(EngineUnreachableError):
        reader.read(SHORT)
    assert reader.read(ENOUGH).engine == "tensorrt_llm"


def test_any_engine_follows_an_engine_that_is_replaced_by_one_of_another_kind(server, closing, body: Body) -> None:
    reader = closing(AnyEngine(server.url))
    kinds = []
    for pages in (
        {"/metrics": body("sglang_one_rank")},
        {"/metrics": json.dumps([iteration()])},
        {"/metrics": body("vllm_transition")},
        {PROMETHEUS: body("trtllm_prometheus")},
        {"/metrics": body("sglang_one_rank")},
    ):
        server.routes.clear()
        for path, text in pages.items():
            server.answer(path, text)
        kinds.append(reader.read(ENOUGH).engine)
    assert kinds == ["sglang", "tensorrt_llm", "vllm", "tensorrt_llm", "sglang"]
