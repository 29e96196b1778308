"""Where requests have spent their time, from what engines tell."""

import dataclasses

import pytest

from benchmarks.engines.emulated import emulated
from benchmarks.engines.engine import Engine
from benchmarks.engines.kinds import SGLANG, VLLM_KIND
from benchmarks.engines.latency import NOTHING_YET, Latency, read_latency
from concur_agents.emulator import CostModel

SGLANG_BODY = """\
# TYPE sglang:queue_time_seconds histogram
sglang:queue_time_seconds_bucket{le="+Inf"} 2.0
sglang:queue_time_seconds_sum{tp_rank="0"} 3.0
sglang:time_to_first_token_seconds_sum{is_streaming="false"} 4.0
sglang:time_to_first_token_seconds_sum{is_streaming="true"} 1.0
sglang:e2e_request_latency_seconds_sum{is_streaming="false"} 9.0
"""
VLLM_BODY = """\
vllm:request_queue_time_seconds_sum{engine="0"} 1.0
vllm:request_prefill_time_seconds_sum{engine="0"} 2.0
vllm:request_decode_time_seconds_sum{engine="0"} 4.0
"""


def engine(kind, monkeypatch, body, status=200):
    monkeypatch.setattr("benchmarks.engines.latency.call", lambda method, url: (status, body))
    return Engine(url="http://engine", name="an engine", model="m", scheduling={}, kind=kind)


@pytest.mark.parametrize(
    ("kind", "body", "expected"), [(SGLANG, SGLANG_BODY, (3, 2, 4)), (VLLM_KIND, VLLM_BODY, (1, 2, 4))]
)
async def test_each_kind_tells_it_in_its_own_words(kind, body, expected, monkeypatch):
    latency = await read_latency(engine(kind, monkeypatch, body))
    assert dataclasses.astuple(latency) == expected


@pytest.mark.parametrize(
    ("body", "status"), [("", 200), (SGLANG_BODY, 404), (VLLM_BODY, 200), (SGLANG_BODY[:-30], 200), ("<html>", 200)]
)
async def test_what_is_not_told_is_unknown(body, status, monkeypatch):
    assert await read_latency(engine(SGLANG, monkeypatch, body, status)) is None


def test_what_lies_between_two_readings_is_never_below_nothing():
    before, after = Latency(queue_s=1, prefill_s=5, decode_s=2), Latency(queue_s=4, prefill_s=3, decode_s=2.5)
    assert after.since(before) == Latency(queue_s=3, prefill_s=0, decode_s=0.5)


async def test_the_emulator_tells_it_like_sglang():
    cost = CostModel(prefill_base_s=0.5, prefill_token_s=0.0, decode_base_s=0.25)
    async with emulated({"max_total_tokens": 1000}, cost, speedup=1000.0) as running:
        before = await read_latency(running)
        await running.generate({"input_ids": [1] * 10, "sampling_params": {"max_new_tokens": 3, "ignore_eos": True}})
        took = (await read_latency(running)).since(before or NOTHING_YET)
    assert (took.queue_s, took.prefill_s, took.decode_s) == pytest.approx((0, 0.5, 0.5), abs=0.01)
