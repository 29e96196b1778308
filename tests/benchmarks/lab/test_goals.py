"""What was aimed at stands beside what is."""

from benchmarks.lab.cells import Record
from benchmarks.lab.goals import markdown
from benchmarks.lab.report import Report


def make(arm: str, seconds: float) -> Record:
    return Record(
        concur="0",
        code="c",
        workload="w",
        engine="e",
        arm=arm,
        seed=0,
        agents=24,
        makespan_s=seconds,
        prompt_tokens=100,
        recomputed_tokens=90,
    )


def test_each_goal_is_reached_or_not() -> None:
    seconds = {"budget": 100.0, "uncontrolled": 310.0, "concur": 120.0, "fixed:8": 115.0, "clairvoyant": 95.0}
    records = [make(arm, makespan) for arm, makespan in seconds.items()]
    rows = markdown(Report(records, ours="budget")).splitlines()[2:]
    said = {(row.split(" | ")[0].strip("| "), row.split(" | ")[2]): row for row in rows}
    assert "reached" in said["uncontrolled, thrashing", "3.00"]
    assert "| 1.30 | 1.20 | **not reached** |" in said["concur", "1.30"]
    assert "| 1.10 | 1.15 | reached |" in said["best fixed cap", "1.10"]
    assert "| 0.909 | 0.950 | reached |" in said["clairvoyant", "0.909"]
    assert not any("thunder" in row for row in rows)  # nobody ran it
