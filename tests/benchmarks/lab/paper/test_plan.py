"""One workload for all rows, chosen by a stated rule; each cell once."""

from __future__ import annotations

import pytest

from benchmarks.lab.cells import Cell
from benchmarks.lab.paper.cells import make_arm, make_batch
from benchmarks.lab.paper.plan import DEEPSEEK, FULL, QWEN, SMALL, threshold_arm
from benchmarks.lab.paper.store import Store
from benchmarks.lab.paper.summary import Summary
from benchmarks.lab.paper.values import TABLE_1, TABLE_2, TABLE_3
from benchmarks.lab.paper.workload import paper_workload, workload_name
from benchmarks.lab.workloads.react import REACT

SCALES = pytest.mark.parametrize("scale", [FULL, SMALL], ids=["full", "small"])
OVERFLOW = 4 / 3


def test_the_papers_own_ratios_follow_from_its_seconds() -> None:
    ratios = {
        key: [round(row.sglang / other, 2) for other in (row.requests, row.hicache, row.concur)]
        for key, row in TABLE_1.items()
    }
    assert ratios["qwen3-32b-tp8", 256] == [0.72, 1.52, 4.09]
    assert ratios["qwen3-32b-tp4", 256] == [2.03, 1.32, 2.92]
    assert ratios["qwen3-32b-tp2", 256] == [1.83, 2.27, 2.99]
    assert ratios[DEEPSEEK, 16] == [1.01, 0.34, 1.68]
    assert ratios[DEEPSEEK, 32] == [0.90, 0.54, 1.20]
    assert ratios[DEEPSEEK, 40] == [1.34, 1.67, 1.90]


def test_the_papers_default_thresholds_have_its_table_1_latencies() -> None:
    concur = tuple(TABLE_1[engine, 256].concur for engine in QWEN)
    assert TABLE_3["u_high"][0.5] == TABLE_3["u_low"][0.2] == concur


@SCALES
def test_each_row_has_published_values(scale) -> None:
    assert {(row.engine, row.published) for row in scale.rows} == set(TABLE_1)
    assert {row.published for row in scale.rows if row.engine == DEEPSEEK} == set(TABLE_2)


@SCALES
def test_no_cell_is_planned_twice_and_every_arm_can_be_made(scale) -> None:
    cells = scale.cells()
    assert len({cell.key for cell in cells}) == len(cells)
    for arm in {cell.arm for cell in cells}:
        assert make_arm(arm).name == arm


def test_all_rows_of_table_1_have_one_workload() -> None:
    shown = [cell for cell in FULL.cells() if cell.workload == workload_name(FULL.steps)]
    for row in FULL.rows:
        arms = {cell.arm for cell in shown if (cell.engine, cell.agents) == (row.engine, row.agents)}
        assert arms > {"uncontrolled", "hicache", "concur", "budget", f"requests:{FULL.request_cap(row)}"}


def test_the_length_is_the_least_at_which_each_pool_overflows_by_a_third(tmp_path) -> None:
    summary = Summary(Store(tmp_path / "none.json"), FULL)
    least = {
        steps: min(summary.overcommit(row, workload_name(steps)) for row in FULL.rows)
        for steps in (10, 20, 30, FULL.steps)
    }
    assert all(least[steps] < OVERFLOW for steps in (10, 20, 30))
    assert least[FULL.steps] >= OVERFLOW


def test_with_ten_steps_it_is_the_labs_react_10() -> None:
    ours, theirs = paper_workload(workload_name(10)).batch(0, 40).plans, REACT.batch(0, 40).plans
    for what in (lambda plan: plan.longest, lambda plan: len(plan.steps)):
        mine, other = (sum(map(what, plans)) / 40 for plans in (ours, theirs))
        assert mine == pytest.approx(other, rel=0.1)  # the same distributions, other random numbers


def test_a_longer_shared_prefix_is_added_to_every_prompt() -> None:
    plans = paper_workload(workload_name(10, 8000)).batch(0, 20).plans
    assert {plan.prefix_tokens for plan in plans} == {8000}
    assert all(8000 < plan.steps[0].prompt <= 9000 for plan in plans)


@pytest.mark.parametrize(
    "name", ["paper-1-shared-", "paper-1-shared-0", "paper", "paper-", "paper-0", "paper-x", "swe"]
)
def test_an_unknown_workload_is_refused(name) -> None:
    with pytest.raises(ValueError, match="workload must be paper- and a number of steps"):
        make_batch(name, 0, 1)


def test_a_threshold_at_its_default_is_the_law_itself() -> None:
    assert threshold_arm("u_high", 0.5) == threshold_arm("u_low", 0.2) == "concur"
    assert threshold_arm("u_low", 0.5) == "concur:u_low=0.5"


def test_the_request_cap_holds_final_contexts() -> None:
    caps = [FULL.request_cap(row) for row in FULL.rows]
    assert caps[0] > caps[1] > caps[2] >= 1
    assert all(isinstance(cell, Cell) for cell in FULL.traces())
