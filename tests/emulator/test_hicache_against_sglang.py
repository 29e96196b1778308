"""The host tier against real SGLang 0.5.23 with HiCache: the same requests, the same cache, with a tolerance of zero.

`make test` replays what two real servers said. To compare with a live one, or to record anew, start a fresh one on the
model beside this file, with the flags of `SERVERS` (`test_against_sglang.py` has the others), for example

    --enable-hierarchical-cache --hicache-ratio 2 --max-total-tokens 600 --chunked-prefill-size 64 --page-size 1

    CONCUR_HICACHE_URL=http://127.0.0.1:30000 CONCUR_HICACHE=write_through CONCUR_RECORD=1 \\
        pytest tests/emulator/test_hicache_against_sglang.py

HiCache copies with CUDA; on a CPU, torch's indexing has to stand in for `transfer_kv_direct`, with
`--hicache-io-backend direct --hicache-mem-layout layer_first`.
"""

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from concur_agents.emulator import CostModel, EngineConfig, HiCacheConfig, Request, Scheduler
from concur_agents.emulator.hicache import WritePolicy
from concur_agents.emulator.metrics import MetricsPage
from concur_agents.emulator.radix import pack

CASSETTE = Path(__file__).parent / "cassettes" / "hicache-0.5.23.json"
URL = os.environ.get("CONCUR_HICACHE_URL")
LIVE = os.environ.get("CONCUR_HICACHE", "write_through")
RECORD = bool(os.environ.get("CONCUR_RECORD"))

COST = CostModel(prefill_token_s=1e-3, decode_base_s=1e-2)
SERVERS = {
    "write_through": EngineConfig(
        max_total_tokens=600, chunked_prefill_size=64, context_length=8192, hicache=HiCacheConfig(ratio=2.0)
    ),
    "write_through_selective": EngineConfig(
        max_total_tokens=608,
        chunked_prefill_size=128,
        context_length=8192,
        page_size=16,
        hicache=HiCacheConfig(ratio=1.5, write_policy=WritePolicy.SELECTIVE),
    ),
}
SCENARIOS = {
    # seed, agents, rounds, tokens at first, tokens generated, longest context, ignore_eos
    "turns": (1, 4, 8, (10, 40), (2, 12), 220, True),
    "eviction": (2, 14, 20, (40, 110), (2, 12), 220, True),
    "retraction": (4, 4, 6, (5, 20), (250, 400), 220, False),
    "long": (3, 6, 14, (150, 300), (2, 30), 450, True),
    "many": (5, 30, 16, (20, 60), (2, 20), 160, True),
}
COUNTERS = (
    ("prefill_effective_tokens_total", "mode", "input"),
    ("prefill_effective_tokens_total", "mode", "device_hit"),
    ("prefill_effective_tokens_total", "mode", "host_hit"),
    ("realtime_tokens_total", "mode", "prefill_compute"),
    ("realtime_tokens_total", "mode", "prefill_cache"),
    ("cached_tokens_total", "cache_source", "device"),
    ("cached_tokens_total", "cache_source", "host"),
    ("num_retracted_requests_total", "", ""),
    ("evicted_tokens_total", "", ""),
    ("load_back_tokens_total", "pool", "kv"),
    ("hicache_backup_tokens_total", "pool", "kv"),
    ("hicache_dropped_tokens_total", "reason", "write_through_unbacked_eviction"),
    ("hicache_host_used_tokens", "", ""),
    ("hicache_host_total_tokens", "", ""),
    ("kv_available_tokens", "", ""),
    ("kv_evictable_tokens", "", ""),
)

Row = list[Any]
"""Cached tokens, those from host memory, retractions, output ids."""
Generate = Callable[[list[list[int]], list[int], bool], list[Row]]


