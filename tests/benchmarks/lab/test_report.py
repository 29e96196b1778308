"""The report: ratios seed by seed, the best cap as a user would choose it, and no loss hidden."""

from __future__ import annotations

import math

import pytest

from benchmarks.lab import tables
from benchmarks.lab.cells import Record
from benchmarks.lab.report import BOUND, Report


def make(arm: str, makespans: list[float | None], workload: str = "w", engine: str = "e", **more) -> list[Record]:
    """One record a seed; None is a cell that failed."""
    return [
        Record(
            concur="0",
            code="c",
            workload=workload,
            engine=engine,
            arm=arm,
            seed=seed,
            agents=24,
            makespan_s=makespan,
            error="ValueError: no" if makespan is None else None,
            **more,
        )
        for seed, makespan in enumerate(makespans)
    ]


def report(*records: list[Record], ours: str = "budget", **more) -> Report:
    return Report([one for many in records for one in many], ours=ours, **more)


def text(shown: Report, **more) -> str:
    return tables.markdown(tables.sheets(shown, **more))


def test_a_ratio_is_taken_seed_by_seed_and_over_seeds_it_is_the_geometric_mean() -> None:
    (group,) = report(make("budget", [100, 50, 10]), make("concur", [200, 25])).groups
    ratio = group.ratio("budget", "concur")
    assert ratio is not None
    assert (ratio.mean, ratio.low, ratio.high, ratio.loss) == (pytest.approx(1.0), 0.5, 2.0, False)


def test_the_best_cap_is_the_one_with_the_best_mean_not_the_best_of_each_seed() -> None:
    (group,) = report(
        make("budget", [100, 100]),
        make("fixed:4", [100, 300]),
        make("fixed:8", [190, 190]),
        make("fixed:16", [400, 90]),
    ).groups
    assert group.best("fixed") == "fixed:8"
    assert group.best("requests") is None


def test_no_cap_at_all_is_a_cap_too() -> None:
    (group,) = report(make("budget", [100]), make("fixed:4", [200]), make("uncontrolled", [99])).groups
    assert group.best("fixed") == "uncontrolled"


def test_a_cap_that_was_not_run_with_every_seed_is_not_the_best() -> None:
    (group,) = report(make("budget", [100] * 2), make("fixed:4", [100, 100]), make("fixed:8", [50])).groups
    assert group.best("fixed") == "fixed:4"


def test_over_workloads_it_is_the_geometric_mean_and_the_worst_is_named() -> None:
    shown = report(
        make("budget", [100], "a"), make("concur", [400], "a"), make("budget", [100], "b"), make("concur", [50], "b")
    )
    (summary,) = [summary for summary in shown.summaries if summary.name == "concur"]
    assert summary.mean == pytest.approx(math.sqrt(4 * 0.5))
    assert summary.by_engine == {"e": pytest.approx(math.sqrt(2))}
    assert (summary.worst, summary.worst_at, summary.losses, summary.cells) == (0.5, "b on e", 1, 2)


def test_behind_a_reference_is_no_loss() -> None:
    shown = report(make("budget", [100], lower_bound_s=40.0), make("clairvoyant", [90]))
    assert [(one.name, one.mean, one.losses) for one in shown.summaries] == [("clairvoyant", 0.9, 0), (BOUND, 0.4, 0)]
    assert "loss" not in text(shown).partition("Geometric")[0]


def test_where_it_thrashes_uncontrolled_is_compared_apart() -> None:
    calm = {"prompt_tokens": 1000, "recomputed_tokens": 10}
    hot = {"prompt_tokens": 1000, "recomputed_tokens": 600}
    shown = report(
        make("uncontrolled", [100], "calm", **calm),
        make("budget", [100], "calm"),
        make("uncontrolled", [400], "hot", **hot),
        make("budget", [100], "hot"),
    )
    assert [(one.name, one.mean) for one in shown.summaries] == [
        ("uncontrolled", pytest.approx(2)),
        ("uncontrolled, thrashing", pytest.approx(4)),
    ]


def test_every_cell_is_printed_and_losses_are_named() -> None:
    shown = report(
        make("budget", [100, 100]), make("fixed:4", [90, 94]), make("fixed:8", [150, 170]), make("concur", [100, 100])
    )
    lines = text(shown).splitlines()
    assert "| **fixed:4 (best of fixed)** | **92.0 (90.0..94.0)** | **0.920 (0.900..0.940) loss** | **2** |" in lines
    assert "| fixed:8 | 160.0 (150.0..170.0) | 1.60 (1.50..1.70) | 2 |" in lines
    assert "| concur | 100.0 | 1.00 | 2 |" in lines
    assert "| **best fixed cap** | **0.920** | **1 of 1** | **0.920** | **w on e** |" in lines
    assert "fixed:8" not in text(shown, brief=True)


def test_what_is_unknown_is_a_question_mark_and_never_a_zero() -> None:
    known = make("concur", [100], hit_rate=0.25, recomputed_tokens=1234, max_stretch=2.5, lost=1, retractions=0)
    lines = text(report(make("budget", [100]), known)).splitlines()
    assert "| budget | ? | ? | ? | ? | ? | ? |" in lines
    assert "| concur | 25.0% | 1,234 | 2.50 | ? | 0 | 1 |" in lines


def test_cells_that_failed_are_told_and_not_counted() -> None:
    shown = report(make("budget", [100, 100]), make("concur", [None, 120]), make("fixed:8", [None, None]))
    page = text(shown)
    assert "| concur | 120.0 | 1.20 | 1 |" in page
    assert "| fixed:8 | failed |  | 0 |" in page
    assert "3 cells failed, the first (w, e, concur): ValueError: no" in page


def test_cells_of_other_code_are_told() -> None:
    records = [*make("budget", [100]), *make("concur", [100])]
    mixed = Report([records[0], Record(**{**_fields(records[1]), "code": "d"})], ours="budget")
    assert "different code: c, d" in text(mixed)


def test_names_that_are_not_there_are_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="ours must be one of concur, got 'budget'"):
        report(make("concur", [1]))
    with pytest.raises(ValueError, match=r"baseline must be one of best fixed cap, concur, lower bound, got 'turbo'"):
        report(make("budget", [1]), make("concur", [1]), make("fixed:2", [1]), only=["turbo"])


def test_only_the_chosen_baselines_are_summed_up() -> None:
    shown = report(make("budget", [1]), make("concur", [1]), make("fixed:2", [1]), only=["best fixed cap"])
    assert [summary.name for summary in shown.summaries] == ["best fixed cap"]


def _fields(record: Record) -> dict:
    return {name: getattr(record, name) for name in record.__slots__}
