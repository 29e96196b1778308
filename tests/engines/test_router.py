"""Several workers or ranks behind one address."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from concur_agents.engines import AnyEngine, SGLang, read_sample

Body = Callable[[str], str]
ENOUGH = 10.0


def worker(name: str, used: int, total: int | None = 1000) -> str:
    labels = f'{{worker_addr="http://{name}:30000",tp_rank="0"}}'
    pool = "" if total is None else f"sglang_max_total_num_tokens{labels} {total}\n"
    return f"sglang_token_usage{labels} {used / 1000}\nsglang_num_running_reqs{labels} {used // 100}\n" + pool


@pytest.fixture(params=[SGLang, AnyEngine])
def reader(request: pytest.FixtureRequest, server: Any, closing: Callable[[Any], Any]) -> Any:
    return closing(request.param(server.url))


def test_a_model_gateways_workers_are_read_together(server, reader) -> None:
    server.answer("/engine_metrics", worker("a", 200) + worker("b", 700))
    for _ in range(2):
        sample = reader.read(ENOUGH)
    assert (sample.pinned_usage, sample.running, sample.capacity_tokens) == (0.7, 9, 2000)
    assert len(sample.rank_usages) == 2
    assert server.paths.count("/metrics") == 1


def test_one_worker_is_not_taken_for_all_when_asked_for_its_pool(server, reader) -> None:
    server.answer("/engine_metrics", worker("a", 200, None) + worker("b", 700, None))
    server.answer("/server_info", json.dumps({"max_total_num_tokens": 1000, "dp_size": 1}))
    assert reader.read(ENOUGH).capacity_tokens is None


def test_a_data_parallel_rank_is_read_as_if_it_were_an_engine(server, closing, body: Body) -> None:
    server.answer("/metrics", body("sglang_dp2_tp2"))
    whole = read_sample(body("sglang_dp2_tp2"))
    samples = [closing(AnyEngine(server.url, rank=rank)).read(ENOUGH) for rank in (0, 1)]
    assert [sample.rank_usages for sample in samples] == [{rank: whole.rank_usages[rank]} for rank in ("0", "1")]
    assert sum(sample.running for sample in samples) == whole.running
    assert sum(sample.capacity_tokens for sample in samples) == whole.capacity_tokens


def test_a_ranks_pool_is_its_share_of_what_the_server_says_of_all(server, closing) -> None:
    server.answer("/metrics", 'sglang:token_usage{dp_rank="0"} 0.1\nsglang:token_usage{dp_rank="1"} 0.2\n')
    server.answer("/server_info", json.dumps({"max_total_num_tokens": 1000, "dp_size": 2}))
    assert closing(SGLang(server.url, rank=1)).read(ENOUGH).capacity_tokens == 1000


def test_vllms_ranks_are_its_engines(body: Body) -> None:
    assert read_sample(body("vllm_transition"), rank=1).pinned_usage == 0.5


def test_what_does_not_say_of_which_rank_it_is_counts_for_each() -> None:
    text = 'sglang:token_usage{dp_rank="1"} 0.2\nsglang:cached_tokens_total 5\nsglang:prompt_tokens_total 10\n'
    assert read_sample(text, rank=0).pinned_usage is None
    assert read_sample(text, rank=0).query_tokens_total == 10
