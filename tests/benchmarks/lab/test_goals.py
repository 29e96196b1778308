"""What was aimed at stands beside what is, and beside what any scheduler could reach."""

from __future__ import annotations

from benchmarks.lab.cells import Record
from benchmarks.lab.goals import markdown
from benchmarks.lab.report import Report

SECONDS = {"budget": 100.0, "uncontrolled": 310.0, "concur": 120.0, "fixed:8": 115.0, "clairvoyant": 95.0}


def make(arm: str, seconds: float, seed: int = 0, bound: float | None = None) -> Record:
    return Record(
        concur="0",
        code="c",
        workload="w",
        engine="e",
        arm=arm,
        seed=seed,
        agents=24,
        makespan_s=seconds,
        lower_bound_s=bound,
        prompt_tokens=100,
        recomputed_tokens=90,
    )


def rows(records: list[Record]) -> dict[tuple[str, str], list[str]]:
    lines = [line for line in markdown(Report(records, ours="budget")).splitlines()[2:] if line.startswith("| ")]
    cells = [line.strip("|").split("|") for line in lines]
    return {(row[0].strip(), row[2].strip()): [cell.strip() for cell in row[3:]] for row in cells}


def test_each_goal_is_reached_or_not() -> None:
    said = rows([make(arm, makespan) for arm, makespan in SECONDS.items()])
    assert said["uncontrolled, thrashing", "3.00"][:2] == ["3.10", "reached"]
    assert said["concur", "1.30"][:2] == ["1.20", "**not reached**"]
    assert said["best fixed cap", "1.10"][:2] == ["1.15", "reached"]
    assert said["clairvoyant", "0.909"][:2] == ["0.950", "reached"]
    assert not any("thunder" in name for name, _ in said)  # nobody ran it


def test_a_goal_is_reachable_or_not_known_to_be_or_beyond_every_scheduler() -> None:
    seconds = SECONDS | {"uncontrolled": 270.0, "concur": 120.0, "thunder": 110.0}
    said = rows([make(arm, makespan, bound=91.0) for arm, makespan in seconds.items()])
    assert said["uncontrolled, thrashing", "3.00"][2:] == ["2.97", "2.84", "2.70", "**out of reach**: proved"]
    assert said["concur", "1.30"][2:] == ["1.32", "1.26", "1.20", "not reached with foresight either"]
    assert said["thunder", "1.15"][2:] == ["1.21", "1.16", "1.10", "reachable with foresight"]
    assert said["clairvoyant", "0.909"][2:] == [""] * 4


def test_the_clairvoyant_stands_beside_ours_on_the_seeds_that_it_ran_and_the_bound_on_all() -> None:
    records = [make(arm, makespan, bound=90.0) for arm, makespan in SECONDS.items()]
    records += [make("budget", 100.0, seed=1, bound=10.0), make("concur", 160.0, seed=1, bound=10.0)]
    said = rows(records)
    assert said["concur", "1.30"][:5] == ["1.39", "reached", "4.62", "1.26", "1.20"]


def test_without_references_nothing_is_said_of_what_could_be() -> None:
    records = [make(arm, makespan) for arm, makespan in SECONDS.items() if arm != "clairvoyant"]
    text = markdown(Report(records, ours="budget"))
    assert all(cells[2:] == [""] * 4 for cells in rows(records).values())
    assert "\n- " not in text


def test_a_ratio_just_short_of_its_aim_does_not_look_like_it() -> None:
    seconds = SECONDS | {"fixed:8": 109.98}
    said = rows([make(arm, makespan) for arm, makespan in seconds.items()])
    assert said["best fixed cap", "1.10"][:2] == ["1.0998", "**not reached**"]
