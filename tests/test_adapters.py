"""What adapters are made of: runs that end whatever happens, and failures of Concur's own that nobody has to catch."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest

from concur_agents import AgentState, Controller, Outcome
from concur_agents.adapters import AgentRun


def state(controller: Controller, agent_id: str) -> AgentState | None:
    return {view.agent_id: view.state for view in controller.agents()}.get(agent_id)


def finished(controller: Controller) -> dict[str, int]:
    return {str(outcome): count for outcome, count in controller.stats().finished.items()}


@pytest.fixture
def controller(make_controller: Any) -> Controller:
    made: Controller = make_controller(window=2)
    return made


async def test_a_run_is_an_agent_and_a_step_its_generation(controller: Controller) -> None:
    with AgentRun(controller, "a") as run:
        async with run.step() as step:
            assert state(controller, "a") is AgentState.GENERATING
            step.observe({"prompt_tokens": 10, "completion_tokens": 1})
        assert state(controller, "a") is AgentState.IN_TOOL
        with run.step():
            assert state(controller, "a") is AgentState.GENERATING
    assert finished(controller) == {"completed": 1}
    assert controller.stats().prompt_tokens == 10


async def test_hooks_before_and_after_may_come_twice(controller: Controller) -> None:
    with AgentRun(controller, "a") as run:
        await run.resume()
        await run.resume()
        run.pause({"prompt_tokens": 10, "completion_tokens": 1})
        run.pause()
        assert state(controller, "a") is AgentState.IN_TOOL
        run.resume_blocking()
        assert state(controller, "a") is AgentState.GENERATING
    assert finished(controller) == {"completed": 1}


@pytest.mark.parametrize(
    ("error", "outcome"), [(ValueError(), "failed"), (KeyboardInterrupt(), "cancelled"), (GeneratorExit(), "cancelled")]
)
def test_what_is_raised_inside_is_the_outcome(controller: Controller, error: BaseException, outcome: str) -> None:
    def fail() -> None:
        with AgentRun(controller, "a") as run:
            run.resume_blocking()
            raise error

    with pytest.raises(type(error)):
        fail()
    assert finished(controller) == {outcome: 1}


def test_an_outcome_that_was_said_counts(controller: Controller) -> None:
    with AgentRun(controller, "a") as run:
        run.resume_blocking()
        run.finish(Outcome.CANCELLED)
    assert finished(controller) == {"cancelled": 1}


def test_a_run_that_is_collected_is_cancelled(controller: Controller) -> None:
    run: Any = AgentRun(controller, "a").__enter__()
    run.resume_blocking()
    del run
    gc.collect()
    assert finished(controller) == {"cancelled": 1}


def test_two_runs_under_one_id_are_two_agents(controller: Controller) -> None:
    with AgentRun(controller, "a") as first, AgentRun(controller, "a", parent=None) as second:
        assert first.agent_id == "a"
        assert second.agent_id.startswith("a~")
        second.resume_blocking()
        first.resume_blocking()
    assert finished(controller) == {"completed": 2}


def test_a_run_that_ends_with_a_question_goes_on_under_its_id(controller: Controller) -> None:
    with AgentRun(controller, "a") as run:
        run.resume_blocking()
        run.suspend()
    assert state(controller, "a") is AgentState.PARKED
    with AgentRun(controller, "a") as run:
        run.resume_blocking()
        assert state(controller, "a") is AgentState.GENERATING
    assert finished(controller) == {"completed": 1}


async def test_without_a_controller_the_agent_goes_on_and_it_is_said_once(
    controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    controller.close()
    for _ in range(3):
        with AgentRun(controller, "a", log=logging.getLogger("an_adapter")) as run:
            async with run.step() as step:
                step.observe({"prompt_tokens": 1})
            run.park()
            run.suspend()
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert {record.name for record in warnings} == {"an_adapter"}
    assert len(warnings) == len({record.getMessage() for record in warnings})
