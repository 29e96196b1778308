"""What the figures show, in numbers; and what the paper leaves open: caps, start, link and length."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.lab.paper.plan import DEEPSEEK
from benchmarks.lab.paper.summary import Summary
from benchmarks.lab.paper.text import PAPER, percent, row_name, seconds, share, span, times
from benchmarks.lab.paper.values import FIGURES, TABLE_1
from benchmarks.lab.paper.workload import workload_name
from benchmarks.lab.tables import Row as Line
from benchmarks.lab.tables import Sheet

__all__ = ["details"]


def details(summary: Summary) -> list[Sheet]:
    """The tables after the paper's three."""
    return [
        *_figure_3(summary),
        *_figure_5(summary),
        _figure_6(summary),
        _caps(summary),
        _starts(summary),
        _links(summary),
        _lengths(summary),
        *_shared(summary),
    ]


def _figure_3(summary: Summary) -> Iterator[Sheet]:
    trace = summary.store.traces.get(summary.scale.traces()[0].key)
    if trace is None:
        return
    bins = len(trace.hit_rate)
    middle = trace.middle()
    first, last = middle or (bins, bins)
    lines = (
        Line(("hit rate in warm-up", share(trace.hit_rate_in(0, first)), f"about {share(FIGURES.warm_hit)}")),
        Line(("in the middle phase", share(trace.hit_rate_in(first, last)), f"about {share(FIGURES.middle_hit)}")),
        Line(("in cool-down", share(trace.hit_rate_in(last, bins)), "recovers")),
        Line(("middle phase, of the run", share((last - first) / bins), f"over {share(FIGURES.middle_share)}")),
        Line(("pinned usage in it (10% to 90%)", span(trace.span(trace.pinned, first, last)), "80% to 100%")),
        Line(("recomputing, of the latency", percent(trace.recomputing_share), percent(FIGURES.recomputing))),
        Line(("other prefill", percent(trace.prefill_s / trace.makespan_s), "")),
        Line(("decode", percent(trace.decode_s / trace.makespan_s), "")),
        Line(("engine idle", percent(trace.idle_s / trace.makespan_s), "")),
    )
    note = (
        "Warm-up ends with the first, cool-down begins behind the last of "
        f"{bins} equal bins that finds less than half of what it looks up while the pool is full. Recomputing is what "
        "prefill passes would have been shorter by, had each agent's earlier context been found."
    )
    title = f"Figure 3: DeepSeek-V3, {trace.agents} agents, nothing controlled"
    yield Sheet(title, ("", "here", PAPER), lines, (note,))


def _figure_5(summary: Summary) -> Iterator[Sheet]:
    _, none, law = (summary.store.traces.get(cell.key) for cell in summary.scale.traces())
    if none is None or law is None:
        return
    bins = len(none.hit_rate)
    lines = [
        Line((what, *(span(trace.span(getattr(trace, field), 0, bins)) for trace in (none, law)), *paper))
        for what, field, paper in (
            ("hit rate", "hit_rate", (span(FIGURES.none_hit), span(FIGURES.concur_hit))),
            ("pinned usage", "pinned", ("at capacity", f"about {share(FIGURES.concur_usage)}")),
            ("occupied usage", "occupied", ("", "")),
        )
    ]
    title = f"Figure 5: Qwen3-32B, {none.agents} agents, TP 2, over time"
    note = f"10% to 90% of {bins} equal bins; each bin is a mean, so a sawtooth within one does not show."
    yield Sheet(title, ("", "SGLang", "Concur", f"{PAPER}: SGLang", f"{PAPER}: Concur"), tuple(lines), (note,))


