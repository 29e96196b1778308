"""The gate with nothing behind it."""

from __future__ import annotations

from benchmarks.lab.arms.base import Arm
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.engines import get_engine
from benchmarks.lab.gate import OpenGate
from benchmarks.lab.simulate import simulate


def test_an_open_gate_lets_everybody_through_at_once() -> None:
    plans = [Plan(f"a{number}", [Step(1000, 20, 1.0), Step(1200, 20, 0.0)]) for number in range(5)]
    result = simulate(Batch.of(plans), get_engine("qwen3-32b-tp2"), Arm("open", lambda _: OpenGate()))
    assert result.lost == 0
    assert [agent.steps for agent in result.agents] == [2] * 5
