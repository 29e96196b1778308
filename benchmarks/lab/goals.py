"""What the default law was to reach in the lab, and what it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.lab.report import Report

__all__ = ["GOALS", "Goal", "markdown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One aim: another arm's makespan over ours."""

    against: str
    """As the report calls it."""
    least: float
    worst: bool = False
    """Of the workload with the least, not of the geometric mean over all."""


GOALS = (
    Goal(against="uncontrolled, thrashing", least=3.0),
    Goal(against="uncontrolled", least=0.98, worst=True),
    Goal(against="best fixed cap", least=1.1),
    Goal(against="best fixed cap", least=0.97, worst=True),
    Goal(against="concur", least=1.3),
    Goal(against="thunder", least=1.15),
    Goal(against="prime-rl", least=1.15),
    Goal(against="clairvoyant", least=1 / 1.10),
)
"""Chosen before the law was. The clairvoyant scheduler, which knows every length, may be 1.10x ahead."""


def markdown(report: Report) -> str:
    """A row a goal."""
    return "\n".join(_rows(report)) + "\n"


def _rows(report: Report) -> Iterator[str]:
    yield f"| makespan over that of {report.ours} | of | aimed at | is | |"
    yield "|---|---|---:|---:|---|"
    found = {summary.name: summary for summary in report.summaries}
    for goal in GOALS:
        summary = found.get(goal.against)
        if summary is None:
            continue
        value = summary.worst if goal.worst else summary.mean
        of = summary.worst_at if goal.worst else "the geometric mean"
        reached = "reached" if value >= goal.least else "**not reached**"
        yield f"| {goal.against} | {of} | {_form(goal.least)} | {_form(value)} | {reached} |"


def _form(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 1 else f"{ratio:.3f}"
