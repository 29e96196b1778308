"""Bodies of real and regenerated servers, each with what it must read as. They lie outside the project."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from concur_agents.engines import read_sample
from concur_agents.errors import MetricsError

SHARED = Path(os.environ.get("CONCUR_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
DUMPS = sorted((SHARED / "metrics").glob("*.source.json"))
REPLIES = sorted((SHARED / "sglang_samples").glob("metrics*.txt"))

FIELDS = {
    "kv_usage": "pinned_usage",
    "kv_usage_max": "pinned_usage",
    "token_usage": "pinned_usage",
    "physical_usage": "occupied_usage",
    "running": "running",
    "running_sum": "running",
    "queued": "queued",
    "queued_sum": "queued",
    "capacity": "capacity_tokens",
    "capacity_sum": "capacity_tokens",
    "capacity_tokens": "capacity_tokens",
    "hit_rate": "hit_rate_gauge",
    "hit_rate_gauge": "hit_rate_gauge",
    "hits": "hit_tokens_total",
    "queries": "query_tokens_total",
    "retracted_total_sum": "retractions_total",
    "role": "role",
}


def text_of(path: Path) -> str:
    return path.with_name(path.name.replace(".source.json", ".txt")).read_bytes().decode()


def without_better_counters(text: str) -> str:
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if "prefill_effective_tokens" not in line and "realtime_tokens" not in line
    )


def value_of(what: str, text: str) -> Any:
    sample = read_sample(text)
    if what == "cached_tokens_sum":
        return read_sample(without_better_counters(text)).hit_tokens_total
    if what == "ranks":
        return len(sample.rank_usages)
    if what == "evictable_fraction":
        return sample.occupied_usage - sample.pinned_usage
    return getattr(sample, FIELDS[what])


@pytest.mark.skipif(not DUMPS, reason="no shared data beside this checkout")
@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.name.removesuffix(".source.json"))
def test_dump_reads_as_expected(path: Path) -> None:
    text = text_of(path)
    expect = json.loads(path.read_text())["expect"]
    if error := expect.pop("error", None):
        with pytest.raises(MetricsError, match=error):
            read_sample(text)
    for what, wanted in expect.items():
        # The expectations give shares with as few as two digits.
        tolerance = 1e-3 if what in ("physical_usage", "evictable_fraction") else 1e-7
        close = pytest.approx(wanted, rel=1e-9, abs=tolerance) if isinstance(wanted, float) else wanted
        assert value_of(what, text) == close, what


@pytest.mark.skipif(not REPLIES, reason="no shared data beside this checkout")
@pytest.mark.parametrize("path", REPLIES, ids=lambda path: path.stem)
def test_reply_of_a_real_server_is_consistent(path: Path) -> None:
    text = path.read_text()
    sample = read_sample(text[text.index("# HELP") :])
    assert (sample.engine, sample.role) == ("sglang", "unified")
    assert sample.hit_counter == "prefill_effective_tokens_total"
    assert sample.capacity_tokens in (6000, 20000)
    assert 0 <= sample.pinned_usage <= sample.occupied_usage + 0.005  # the first has two digits
    assert sample.hit_tokens_total < sample.query_tokens_total
    assert None not in (sample.running, sample.queued, sample.retractions_total)