def turns(generate: Generate, scenario: str) -> list[list[Row]]:
    """Agents with a common prefix take turns, alone and in batches; some go back and branch off."""
    seed, agents, rounds, first, new, longest, ignore_eos = SCENARIOS[scenario]
    rng = random.Random(seed)

    def some(count: int) -> list[int]:
        return [rng.randrange(6, 262) for _ in range(count)]

    shared = some(20)
    contexts = {agent: shared + some(rng.randint(*first)) for agent in range(agents)}
    answers = []
    for _ in range(rounds):
        who = rng.sample(range(agents), rng.choice([1, 2, max(2, agents // 4), agents if agents < 5 else agents // 2]))
        for agent in who:
            if rng.random() < 0.2:
                contexts[agent] = contexts[agent][: rng.randint(10, len(contexts[agent]))] + some(5)
        rows = generate([contexts[agent] for agent in who], [rng.randint(*new) for _ in who], ignore_eos)
        answers.append(rows)
        for agent, row in zip(who, rows, strict=True):
            contexts[agent] = contexts[agent] + row[3] + some(rng.randint(2, 12))
            if len(contexts[agent]) > longest:
                contexts[agent] = shared + some(rng.randint(*first))
    return answers


def counters(page: str) -> dict[str, float]:
    found = dict.fromkeys((" ".join(filter(None, counter)) for counter in COUNTERS), 0.0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            for name, label, value in COUNTERS:
                if sample.name == f"sglang:{name}" and (not label or sample.labels.get(label) == value):
                    found[" ".join(filter(None, (name, label, value)))] += sample.value
    return found


def ask_real(url: str) -> dict[str, Any]:
    """All scenarios on the real server, and its counters afterwards. It must be a fresh one."""
    pool = urllib3.PoolManager(timeout=600, retries=False)

    def send(method: str, path: str, body: Any = None) -> str:
        response = pool.request(method, url + path, json=body, headers={"Accept": "text/plain"})
        assert response.status == 200, response.data
        return response.data.decode()

    def generate(prompts: list[list[int]], new: list[int], ignore_eos: bool) -> list[Row]:
        params = [{"max_new_tokens": count, "temperature": 0, "ignore_eos": ignore_eos} for count in new]
        replies = json.loads(send("POST", "/generate", {"input_ids": prompts, "sampling_params": params}))
        return [
            [
                reply["meta_info"]["cached_tokens"],
                (reply["meta_info"].get("cached_tokens_details") or {"host": 0})["host"],
                reply["meta_info"].get("num_retractions", 0),
                reply["output_ids"],
            ]
            for reply in replies
        ]

    played: dict[str, Any] = {}
    for scenario in SCENARIOS:
        send("POST", "/flush_cache", {})
        played[scenario] = turns(generate, scenario)
    time.sleep(2)  # it idles, and reports that it does, a moment after its last answer
    played["counters"] = counters(send("GET", "/metrics"))
    return played


@pytest.fixture(params=[*SERVERS, pytest.param("live", marks=pytest.mark.real_engine)])
def real(request: pytest.FixtureRequest) -> tuple[EngineConfig, dict[str, Any]]:
    """What a real server is made of, and what it answered."""
    if request.param != "live":
        return SERVERS[request.param], json.loads(CASSETTE.read_text())[request.param]
    if URL is None:
        pytest.skip("CONCUR_HICACHE_URL is not set")
    played = ask_real(URL)
    if RECORD:
        before = json.loads(CASSETTE.read_text()) if CASSETTE.exists() else {}
        CASSETTE.write_text(json.dumps({**before, LIVE: played}, separators=(",", ":")) + "\n")
    return SERVERS[LIVE], played


def test_every_request_finds_what_it_finds_on_the_real_server(real: tuple[EngineConfig, dict[str, Any]]) -> None:
    config, answers = real
    scheduler = Scheduler(config, COST)

    for scenario in SCENARIOS:
        assert scheduler.flush()
        recorded = iter(answers[scenario])

        def generate(prompts: list[list[int]], new: list[int], ignore_eos: bool, script: Any = recorded) -> list[Row]:
            rows: list[Row] = next(script)
            requests = [
                Request(str(n), pack(prompt), pack(row[3]), max_new_tokens=most, ignore_eos=ignore_eos)
                for n, (prompt, row, most) in enumerate(zip(prompts, rows, new, strict=True))
            ]
            for request in requests:
                scheduler.submit(request)
            while not scheduler.idle:
                scheduler.step()
            scheduler.step()
            return [
                [r.cached_tokens, r.host_tokens, r.retractions, row[3]] for r, row in zip(requests, rows, strict=True)
            ]

        assert turns(generate, scenario) == answers[scenario], scenario

    scheduler.clock_s += 60
    scheduler.step()  # an idle engine brings its gauges up to date at most every 30 s
    page, _ = MetricsPage(scheduler, "model").render("text/plain")
    mine = counters(page.decode())
    assert mine == answers["counters"]
    assert mine["load_back_tokens_total pool kv"] > 1000
