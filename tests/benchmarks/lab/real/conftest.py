"""A store made by hand, and batches that take next to no time."""

from __future__ import annotations

import pytest

from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.real.predict import emulator_of
from benchmarks.lab.real.store import CaseLine, Head, Run, Store
from concur_agents.emulator import CostModel

COST = CostModel(prefill_base_s=0.01, prefill_token_s=5e-4, decode_base_s=0.01, decode_seq_s=0.001)
SCHEDULING = {"max_total_tokens": 16_000, "context_length": 8192, "decode_log_interval": 1, "page_size": None}


@pytest.fixture
def lab_engine():
    return emulator_of("sglang", SCHEDULING, COST)


@pytest.fixture
def make_batch():
    def make(agents: int = 3, steps: int = 3, tool_s: float = 0.5, **more) -> Batch:
        each = [Step(100 + 50 * number, 10, tool_s) for number in range(steps)]
        return Batch.of([Plan(f"a{number}", each, **more) for number in range(agents)])

    return make


@pytest.fixture
def head():
    return Head(
        started="2026-01-01T00:00:00+00:00",
        engine={"kind": "sglang", "name": "SGLang 0.5.23", "scheduling": {"max_total_tokens": 16_000}},
        machine={"cpu": "A processor", "cores": 2, "python": "3.11.2"},
        tick_s=1.0,
        seed=0,
    )


@pytest.fixture
def case_line():
    return CaseLine(
        workload="swe",
        repeat=1,
        scale={"tokens": 0.06, "merge": 4, "tools": 0.25, "longest": 6000},
        agents=24,
        steps=240,
        prompt_tokens=100_000,
        output_tokens=10_000,
        final_tokens=48_000,
        tool_s=120.0,
    )


@pytest.fixture
def make_run():
    def make(arm: str, repeat: int, makespan_s: float, **more) -> Run:
        more = {"hit_rate": 0.5, "recomputed_tokens": 100, "lost": 0, **more}
        return Run(workload="swe", arm=arm, repeat=repeat, makespan_s=makespan_s, **more)

    return make


@pytest.fixture
def make_store(tmp_path, head, case_line):
    def make(*runs: Run, predictions: tuple[Run, ...] = ()) -> Store:
        store = Store.load(tmp_path / "made.jsonl")
        store.begin(head)
        store.begin_case(case_line)
        for run in runs:
            store.add(run)
        store.predicted(predictions)
        return store

    return make
