"""The report as tables, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.console import Group as Together
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from benchmarks.lab.cells import Record
from benchmarks.lab.grid import SWEEPS
from benchmarks.lab.report import BOUND, EVEN, REFERENCES, THRASHING, Group, Ratio, Report

__all__ = ["Row", "Sheet", "markdown", "render", "sheets"]

LOSS, OURS, REFERENCE = "red", "bold", "dim"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    cells: tuple[str, ...]
    style: str = ""
    """Of the terminal; what it says is also said in a cell."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table, with what is said under it."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def sheets(report: Report, *, brief: bool = False) -> list[Sheet]:
    """All tables: makespans and ratios of each workload and engine, how their agents fared, the means.

    Args:
        report: the figures.
        brief: whether of a sweep only the best cap is shown.
    """
    return [
        *(_makespans(report, group, brief=brief) for group in report.groups),
        *(_fates(report, group, brief=brief) for group in report.groups),
        _by_engine(report),
        _means(report),
    ]


def markdown(tables: Sequence[Sheet]) -> str:
    """For a page."""
    return "\n".join(line for sheet in tables for line in _markdown(sheet))


def render(tables: Sequence[Sheet]) -> RenderableType:
    """For a terminal."""
    parts: list[RenderableType] = []
    for sheet in tables:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
        table.add_column(sheet.headings[0], overflow="fold")
        for heading in sheet.headings[1:]:
            table.add_column(heading, justify="right", overflow="fold")
        for row in sheet.rows:
            table.add_row(*(Text(cell) for cell in row.cells), style=row.style)
        parts += ["", Text(sheet.title, style="bold underline"), table, *(Text(note, "dim") for note in sheet.notes)]
    return Together(*parts)


def _markdown(sheet: Sheet) -> Iterator[str]:
    yield f"### {sheet.title}"
    yield ""
    yield f"| {' | '.join(sheet.headings)} |"
    yield "|---|" + "---:|" * (len(sheet.headings) - 1)
    for row in sheet.rows:
        cells = [f"**{cell}**" if row.style == LOSS and cell else cell for cell in row.cells]
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""
    for note in sheet.notes:
        yield f"- {note}"
    if sheet.notes:
        yield ""


def _makespans(report: Report, group: Group, *, brief: bool) -> Sheet:
    rows = []
    for arm in [*_shown(group, brief=brief), BOUND]:
        spread = group.makespan(arm)
        if spread is None and arm == BOUND:
            continue
        ratio = None if arm == report.ours else group.ratio(report.ours, arm)
        makespan = "failed" if spread is None else _spread(spread.mean, spread.low, spread.high, ".1f")
        seeds = "" if arm == BOUND else str(len(group.makespans(arm)))
        rows.append(Row((_label(group, arm), makespan, _ratio(ratio), seeds), _style(report, arm, ratio)))
    headings = ("arm", "makespan s: mean (min..max)", f"over {report.ours}'s", "seeds")
    return Sheet(group.title, headings, tuple(rows))


def _fates(report: Report, group: Group, *, brief: bool) -> Sheet:
    rows = []
    for arm in _shown(group, brief=brief):
        records = list(group.arms[arm].values())
        cells = (
            arm,
            _figure(records, lambda record: record.hit_rate, fmean, ".1%"),
            _figure(records, lambda record: record.recomputed_tokens, fmean, ",.0f"),
            _figure(records, lambda record: record.max_stretch, max, ".2f"),
            _figure(records, lambda record: record.mean_stretch, fmean, ".2f"),
            _figure(records, lambda record: record.retractions, fmean, ",.0f"),
            _figure(records, lambda record: record.lost, sum, "d"),
        )
        rows.append(Row(cells, OURS if arm == report.ours else ""))
    headings = ("arm", "hit rate", "recomputed tokens", "stretch: max", "mean", "retractions", "lost")
    return Sheet(f"{group.title}: its agents", headings, tuple(rows))


def _by_engine(report: Report) -> Sheet:
    engines = list(dict.fromkeys(group.engine for group in report.groups))
    rows = [
        Row(
            (
                summary.name,
                *("" if (mean := summary.by_engine[engine]) is None else _times(mean) for engine in engines),
            ),
            REFERENCE if summary.name in REFERENCES else "",
        )
        for summary in report.summaries
    ]
    headings = (f"{report.ours} against", *engines)
    return Sheet("Geometric means over the workloads, by engine", headings, tuple(rows))


def _means(report: Report) -> Sheet:
    rows = []
    for summary in report.summaries:
        reference = summary.name in REFERENCES
        losses = "-" if reference else f"{summary.losses} of {summary.cells}"
        style = REFERENCE if reference else LOSS if summary.mean < 1 - EVEN else ""
        cells = (summary.name, _times(summary.mean), losses, _times(summary.worst), summary.worst_at)
        rows.append(Row(cells, style))
    headings = (f"{report.ours} against", "mean", "losses", "worst", "where")
    title = "Geometric means over the workloads and engines"
    return Sheet(title, headings, tuple(rows), tuple(_notes(report)))


def _notes(report: Report) -> Iterator[str]:
    yield (
        f"Another arm's makespan over that of {report.ours}, seed by seed: above 1 {report.ours} ends sooner. "
        "Geometric mean over seeds (min..max), and over workloads."
    )
    yield (
        "The best cap is chosen for a workload and engine by its mean over the seeds, no cap at all among them: that "
        "is what a user who tries all of them finds."
    )
    if any(summary.name.endswith(", thrashing") for summary in report.summaries):
        yield f"Thrashing: uncontrolled, at least {THRASHING:.0%} of all prompt tokens are computed again."
    if report.summaries and report.summaries[-1].name in REFERENCES:
        yield "References know all that is to come, so below 1 is no loss; the lower bound need not be reachable."
    if len(report.versions) > 1:
        yield f"The cells were run by different code: {', '.join(report.versions)}."
    if failures := report.failures:
        first = failures[0]
        yield f"{len(failures)} cells failed, the first ({first.workload}, {first.engine}, {first.arm}): {first.error}"


def _shown(group: Group, *, brief: bool) -> list[str]:
    best = {group.best(kind) for kind in SWEEPS}
    return [arm for arm in group.arms if not brief or arm.partition(":")[0] not in SWEEPS or arm in best]


def _label(group: Group, arm: str) -> str:
    kinds = [kind for kind in SWEEPS if group.best(kind) == arm]
    return f"{arm} (best of {', '.join(kinds)})" if kinds else arm


def _style(report: Report, arm: str, ratio: Ratio | None) -> str:
    if arm == report.ours:
        return OURS
    if arm in REFERENCES:
        return REFERENCE
    return LOSS if ratio is not None and ratio.loss else ""


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    return _spread(ratio.mean, ratio.low, ratio.high, _form(ratio.mean)) + (" loss" if ratio.loss else "")


def _spread(mean: float, low: float, high: float, form: str) -> str:
    return f"{mean:{form}}" if low == high else f"{mean:{form}} ({low:{form}}..{high:{form}})"


def _times(ratio: float) -> str:
    return f"{ratio:{_form(ratio)}}"


def _form(ratio: float) -> str:
    return ".3f" if 0.9 <= ratio < 1 - EVEN else ".2f"  # 0.998 is a loss, and must not read 1.00


def _figure(
    records: Sequence[Record],
    value: Callable[[Record], float | None],
    over: Callable[[Sequence[float]], float],
    form: str,
) -> str:
    known = [found for record in records if (found := value(record)) is not None]
    return f"{over(known):{form}}" if known else "?"
