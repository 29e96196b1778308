"""A cell of the lab: exact, deterministic, and what an agent waits for is the engine's time."""

from dataclasses import replace

import pytest

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.engines import Engine
from benchmarks.lab.simulate import simulate
from concur_agents.emulator import CostModel, EngineConfig

ENGINE = Engine(
    name="test",
    config=EngineConfig(max_total_tokens=16_000, chunked_prefill_size=None, context_length=8192),
    cost=CostModel(prefill_token_s=0.01, decode_base_s=1.0),
)


def arm(name: str = "uncontrolled"):
    return parse_arms(name)[0]


def plans(count: int, steps: int = 2, tool_s: float = 5.0) -> Batch:
    each = [Step(100 + 50 * k, 10, tool_s) for k in range(steps)]
    return Batch.of([Plan(f"a{n}", each) for n in range(count)])


def test_one_agent_alone_takes_its_prefills_its_decodes_and_its_tools() -> None:
    result = simulate(plans(1), ENGINE, arm())
    first, second = 100 * 0.01 + 9, (150 - 109) * 0.01 + 9  # the last token of a reply has no KV yet
    assert result.makespan_s == pytest.approx(first + 5 + second, abs=0.01)
    assert (result.lost, result.recomputed_tokens) == (0, 1)
    assert result.agents[0].steps == 2


def test_tools_wait_in_line_for_the_cores_there_are() -> None:
    together = simulate(plans(4, tool_s=500.0), ENGINE, arm()).makespan_s
    in_line = simulate(replace(plans(4, tool_s=500.0), cores=1), ENGINE, arm()).makespan_s
    assert in_line - together == pytest.approx(3 * 500, abs=50)


@pytest.mark.parametrize("cores", [0, -1])
def test_a_batch_needs_a_core(cores: int) -> None:
    with pytest.raises(ValueError, match="cores"):
        replace(plans(1), cores=cores)


def test_the_same_cell_twice_is_the_same() -> None:
    assert simulate(plans(40), ENGINE, arm("concur")) == simulate(plans(40), ENGINE, arm("concur"))


def test_a_window_holds_agents_back() -> None:
    assert simulate(plans(6), ENGINE, arm("fixed:1")).makespan_s > 2 * simulate(plans(6), ENGINE, arm()).makespan_s


def test_a_wave_begins_when_the_one_before_ended_and_finds_an_empty_cache() -> None:
    shared = [Plan(f"a{n}", [Step(100, 10, 0.0)], prefix=1, prefix_tokens=90) for n in range(2)]
    result = simulate(Batch((shared[:1], shared[1:]), update_s=30.0), ENGINE, arm())
    first, second = result.agents
    assert second.arrived_s == pytest.approx(first.ended_s + 30)
    assert second.cached_tokens == 0


@pytest.mark.parametrize("prompt", [8000, 9000], ids=["reply cut off", "prompt refused"])
def test_an_agent_that_cannot_fit_is_lost_and_no_other(prompt: int) -> None:
    big = Plan("big", [Step(100, 10, 0.0), Step(prompt, 400, 0.0)])
    small = Plan("small", [Step(100, 10, 0.0)])
    result = simulate(Batch.of([big, small]), ENGINE, arm())
    assert {agent.agent_id: agent.lost for agent in result.agents} == {"big": True, "small": False}
