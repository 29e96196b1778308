"""What is and is not a body of metrics: names, spellings, truncation, garbage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concur_agents.engines import read_sample
from concur_agents.errors import MetricsError
from concur_agents.samples import EngineSample

Body = Callable[[str], str]
BODIES = (
    "sglang_one_rank",
    "sglang_dp2_tp2",
    "sglang_priority",
    "sglang_openmetrics",
    "sglang_old",
    "vllm_transition",
    "trtllm_prometheus",
)
JSON_BODIES = ("trtllm_iterations",)


def test_names_match_whole() -> None:
    text = (
        "sglang:swa_token_usage 0.9\nsglang:token_usage_x 0.9\nsglang:x_token_usage 0.9\ntoken_usage 0.9\n"
        "xsglang:token_usage 0.9\nsglang::token_usage 0.9\nsglang:token_usage_created 1.7e9\n"
    )
    assert read_sample(text) == EngineSample(engine="sglang")
    assert read_sample(text + "sglang:token_usage 0.2\n").pinned_usage == 0.2


def test_both_spellings_at_once_count_once(body: Body) -> None:
    text = body("sglang_dp2_tp2")
    assert read_sample(text + text.replace("sglang:", "sglang_")) == read_sample(text)


def test_underscored_body_reads_the_same(body: Body) -> None:
    text = body("sglang_one_rank")
    assert read_sample(text.replace("\nsglang:", "\nsglang_")) == read_sample(text)


@pytest.mark.parametrize(
    "line",
    [
        'sglang:token_usage{a="}",b="x y",c="\\"{"} 0.2\n',
        '  sglang:token_usage{a="b",} 0.2 1700000000000\n',
        'sglang:token_usage { a = "b" } 0.2\r\n',
        "sglang:token_usage\t0.2\n",
        "sglang:token_usage 2e-1\n",
        "sglang:token_usage 0.2",
        "\ufeff# x\nsglang:token_usage 0.2\n# EOF\n",
    ],
)
def test_every_legal_form_of_a_line_is_read(line: str) -> None:
    assert read_sample(line).pinned_usage == 0.2


def test_exotic_line_ends_inside_a_label_do_not_split_the_line() -> None:
    assert read_sample('sglang:token_usage{model_name="a\u2028b\x85c\x0bd"} 0.2\n').pinned_usage == 0.2


def test_broken_line_makes_its_family_unknown_and_no_other() -> None:
    sample = read_sample(
        'sglang:num_running_reqs{dp_rank="0"} 1\nsglang:num_running_reqs{dp_rank="1" 1\nsglang:token_usage 0.2\n'
    )
    assert (sample.running, sample.pinned_usage) == (None, 0.2)


def test_absurdly_long_line_is_broken_not_slow() -> None:
    labels = ",".join(f'l{number}="x"' for number in range(200_000))
    sample = read_sample(f"sglang:token_usage{{{labels}}} 0.2\nsglang:num_running_reqs 1\n")
    assert (sample.pinned_usage, sample.running) == (None, 1)


def test_two_engines_in_one_body_are_not_mixed() -> None:
    sample = read_sample("vllm:num_requests_running 9\nsglang:token_usage 0.2\n")
    assert (sample.engine, sample.running, sample.pinned_usage) == ("sglang", None, 0.2)


def test_known_engine_that_says_nothing_yet_is_unknown_not_an_error() -> None:
    assert read_sample('sglang:http_requests_total{endpoint="/health"} 1\n') == EngineSample(engine="sglang")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "empty.*--enable-metrics"),
        (" \r\n\ufeff", "empty"),
        ("<!doctype html><title>404</title>", "HTML.*--enable-metrics"),
        ('{"detail":"Not Found"}', "JSON.*--enable-metrics"),
        ('{"error":"Unauthorized"}', "key"),
        ("<h1>403 Forbidden</h1>", "key"),
        ('python_gc_objects_collected_total{generation="0"} 5.0\n', "python_gc.*--enable-metrics"),
        ("hello", "hello"),
        ("sglang:num_runn", "begins 'sglang:num_runn'"),
        ("vllm: engine is dead\n", "begins 'vllm: engine"),
        ("\x00\x01", "not metrics"),
    ],
)
def test_body_without_metrics_names_the_likely_cause(text: str, cause: str) -> None:
    with pytest.raises(MetricsError, match=cause):
        read_sample(text)


def test_truncated_body_keeps_what_is_whole() -> None:
    sample = read_sample('# TYPE sglang:token_usage gauge\nsglang:token_usage{model_name="m"} 0.4\nsglang:num_runn')
    assert (sample.pinned_usage, sample.running) == (0.4, None)


@pytest.mark.parametrize(
    "tail", ["s", "sglang:num_runn", "sglang:num_running_reqs{dp_", 'sglang:num_running_reqs{dp_rank="1"} 1.']
)
def test_family_that_the_cut_may_have_shortened_is_unknown(tail: str) -> None:
    sample = read_sample('sglang:token_usage 0.4\nsglang:num_running_reqs{dp_rank="0"} 7\n' + tail)
    assert (sample.running, sample.pinned_usage) == (None, 0.4)


@pytest.mark.parametrize("name", BODIES)
def test_cut_in_a_name_or_label_never_makes_a_number_wrong(body: Body, name: str) -> None:
    """Cuts between two lines or inside a last number are for the HTTP layer to notice: the text shows nothing."""
    text = body(name)
    whole = read_sample(text)
    for at in range(0, len(text), 5):
        tail = text[:at].rpartition("\n")[2]
        if tail and not tail.startswith("#") and "} " not in tail:
            assert_agrees(text[:at], whole)


def assert_agrees(cut: str, whole: EngineSample) -> None:
    try:
        sample = read_sample(cut)
    except MetricsError:
        return
    # Not queued: a whole further queue that did not arrive is no different from one the engine does not have.
    for name in ("running", "capacity_tokens", "retractions_total"):
        assert getattr(sample, name) in (None, getattr(whole, name)), (name, cut[-60:])
    if sample.hit_counter == whole.hit_counter and sample.hit_counter:
        assert (sample.hit_tokens_total, sample.query_tokens_total) == (
            whole.hit_tokens_total,
            whole.query_tokens_total,
        ), cut[-60:]


def assert_in_range(sample: EngineSample) -> None:
    shares = [sample.pinned_usage, sample.occupied_usage, sample.hit_rate_gauge, *sample.rank_usages.values()]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    assert sample.pinned_usage == max(sample.rank_usages.values(), default=None)
    for name in (field.name for field in fields(sample) if field.name.endswith(("_total", "_tokens"))):
        value = getattr(sample, name)
        assert value is None or (value >= 0 and math.isfinite(value)), name
    assert all(count is None or (isinstance(count, int) and count >= 0) for count in (sample.running, sample.queued))
    assert (sample.hit_counter is None) == (sample.hit_tokens_total is None) == (sample.query_tokens_total is None)


def check(text: str) -> None:
    try:
        sample = read_sample(text)
    except MetricsError:
        return
    assert_in_range(sample)
    assert_in_range(sample.since(sample))


@given(st.text())
def test_any_text_is_a_sample_in_range_or_a_metrics_error(text: str) -> None:
    check(text)


NAMES = st.sampled_from(
    [
        "token_usage",
        "num_running_reqs",
        "num_queue_reqs",
        "max_total_num_tokens",
        "kv_used_tokens",
        "kv_evictable_tokens",
        "kv_available_tokens",
        "realtime_tokens_total",
        "prefill_effective_tokens_total",
        "cached_tokens_total",
        "prompt_tokens_total",
        "cache_hit_rate",
        "num_retracted_requests_total",
        "kv_cache_utilization",
        "kv_cache_max_blocks",
        "kv_cache_used_blocks",
        "kv_cache_tokens_per_block",
        "kv_cache_reused_blocks_total",
        "kv_cache_missed_blocks_total",
    ]
)
LABELS = st.dictionaries(
    st.sampled_from(["dp_rank", "tp_rank", "pid", "priority", "mode", "engine_type", "worker_addr", "é"]),
    st.sampled_from(["0", "1", "", "None", "input", "device_hit", "prefill_cache", "prefill"]) | st.text(),
)
VALUES = (
    st.floats().map(repr)
    | st.integers().map(str)
    | st.sampled_from(["NaN", "+Inf", "", "0.", "1e999", "0x1", "1_0"])
    | st.text()
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in draw(LABELS).items())
    return (
        f"{draw(st.sampled_from(['sglang:', 'sglang_', 'vllm:', 'trtllm_']))}{draw(NAMES)}{{{labels}}} {draw(VALUES)}"
    )


@given(st.lists(lines(), max_size=12).map("\n".join), st.booleans())
def test_any_values_and_labels_stay_in_range(text: str, ended: bool) -> None:
    check(text + "\n" * ended)


@settings(max_examples=200)
@given(data=st.data())
def test_mutated_bodies_stay_in_range(body: Body, data: st.DataObject) -> None:
    text = body(data.draw(st.sampled_from(BODIES + JSON_BODIES)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 80)))
        insert = data.draw(st.text(max_size=8) | st.sampled_from(['"', "}", "{", "\\", "\n", " ", "-", "e9", "NaN"]))
        text = text[:start] + insert + text[end:]
    check(text)
