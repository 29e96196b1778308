"""SGLang's metrics, rule by rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from concur_agents.engines import read_sample

Body = Callable[[str], str]


def read(*lines: str):
    return read_sample("".join(f"sglang:{line}\n" for line in lines))


def without(text: str, *names: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not any(name in line for name in names))


def test_one_rank_reads_in_full(body: Body) -> None:
    sample = read_sample(body("sglang_one_rank"))
    assert (sample.engine, sample.role) == ("sglang", "unified")
    assert (sample.pinned_usage, sample.occupied_usage) == (0.15, 0.75)
    assert (sample.running, sample.queued, sample.capacity_tokens) == (5, 7, 20000)
    assert (sample.retractions_total, sample.hit_rate_gauge) == (2.0, 0.25)
    assert sample.rank_usages == {"0": 0.15}
    assert (sample.hit_rate, sample.retractions, sample.restarted) == (None, None, False)


def test_replicas_count_once_and_ranks_add_up_while_the_hottest_decides(body: Body) -> None:
    sample = read_sample(body("sglang_dp2_tp2"))
    assert sample.rank_usages == {"0": 0.9, "1": 0.31}
    assert list(sample.rank_usages) == ["0", "1"]
    assert (sample.pinned_usage, sample.running, sample.queued) == (0.9, 14, 7)
    assert (sample.capacity_tokens, sample.retractions_total) == (2000, 4.0)
    assert (sample.hit_tokens_total, sample.query_tokens_total) == (50.0, 350.0)


def test_occupied_usage_is_of_the_rank_with_most_occupied_not_of_the_most_pinned(body: Body) -> None:
    assert read_sample(body("sglang_dp2_tp2")).occupied_usage == 0.99


def test_ranks_are_listed_by_number() -> None:
    sample = read(*(f'token_usage{{dp_rank="{rank}"}} 0.1' for rank in (10, 9, 0)))
    assert list(sample.rank_usages) == ["0", "9", "10"]


def test_same_rank_of_two_workers_behind_a_router_are_two_pools() -> None:
    sample = read(
        'token_usage{dp_rank="0",worker_addr="http://a"} 0.2',
        'token_usage{dp_rank="0",worker_addr="http://b"} 0.4',
        'num_running_reqs{dp_rank="0",worker_addr="http://a"} 2',
        'num_running_reqs{dp_rank="0",worker_addr="http://b"} 3',
    )
    assert sample.rank_usages == {"http://a/0": 0.2, "http://b/0": 0.4}
    assert (sample.pinned_usage, sample.running) == (0.4, 5)


def test_gauge_of_retractions_with_its_dead_processes_is_not_read() -> None:
    assert read('num_retracted_reqs{pid="7"} 99', "token_usage 0.1").retractions_total is None


def test_empty_priority_is_the_total(body: Body) -> None:
    sample = read_sample(body("sglang_priority"))
    assert (sample.running, sample.queued, sample.pinned_usage) == (4, 2, 0.78)


def test_priorities_without_a_total_add_up() -> None:
    lines = [f'num_queue_reqs{{priority="{priority}",tp_rank="{tp}"}} 2' for priority in (1, 2) for tp in (0, 1)]
    assert read(*lines).queued == 4


def test_cached_and_prompt_tokens_are_each_summed_over_all_their_labels(body: Body) -> None:
    sample = read_sample(body("sglang_priority"))
    assert (sample.hit_tokens_total, sample.query_tokens_total) == (150.0, 1000.0)
    assert sample.hit_counter == "cached_tokens_total"


@pytest.mark.parametrize(
    ("gone", "counter", "hits", "queries"),
    [
        ((), "prefill_effective_tokens_total", 500.0, 1500.0),
        (("prefill_effective",), "realtime_tokens_total", 600.0, 1800.0),
        (("prefill_effective", "realtime_tokens"), "cached_tokens_total", 410.0, 1400.0),
        (("prefill_effective", "realtime_tokens", "cached_tokens"), None, None, None),
        (("prefill_effective", "realtime_tokens", "prompt_tokens"), None, None, None),
    ],
)
def test_hit_counters_by_preference(body: Body, gone, counter, hits, queries) -> None:
    sample = read_sample(without(body("sglang_one_rank"), *gone))
    assert (sample.hit_counter, sample.hit_tokens_total, sample.query_tokens_total) == (counter, hits, queries)


@pytest.mark.parametrize("value", ["NaN", "-1", "garbage", "0"])
def test_unusable_or_idle_counter_gives_way_to_the_next(body: Body, value: str) -> None:
    lines = [
        line.rpartition(" ")[0] + f" {value}\n" if line.startswith("sglang:prefill_effective") else line
        for line in body("sglang_one_rank").splitlines(keepends=True)
    ]
    assert read_sample("".join(lines)).hit_counter == "realtime_tokens_total"


def test_counters_of_a_fresh_engine_are_a_baseline_of_zero() -> None:
    sample = read('realtime_tokens_total{mode="prefill_compute"} 0', "cached_tokens_total 0", "prompt_tokens_total 0")
    assert (sample.hit_counter, sample.hit_tokens_total) == ("realtime_tokens_total", 0.0)


def test_mode_that_has_not_counted_yet_is_zero_where_its_family_is_there() -> None:
    sample = read('realtime_tokens_total{mode="prefill_compute"} 9', 'realtime_tokens_total{mode="decode"} 5')
    assert (sample.hit_tokens_total, sample.query_tokens_total) == (0.0, 9.0)


def test_more_hits_than_queries_are_no_hit_rate() -> None:
    assert read("cached_tokens_total 10", "prompt_tokens_total 9").hit_counter is None


def test_hit_rate_comes_from_the_deltas_of_two_readings(body: Body) -> None:
    before = body("sglang_one_rank")
    after = before.replace('tp_rank="0"} 1000.0', 'tp_rank="0"} 1030.0').replace("} 400.0", "} 410.0")
    assert read_sample(after).since(read_sample(before)).hit_rate == 0.25


def test_retractions_are_zero_before_the_first_where_their_counter_would_be() -> None:
    assert read('realtime_tokens_total{mode="decode"} 5').retractions_total == 0.0
    assert read("token_usage 0.1").retractions_total is None


@pytest.mark.parametrize(
    ("lines", "occupied"),
    [
        (("kv_used_tokens 2", "kv_evictable_tokens 3", "max_total_num_tokens 10"), 0.5),
        (("kv_available_tokens 4", "max_total_num_tokens 10"), 0.6),
        (("kv_used_tokens 2", "kv_evictable_tokens 3", "kv_available_tokens 15"), 0.25),
        (("num_used_tokens 2", "kv_evictable_tokens 3", "max_total_num_tokens 10"), 0.5),
        (("kv_used_tokens 10", "kv_evictable_tokens 0", "kv_available_tokens 0", "max_total_num_tokens 10"), 1.0),
        (("kv_used_tokens 0", "kv_evictable_tokens 0", "kv_available_tokens 9", "max_total_num_tokens 9"), 0.0),
        (("kv_used_tokens 0", "kv_evictable_tokens 0", "kv_available_tokens 0", "max_total_num_tokens 9"), None),
        (("kv_used_tokens 2", "kv_evictable_tokens 9", "max_total_num_tokens 10"), None),
        (("kv_used_tokens 2", "kv_evictable_tokens NaN", "max_total_num_tokens 10"), None),
        (("kv_used_tokens 2", "kv_evictable_tokens 3"), None),
        (("kv_used_tokens 2", "max_total_num_tokens 10"), None),
    ],
)  # fmt: skip
def test_occupied_usage(lines, occupied) -> None:
    assert read(*lines).occupied_usage == occupied


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-0.1", "5000", "1e400", "9" * 400, "0.", "x", ""])
def test_unusable_usage_is_unknown_and_spoils_nothing_else(value: str) -> None:
    sample = read(f"token_usage {value}", "num_running_reqs 3")
    assert (sample.pinned_usage, sample.rank_usages, sample.running) == (None, {}, 3)


def test_unrounded_usage_stands_in_where_the_usual_one_is_unusable() -> None:
    assert read("token_usage NaN", "full_token_usage 0.31").pinned_usage == 0.31


def test_rank_without_usable_usage_is_left_out_but_makes_counts_unknown() -> None:
    sample = read(
        'token_usage{dp_rank="0"} 0.4',
        'token_usage{dp_rank="1"} NaN',
        'num_running_reqs{dp_rank="0"} 4',
        'num_running_reqs{dp_rank="1"} NaN',
    )
    assert (sample.rank_usages, sample.running) == ({"0": 0.4}, None)


def test_dead_replica_does_not_hide_a_live_one() -> None:
    assert read('token_usage{tp_rank="0"} NaN', 'token_usage{tp_rank="1"} 0.4').pinned_usage == 0.4


@pytest.mark.parametrize(
    ("values", "usages"),
    [
        (("71.25",), [0.7125]),
        (("0.5", "71"), [0.005, 0.71]),
        (("100",), [1.0]),
        (("1.0",), [1.0]),
        (("1.004",), [1.0]),
        (("0",), [0.0]),
    ],
)
def test_units_are_those_of_the_whole_family(values, usages) -> None:
    sample = read(*(f'token_usage{{dp_rank="{rank}"}} {value}' for rank, value in enumerate(values)))
    assert list(sample.rank_usages.values()) == usages


def test_pool_size_needs_every_rank_that_reports_usage() -> None:
    lines = ['token_usage{dp_rank="0"} 0.4', 'token_usage{dp_rank="1"} 0.4']
    assert read(*lines, 'max_total_num_tokens{dp_rank="0"} 10').capacity_tokens is None
    both = [f'max_total_num_tokens{{dp_rank="{rank}"}} 10' for rank in (0, 1)]
    assert read(*lines, *both).capacity_tokens == 20
    assert read("max_total_num_tokens 0").capacity_tokens is None
    assert read(*lines, both[0], 'max_total_num_tokens{dp_rank="1"} 0').capacity_tokens is None


def test_old_server_knows_neither_ranks_nor_pool(body: Body) -> None:
    sample = read_sample(body("sglang_old"))
    assert (sample.pinned_usage, sample.running, sample.queued) == (0.71, 12, 3)
    assert (sample.capacity_tokens, sample.occupied_usage, sample.role, sample.retractions_total) == (None,) * 4
    assert sample.hit_rate_gauge == 0.42


def test_openmetrics_body_with_renamed_samples(body: Body) -> None:
    sample = read_sample(body("sglang_openmetrics"))
    assert (sample.role, sample.pinned_usage, sample.running) == ("decode", 0.6, 5)
    assert (sample.hit_tokens_total, sample.query_tokens_total) == (60.0, 90.0)


def test_queues_of_a_disaggregated_engine_count_as_waiting(body: Body) -> None:
    assert read_sample(body("sglang_openmetrics")).queued == 13
    prefill = 'num_queue_reqs{engine_type="prefill"} 1', 'num_prefill_inflight_queue_reqs{engine_type="prefill"} 4'
    assert read(*prefill).queued == 5
    assert read("num_queue_reqs 1", "num_prefill_bootstrap_queue_reqs NaN").queued is None


def test_prefill_engine_does_not_say_how_many_run() -> None:
    assert read('num_running_reqs{engine_type="prefill"} 0').running is None
    assert read('num_running_reqs{engine_type="prefill"} 2').running == 2
    assert read('num_running_reqs{engine_type="unified"} 0').running == 0


@pytest.mark.parametrize("roles", [("prefill", "decode"), ("other",), ("",)])
def test_role_is_unknown_unless_all_say_the_same_known_one(roles) -> None:
    assert read(*(f'token_usage{{engine_type="{role}"}} 0.1' for role in roles)).role is None


def test_names_before_the_first_release_and_of_the_loads_endpoint() -> None:
    early = read('num_requests_running{name="m"} 5', 'queue_req{name="m"} 2', 'cache_hit_rate{name="m"} 71.25')
    assert (early.running, early.queued, early.hit_rate_gauge) == (5, 2, 0.7125)
    loads = read_sample('sglang_num_waiting_reqs{dp_rank="0"} 3\nsglang_num_waiting_reqs{dp_rank="1"} 1\n')
    assert loads.queued == 4


def test_hit_rate_gauge_is_the_mean_over_ranks() -> None:
    assert read('cache_hit_rate{dp_rank="0"} 0.2', 'cache_hit_rate{dp_rank="1"} 0.4').hit_rate_gauge == pytest.approx(
        0.3
    )
