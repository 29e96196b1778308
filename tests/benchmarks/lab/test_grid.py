"""The grid: every cell runs once, whatever interrupts it, and a sweep stops where nothing is to be gained."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.cells import Cell, Record, failed
from benchmarks.lab.grid import SWEEPS, Chain, all_arms, expand_arms, finished, plan_grid, run_grid, sweep_caps
from benchmarks.lab.progress import Estimate, said
from benchmarks.lab.records import RecordFile

ONE = {"swe": (24, None)}


def cell(arm: str = "concur", seed: int = 0, agents: int = 24) -> Cell:
    return Cell(workload="swe", engine="e", arm=arm, seed=seed, agents=agents)


def record(of: Cell, makespan_s: float = 100.0) -> Record:
    names = {"workload": of.workload, "engine": of.engine, "arm": of.arm, "seed": of.seed, "agents": of.agents}
    return Record(concur="0", code="c", makespan_s=makespan_s, steps=1000, wall_s=2.0, **names)


class Inline:
    """Workers that run a cell when they are waited for, the last begun first."""

    def __init__(self, work=record, size: int = 2) -> None:
        self.begun: list[Cell] = []
        self.ran: list[Cell] = []
        self._work, self._size = work, size

    @property
    def free(self) -> bool:
        return len(self.begun) < self._size

    @property
    def busy(self) -> bool:
        return bool(self.begun)

    def submit(self, cell: Cell) -> None:
        assert self.free
        self.begun.append(cell)

    def wait(self) -> list[Record]:
        last = self.begun.pop()
        self.ran.append(last)
        return [self._work(last)]


@pytest.fixture
def file(tmp_path):
    with RecordFile.open(tmp_path / "cells.jsonl") as opened:
        yield opened


def swept(makespans: list[float], *, prune: bool = True) -> tuple[Chain, dict]:
    """A sweep, and records of its first cells."""
    cells = tuple(cell(f"fixed:{2 + number}") for number in range(len(makespans) + 1))
    done = {of.key: record(of, makespan) for of, makespan in zip(cells, makespans, strict=False)}
    return Chain(cells, prune=prune), done


def test_all_names_every_arm_that_needs_no_argument_and_the_sweeps() -> None:
    arms = all_arms()
    assert {"uncontrolled", "requests:sweep", "fixed:sweep", "concur", "budget"} <= set(arms)
    assert not any(arm.startswith("config") for arm in arms)
    assert arms[0] == "uncontrolled"
    assert expand_arms("all") == arms


def test_arms_keep_their_order_and_come_once() -> None:
    arms = expand_arms("concur:alpha=4,beta=0.3,fixed:8,fixed:sweep")
    assert arms == ("concur:alpha=4,beta=0.3", "fixed:8", "fixed:sweep")


@pytest.mark.parametrize("text", ["", ",", "turbo", "fixed:none", "fixed:", "concur,turbo", "concur,concur"])
def test_arms_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="arm"):
        expand_arms(text)


@given(agents=st.integers(1, 5000), kind=st.sampled_from(sorted(SWEEPS)))
def test_a_sweep_goes_up_to_the_number_of_agents_without_a_gap(agents: int, kind: str) -> None:
    caps = sweep_caps(kind, agents)
    assert list(caps) == sorted(set(caps))
    assert all(cap < agents for cap in caps)
    assert not caps or all(after <= 2 * before for before, after in pairwise([*caps, agents]))


def test_a_plan_has_each_combination_and_one_chain_a_sweep() -> None:
    chains = plan_grid({"swe": (24, None), "mine": (3, "f")}, ["a", "b"], ["concur", "fixed:sweep"], 2)
    assert len(chains) == 2 * 2 * 2 * 2
    assert [of.arm for of in chains[1].cells] == ["fixed:2", "fixed:4", "fixed:8", "fixed:12", "fixed:16"]
    assert {(of.workload, of.trace) for chain in chains for of in chain.cells} == {("swe", None), ("mine", "f")}
    assert [chain.cells[0].seed for chain in chains] == [0] * 8 + [1] * 8


@pytest.mark.parametrize(
    ("makespans", "stops"),
    [
        ([100, 90, 95, 130], False),
        ([100, 90, 130, 140], True),
        ([100, 90, 130, 120], False),
        ([100, 90, 130, 92, 93], False),
        ([100, 130, 170], True),
        ([100, 200], False),
        ([300, 200, 100, 110, 119], False),
    ],
    ids=["one bad", "two bad", "falling again", "a bump", "from the first", "too few", "not bad enough"],
)
def test_a_sweep_stops_after_two_caps_that_are_much_worse(makespans: list[float], stops: bool) -> None:
    chain, done = swept(makespans)
    assert (not chain.open_cells(done)) is stops
    whole, done = swept(makespans, prune=False)
    assert len(whole.open_cells(done)) == 1


@given(makespans=st.lists(st.floats(1, 1e6), min_size=1, max_size=12), best=st.integers(0, 11))
def test_a_sweep_that_falls_and_then_rises_never_stops_before_its_best(makespans: list[float], best: int) -> None:
    low = sorted(makespans)
    turn = min(best, len(low) - 1)
    curve = [*low[::-1][:turn], low[0], *low[1 : len(low) - turn]]
    for known in range(curve.index(min(curve))):
        chain, done = swept(curve[:known])
        assert chain.open_cells(done)


def test_a_cap_that_failed_does_not_stop_its_sweep() -> None:
    chain, done = swept([100, 130, 170])
    done[chain.cells[1].key] = failed(chain.cells[1], "c", "no")
    assert chain.open_cells(done)


def test_every_cell_runs_once_and_is_written(file) -> None:
    workers = Inline()
    run_grid(plan_grid(ONE, ["e"], ["concur", "fixed:8", "fixed:sweep"], 2), file, workers)
    assert len(workers.ran) == len({of.key for of in workers.ran}) == len(file.records) == 2 * 6


def test_a_sweep_runs_from_its_lowest_cap_up_and_leaves_out_what_it_need_not(file) -> None:
    workers = Inline(lambda of: record(of, 100.0 * int(of.arm.partition(":")[2])))
    run_grid(plan_grid(ONE, ["e"], ["fixed:sweep"], 1), file, workers)
    assert [of.arm for of in workers.ran] == ["fixed:2", "fixed:4", "fixed:8"]


def test_what_is_there_is_not_run_again(file) -> None:
    chains = plan_grid(ONE, ["e"], ["concur", "fixed:sweep"], 3)
    with pytest.raises(KeyboardInterrupt):
        run_grid(chains, file, Inline(), lambda _: _interrupt(len(file.records) == 7))
    before = set(file.records)
    workers = Inline()
    run_grid(chains, file, workers)
    assert len(before) == 7
    assert not before & {of.key for of in workers.ran}
    assert set(file.records) == {of.key for chain in chains for of in chain.cells}


def test_a_failed_cell_stops_no_other_and_is_tried_again_the_next_time(file) -> None:
    chains = plan_grid(ONE, ["e"], ["concur", "budget"], 2)
    run_grid(chains, file, Inline(lambda of: failed(of, "c", "no") if of.arm == "concur" else record(of)))
    assert [one.error for one in file.records.values()].count("no") == 2
    assert len(finished(file)) == 2
    again = Inline()
    run_grid(chains, file, again)
    assert {of.arm for of in again.ran} == {"concur"}
    assert len(finished(file)) == 4


def test_the_time_left_is_corrected_by_the_cells_that_ended() -> None:
    cells = [cell(seed=seed) for seed in range(20)]
    estimate = Estimate({"swe": 1000})
    assert estimate.seconds(cells, 2) == pytest.approx(10)
    for of in cells:
        estimate.learn(record(of))  # 2 ms a step
    assert estimate.seconds(cells, 2) == pytest.approx(15)
    estimate.learn(failed(cells[0], "c", "no"))
    assert estimate.seconds(cells, 2) == pytest.approx(15)


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (75, "75 s"), (700, "12 min"), (12_000, "3 h 20 min")])
def test_a_time_is_said_as_people_say_it(seconds: float, text: str) -> None:
    assert said(seconds) == text


def _interrupt(now: bool) -> None:
    if now:
        raise KeyboardInterrupt
