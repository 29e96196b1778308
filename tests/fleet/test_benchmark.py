"""What ``python -m benchmarks.fleet`` shows, with few agents: the same every time, and what an outage is to cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.fleet.batch import Outage, Run, run_batch
from benchmarks.fleet.cells import measure
from benchmarks.fleet.cli import app
from benchmarks.lab.engines import get_engine
from benchmarks.lab.workloads import get_workload

ENGINE = get_engine("qwen3-32b-tp2").with_config(max_total_tokens=60_000)
BATCH = get_workload("react-10").batch(0, 24)
STEPS = sum(len(plan.steps) for plan in BATCH.plans)


@pytest.fixture(scope="module")
def intact() -> Run:
    return run_batch(BATCH, ENGINE, 2)


@pytest.fixture(scope="module")
def outage(intact: Run) -> Outage:
    return Outage(dies_at=0.4 * intact.makespan_s, joins_at=0.7 * intact.makespan_s)


@pytest.fixture(scope="module")
def broken(outage: Outage) -> Run:
    return run_batch(BATCH, ENGINE, 2, outage)


def test_a_batch_comes_out_the_same_each_time(intact: Run) -> None:
    assert run_batch(BATCH, ENGINE, 2) == intact


def test_everyone_gets_through_whatever_dies(intact: Run, broken: Run) -> None:
    assert len(intact.steps) == len(broken.steps) == STEPS
    assert intact.output == broken.output


def test_two_engines_are_faster_than_one_and_share_the_agents(intact: Run) -> None:
    assert intact.makespan_s < run_batch(BATCH, ENGINE, 1).makespan_s
    agents = [sum(step.site == site for step in intact.steps) for site in ("engine-0", "engine-1")]
    assert min(agents) > STEPS / 3


def test_nobody_is_on_an_engine_while_it_is_dead_and_one_that_joins_gets_work(broken: Run, outage: Outage) -> None:
    assert all(step.at <= outage.dies_at for step in broken.steps if step.site == "engine-0")
    joined = [step.at for step in broken.steps if step.site == "engine-2"]
    assert joined
    assert min(joined) > outage.joins_at


def test_who_lost_a_prefix_pays_for_it_once_and_no_more_than_it_held(broken: Run, outage: Outage) -> None:
    assert any(broken.held_at_death.values())
    for agent_id, held in broken.held_at_death.items():
        paid = [step.recomputed for step in broken.steps if step.agent_id == agent_id and step.moved]
        if held and paid:
            assert paid[0] <= held


def test_without_an_outage_few_are_moved_and_none_twice(intact: Run) -> None:
    assert max(intact.moves.values()) <= 1
    assert sum(intact.moves.values()) < len(intact.moves) / 4


def test_figures_are_shares_of_what_they_say() -> None:
    figures = measure("react-10", "qwen3-32b-tp2", 0, 16)
    assert figures.agents == 16
    assert abs(figures.hit_two - figures.hit_alone) < 0.05
    assert 0 <= figures.paid <= 1
    assert figures.pace_dead <= 1.05


def test_the_command_prints_a_table_and_writes_a_record(tmp_path: Path) -> None:
    record = tmp_path / "runs" / "fleet.json"
    done = CliRunner().invoke(app, ["--workloads", "react-10", "--agents", "8", "--json", str(record)])
    assert done.exit_code == 0, done.output
    assert "hit rate, two" in done.output
    (row,) = json.loads(record.read_text())
    assert (row["workload"], row["agents"]) == ("react-10", 8)


def test_what_there_is_not_is_named() -> None:
    done = CliRunner().invoke(app, ["--workloads", "nothing"])
    assert done.exit_code == 2
    assert "nothing" in done.output
