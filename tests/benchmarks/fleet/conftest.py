"""A record made by hand."""

from __future__ import annotations

import pytest

from benchmarks.fleet.real.record import Record, Run, Setting, Share
from benchmarks.lab.real.store import CaseLine


@pytest.fixture
def setting() -> Setting:
    return Setting(
        workload="swe",
        seed=0,
        engine={"name": "SGLang 0.5.23", "scheduling": {"max_total_tokens": 16_000}},
        servers=2,
        machine={"cpu": "A processor", "cores": 2, "python": "3.11.2"},
    )


@pytest.fixture
def case() -> CaseLine:
    return CaseLine(
        workload="swe",
        repeat=1,
        scale={"tokens": 0.06},
        agents=96,
        steps=1300,
        prompt_tokens=900_000,
        output_tokens=40_000,
        final_tokens=96_000,
        tool_s=900.0,
    )


@pytest.fixture
def make_run():
    def make(arm: str, repeat: int, makespan_s: float, **more) -> Run:
        shares = (Share(prompt_tokens=600.0, hit_tokens=300.0), Share(prompt_tokens=200.0, hit_tokens=180.0))
        more = {"hit_rate": 0.6, "recomputed_tokens": 1000, "lost": 0, "servers": shares, "front_cpu_s": 0.5} | more
        return Run(arm=arm, repeat=repeat, makespan_s=makespan_s, **more)

    return make


@pytest.fixture
def make_record(setting, case):
    def make(*runs: Run) -> Record:
        record = Record()
        record.begin(setting, {run.repeat: case for run in runs})
        for run in runs:
            record.add(run)
        return record

    return make
