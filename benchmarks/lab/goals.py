"""What the default law was to reach in the lab, what it does, and whether any scheduler could."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import geometric_mean

from benchmarks.lab.report import BOUND, CLAIRVOYANT, Report

__all__ = ["GOALS", "Goal", "markdown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One aim: another arm's makespan over ours."""

    against: str
    """As the report calls it."""
    least: float
    thrashing: bool = False
    """Only of the workloads that thrash without control."""
    worst: bool = False
    """Of the workload with the least, not of the geometric mean over all."""

    @property
    def name(self) -> str:
        """What the report calls the summary that says whether it is reached."""
        return f"{self.against}, thrashing" if self.thrashing else self.against


GOALS = (
    Goal(against="uncontrolled", least=3.0, thrashing=True),
    Goal(against="uncontrolled", least=0.98, worst=True),
    Goal(against="best fixed cap", least=1.1),
    Goal(against="best fixed cap", least=0.97, worst=True),
    Goal(against="concur", least=1.3),
    Goal(against="thunder", least=1.15),
    Goal(against="prime-rl", least=1.15),
    Goal(against=CLAIRVOYANT, least=1 / 1.10),
)
"""Chosen before the law was. The clairvoyant scheduler, which knows every length, may be 1.10x ahead."""


def markdown(report: Report) -> str:
    """A row a goal, and what that says."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    known = report.cells_with(CLAIRVOYANT)
    yield (
        f"| makespan over that of {report.ours} | of | aimed at | is | | nobody passes | with foresight "
        f"| {report.ours} there | so the goal is |"
    )
    yield "|---|---|---:|---:|---|---:|---:|---:|---|"
    found = {summary.name: summary for summary in report.summaries}
    for goal in GOALS:
        summary = found.get(goal.name)
        if summary is None:
            continue
        value = summary.worst if goal.worst else summary.mean
        of = summary.worst_at if goal.worst else "the geometric mean"
        reached = "reached" if value >= goal.least else "**not reached**"
        cells = [goal.name, of, _form(goal.least), _near(value, goal.least), reached]
        most = _mean(report, goal, summary.worst_at, BOUND)
        best = _mean(known, goal, summary.worst_at, CLAIRVOYANT)
        ours = _mean(known, goal, summary.worst_at, report.ours)
        cells += ["" if ratio is None else _form(ratio) for ratio in (most, best, ours)]
        yield f"| {' | '.join([*cells, _so(goal.least, best, most)])} |"
    yield ""
    yield from (f"- {note}" for note in _notes(report, known))


def _so(aim: float, best: float | None, most: float | None) -> str:
    if most is not None and most < aim:
        return "**out of reach**: proved"
    if best is None:
        return ""
    return "reachable with foresight" if best >= aim else "not reached with foresight either"


def _mean(report: Report | None, goal: Goal, worst_at: str, scheduler: str) -> float | None:
    """A scheduler's ratio, as the goal's own; None where nothing is known, or it would be of references only."""
    if report is None or goal.against == CLAIRVOYANT:
        return None
    ratios = [
        ratio.mean
        for group in report.groups
        if (group.thrashes or not goal.thrashing) and (group.place == worst_at or not goal.worst)
        if (ratio := group.ratio(scheduler, goal.against))
    ]
    return geometric_mean(ratios) if ratios else None


def _notes(report: Report, known: Report | None) -> Iterator[str]:
    if any(group.makespans(BOUND) for group in report.groups):
        yield "Nobody passes: what a scheduler would reach that met the [lower bound](lower-bound.md) in every cell."
    if known is None:
        return
    cells = sum(len(group.makespans(CLAIRVOYANT)) for group in known.groups)
    yield (
        f"With foresight: the clairvoyant scheduler, which knows every length and every tool, in the {cells} cells "
        f"(workload and seed) that it ran; beside it {known.ours} in the same cells. It is the best of several "
        "schedules, not of all there are."
    )
    tight = {group.place: ratio.mean for group in known.groups if (ratio := group.ratio(CLAIRVOYANT, BOUND))}
    if tight:
        loosest = min(tight, key=lambda place: tight[place])
        yield (
            f"There the lower bound is {geometric_mean(tight.values()):.0%} of its makespan (at least "
            f"{tight[loosest]:.0%}, {loosest}): the best that can be is between the two."
        )


def _form(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 1 else f"{ratio:.3f}"


def _near(ratio: float, aim: float) -> str:
    """With as many digits as it takes to be seen on the right side of the aim."""
    digits = next(many for many in range(2, 17) if (round(ratio, many) >= aim) == (ratio >= aim))
    return max(_form(ratio), f"{ratio:.{digits}f}", key=len)
