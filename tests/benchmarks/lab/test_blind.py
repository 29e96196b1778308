"""Arms that know less: each still runs a batch to its end, and keeps what it should not know from the law."""

import pytest

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.arms.blind import KEPT_BACK
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.engines import Engine
from benchmarks.lab.simulate import simulate
from concur_agents.emulator import CostModel, EngineConfig

ENGINE = Engine(
    name="test",
    config=EngineConfig(max_total_tokens=6_000, context_length=6000),
    cost=CostModel(prefill_token_s=0.002, decode_base_s=0.05),
)


def crowd() -> Batch:
    """Thirty agents whose contexts fill the pool ten times over."""
    return Batch.of([Plan(f"a{n}", [Step(400 + 300 * k, 30, 1.0) for k in range(6)]) for n in range(30)])


@pytest.mark.parametrize("what", KEPT_BACK)
def test_a_batch_gets_through_whatever_is_unknown_and_is_no_slower_than_without_control(what: str) -> None:
    batch = crowd()
    free = simulate(batch, ENGINE, parse_arms("uncontrolled")[0])
    result = simulate(batch, ENGINE, parse_arms(f"blind:{what}")[0])
    assert result.lost == 0
    assert result.makespan_s <= 1.02 * free.makespan_s


def test_what_can_be_kept_back_is_said() -> None:
    with pytest.raises(ValueError, match="needs one of cached, capacity, metrics, usage"):
        parse_arms("blind:colour:budget")