def _figure_6(summary: Summary) -> Sheet:
    row, lengths = summary.scale.rows[2], (summary.scale.steps, summary.scale.lengths[0])
    works = [workload_name(steps) for steps in lengths]
    lines = []
    for window in summary.scale.fixed:
        ours = (
            f"{seconds(summary.makespan(row, f'fixed:{window}', work))} "
            f"({times(summary.speedup(row, 'concur', work, over=f'fixed:{window}'))})"
            for work in works
        )
        paper = f"about {seconds(FIGURES.best_fixed_s)} (1.5x or 1.9x)" if window == FIGURES.best_fixed else ""
        if window in FIGURES.fixed and not paper:
            paper = "slower"
        lines.append(Line((f"fixed {window}", *ours, paper)))
    ours = (f"{seconds(summary.makespan(row, 'concur', work))}" for work in works)
    lines.append(Line(("Concur", *ours, seconds(FIGURES.concur_s))))
    headings = ("seconds (times Concur's)", *(f"{steps} steps" for steps in lengths), PAPER)
    title = f"Figure 6: fixed windows, Qwen3-32B, {row.agents} agents, TP 2"
    return Sheet(title, headings, tuple(lines))


def _caps(summary: Summary) -> Sheet:
    lines = []
    for row in summary.scale.rows:
        arms = summary.scale.request_arms(row)
        best = summary.best(row, arms)
        swept = (f"{arm.partition(':')[2]}: {times(summary.speedup(row, arm))}" for arm in arms)
        rule = summary.scale.request_cap(row)
        label = row_name(row)
        lines.append(Line((label, str(rule), "?" if best is None else best.partition(":")[2], ", ".join(swept))))
    headings = ("request control", "cap by rule", "best of these", "times as fast as SGLang")
    return Sheet("Request caps", headings, tuple(lines))


def _starts(summary: Summary) -> Sheet:
    arms = (*summary.scale.start_arms(), "concur")
    lines = [Line((row_name(row), *(times(summary.speedup(row, arm)) for arm in arms))) for row in summary.scale.rows]
    names = (f"start {start}" for start in summary.scale.starts)
    return Sheet("Concur's first window", ("times as fast as SGLang", *names, "no limit"), tuple(lines))


def _links(summary: Summary) -> Sheet:
    links = summary.scale.links
    lines = [
        Line(
            (
                row_name(row),
                times(summary.speedup(row, "hicache")),
                *(times(summary.speedup(row, f"link:{link}")) for link in links),
                times(_hicache_speedup(row.published)),
            )
        )
        for row in summary.scale.rows
        if row.engine == DEEPSEEK
    ]
    headings = ("times as fast as SGLang", "45 GB/s", *(f"{link} GB/s" for link in links), PAPER)
    return Sheet("HiCache over a slower link to host memory", headings, tuple(lines))


def _hicache_speedup(agents: int) -> float:
    row = TABLE_1[DEEPSEEK, agents]
    return row.sglang / row.hicache


def _lengths(summary: Summary) -> Sheet:
    lengths = sorted((*summary.scale.lengths, summary.scale.steps))
    lines = []
    for row in summary.scale.rows:
        cells = []
        for steps in lengths:
            other = workload_name(steps)
            cells.append(
                f"{seconds(summary.makespan(row, 'uncontrolled', other))}, "
                f"{times(summary.speedup(row, 'concur', other))} "
                f"({share(summary.hit_rate(row, 'uncontrolled', other))}, {summary.overcommit(row, other):.1f})"
            )
        lines.append(Line((row_name(row), *cells)))
    headings = ("SGLang's s, Concur times as fast", *(f"{steps} steps" for steps in lengths))
    note = "In brackets: hit rate without control; tokens of all final contexts, over the pool."
    return Sheet("Other lengths of session", headings, tuple(lines), (note,))


def _shared(summary: Summary) -> Iterator[Sheet]:
    prefixes = summary.scale.shared
    works = ["", *(summary.scale.sharing(shared) for shared in prefixes)]
    lines = []
    for row in summary.scale.rows:
        cells = (
            " / ".join(
                (
                    times(summary.speedup(row, arm, work)) + f" {share(summary.hit_rate(row, arm, work))}"
                    if arm != "uncontrolled"
                    else share(summary.hit_rate(row, arm, work))
                )
                for arm in ("uncontrolled", "concur", "budget")
            )
            for work in works
        )
        lines.append(Line((row_name(row), *cells)))
    headings = ("SGLang / Concur / budget", "600 tokens", *(f"{shared:,} tokens" for shared in prefixes))
    note = "Hit rate without control; then, of each law, times as fast as that, and its hit rate."
    yield Sheet("Longer shared prefixes", headings, tuple(lines), (note,))
