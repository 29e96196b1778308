"""A record made by hand, and an emulator that takes next to no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from benchmarks.engines.emulated import emulated
from benchmarks.engines.engine import Engine
from benchmarks.real.record import AgentRecord, BatchRecord, FitRecord, Record, RunRecord
from benchmarks.real.workload import Workload
from concur_agents.emulator import CostModel

COST = CostModel(
    prefill_base_s=0.02,
    prefill_token_s=5e-4,
    prefill_pair_s=6e-8,
    decode_base_s=0.01,
    decode_seq_s=0.003,
    decode_token_s=1e-6,
)
SCHEDULING = {"max_total_tokens": 16_000, "context_length": 8192, "decode_log_interval": 1}
SPEEDUP = 500.0


@pytest.fixture
def small() -> Workload:
    return Workload(
        agents=3,
        steps=(2, 3),
        system_tokens=20,
        task_tokens=(40, 60),
        observation_tokens=(10, 20),
        output_tokens=(2, 4),
        tool_s=(0.0, 0.5),
    )


@pytest.fixture
def cost() -> CostModel:
    return COST


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with emulated(SCHEDULING, COST, speedup=SPEEDUP) as running:
        yield running


@pytest.fixture
def make_run() -> Callable[..., RunRecord]:
    return _run


@pytest.fixture
def make_record() -> Callable[..., Record]:
    return _record


def _run(arm: str, repeat: int, makespan_s: float, *, lost: int = 0, others_cpu: float | None = 0.0) -> RunRecord:
    agents = tuple(
        AgentRecord(
            agent_id=f"agent-{number:02d}",
            steps=5,
            ended_s=makespan_s,
            wait_s=1.0,
            prompt_tokens=1000,
            cached_tokens=400,
            output_tokens=50,
            recomputed_tokens=100,
            error="ConnectionError: gone" if number < lost else None,
        )
        for number in range(2)
    )
    batch = BatchRecord(makespan_s=makespan_s, agents=agents, readings=10, missed=0)
    return RunRecord(arm=arm, repeat=repeat, batch=batch, others_cpu=others_cpu)


def _record(*runs: RunRecord, predicted: tuple[RunRecord, ...] = (), repeats: int = 3) -> Record:
    return Record(
        started="2026-01-01T00:00:00+00:00",
        engine={"name": "SGLang 0.5.23", "scheduling": {"max_total_tokens": 16_000}},
        machine={"cpu": "A processor", "cores": 2, "python": "3.11.2"},
        workload={"agents": 2, "seed": 0, "total_steps": 10, "final_tokens": 56_000},
        tick_s=1.0,
        arms=("uncontrolled", "concur"),
        repeats=repeats,
        runs=runs,
        fit=FitRecord(cost={"decode_base_s": 1.0}, scheduling={}, prefill_error=0.05, decode_error=0.1),
        predicted=predicted,
    )
