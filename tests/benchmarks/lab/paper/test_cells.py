"""A cell of the paper's tables runs as the lab's do; a trace of it changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.lab.cells import Cell
from benchmarks.lab.engines import ENGINES
from benchmarks.lab.paper import trace as tracing
from benchmarks.lab.paper.cells import make_arm, paper_code, run_paper_cell
from benchmarks.lab.paper.trace import Trace, run_trace

THRASHING = Cell(workload="paper-40", engine="qwen3-32b-tp2", arm="uncontrolled", seed=0, agents=12)
"""12 agents of 42,000 tokens on a pool of 317,000."""
FITTING = replace(THRASHING, agents=4)


@pytest.fixture(scope="module")
def thrashing() -> Trace:
    return run_trace(THRASHING, "c0de", bins=40)


def test_a_cell_comes_out_the_same_twice() -> None:
    first, second = (run_paper_cell(FITTING, "c0de") for _ in range(2))
    assert replace(first, wall_s=None) == replace(second, wall_s=None)
    assert first.makespan_s
    assert first.lost == 0
    assert first.recomputed_tokens == first.steps - FITTING.agents  # the KV of a last token is never kept


def test_watching_a_cell_does_not_change_it(thrashing) -> None:
    record = run_paper_cell(THRASHING, "c0de")
    assert thrashing.makespan_s == record.makespan_s
    assert thrashing.hit_rate_in(0, 40) == pytest.approx(record.hit_rate, abs=0.01)


def test_the_parts_of_the_latency_make_it_whole(thrashing) -> None:
    parts = (thrashing.recomputing_s, thrashing.prefill_s, thrashing.decode_s, thrashing.idle_s)
    assert sum(parts) == pytest.approx(thrashing.makespan_s, abs=0.1)
    assert min(parts) >= 0
    assert 0 < thrashing.recomputing_share < 1
    assert sum(thrashing.recomputing) / 40 == pytest.approx(thrashing.recomputing_share, abs=0.01)


def test_where_all_fits_nothing_is_recomputed_and_there_is_no_middle_phase() -> None:
    trace = run_trace(FITTING, "c0de", bins=40)
    assert trace.recomputing_share < 0.001
    assert trace.middle() is None


def test_a_thrashing_batch_has_three_phases(thrashing) -> None:
    first, last = thrashing.middle()
    warm, middle, cool = (thrashing.hit_rate_in(*span) for span in ((0, first), (first, last), (last, 40)))
    assert 0 < first < last < 40
    assert middle < 0.5 < warm
    assert cool > middle


def test_the_window_of_a_law_is_at_most_the_batch(thrashing) -> None:
    assert max(window for window in thrashing.window if window is not None) == THRASHING.agents
    law = run_trace(replace(THRASHING, arm="concur:start=2"), "c0de", bins=40)
    assert min(window for window in law.window if window is not None) < THRASHING.agents


def test_a_bin_without_a_tick_knows_nothing() -> None:
    trace = run_trace(replace(FITTING, workload="paper-1", agents=1), "c0de", bins=200)
    assert None in trace.hit_rate
    assert None in trace.pinned
    assert trace.span([None], 0, 1) is None
    assert trace.hit_rate_in(0, 0) is None


def test_a_link_as_fast_as_the_presets_is_hicache_itself() -> None:
    engine = ENGINES["deepseek-v3-tp16"]
    fast, usual = make_arm("link:45").flags(engine), make_arm("hicache").flags(engine)
    assert fast.config == usual.config
    assert fast.cost.load_token_s == pytest.approx(usual.cost.load_token_s)


def test_a_slow_link_makes_hicache_slower() -> None:
    cell = replace(THRASHING, arm="hicache")
    assert run_paper_cell(replace(cell, arm="link:0.5"), "").makespan_s > run_paper_cell(cell, "").makespan_s


@pytest.mark.parametrize("name", ["link", "link:", "link:0", "link:-1", "link:x", "link:inf", "link:nan"])
def test_a_link_that_cannot_be_is_refused(name) -> None:
    with pytest.raises(ValueError, match="needs GB/s above 0"):
        make_arm(name)


def test_the_code_has_a_hash_of_its_own() -> None:
    assert len(paper_code()) == 12
    assert tracing.BINS > 0
