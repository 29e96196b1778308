"""Draws the paper's Figures 3, 5 and 6. On a ground of their own, so that they read on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.lab.paper.summary import Summary
from benchmarks.lab.paper.trace import Trace
from benchmarks.lab.paper.values import FIGURES
from benchmarks.lab.paper.workload import workload_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

INK, FAINT, GRID = "#22262b", "#6b7280", "#e5e7eb"
NONE, LAW, USAGE, PAPER = "#b4552d", "#2f6db5", "#7c8aa0", "#2a8c6a"
PARTS = ("#b4552d", "#e8b999", "#7ea6d8", "#e5e7eb")
STYLE: dict[str, Any] = {
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "figure.facecolor": "white",  # never see-through: the ink would vanish on a dark page
    "savefig.facecolor": "white",
}


def draw(summary: Summary, folder: Path) -> list[Path]:
    """Draw what there are figures for.

    Args:
        summary: the figures.
        folder: where the PNG files go.

    Returns:
        The files written.
    """
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    first, none, law = (summary.store.traces.get(cell.key) for cell in summary.scale.traces())
    written = []
    style: Any = STYLE  # its type is a literal of all of matplotlib's names
    with mpl.rc_context(style):
        if first is not None:
            figure = _empty(3.4)
            _figure_3(figure, first)
            written.append(_save(figure, folder / "figure-3.png"))
        if none is not None and law is not None:
            figure = _empty(4.6)
            _figure_5(figure, none, law)
            written.append(_save(figure, folder / "figure-5.png"))
        figure = _empty(3.4)
        _figure_6(figure, summary)
        written.append(_save(figure, folder / "figure-6.png"))
    return written


def _empty(height: float) -> Figure:
    # Figure without pyplot: no global state, no backend to choose, nothing to close.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=120, metadata={"Software": ""})
    return path


def _figure_3(figure: Figure, trace: Trace) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    times = _times(trace)
    left.plot(times, _gaps(trace.hit_rate), color=NONE, linewidth=1.4, label="hit rate")
    left.plot(times, _gaps(trace.pinned), color=USAGE, linewidth=0.9, label="pinned usage")
    _phases(left, trace)
    _shares(left, trace.makespan_s)
    left.set_title(f"DeepSeek-V3, TP 16, {trace.agents} agents, SGLang", loc="left", fontsize=10)
    left.legend(loc="upper right", bbox_to_anchor=(0.95, 0.88), framealpha=0.9, edgecolor="none", fontsize=8)
    parts = (
        ("recomputing", trace.recomputing_s),
        ("other prefill", trace.prefill_s),
        ("decode", trace.decode_s),
        ("idle", trace.idle_s),
    )
    bottom = 0.0
    for (name, seconds), colour in zip(parts, PARTS, strict=True):
        part = seconds / trace.makespan_s
        right.bar(["here"], [part], bottom=bottom, color=colour, width=0.8, label=name)
        if part > 0.04:
            right.text(
                0,
                bottom + part / 2,
                f"{name}{chr(10) if part > 0.1 else chr(32)}{part:.1%}",
                ha="center",
                va="center",
                fontsize=8,
            )
        bottom += part
    right.bar(["paper"], [FIGURES.recomputing], color=PARTS[0], width=0.8)
    right.bar(["paper"], [1 - FIGURES.recomputing], bottom=FIGURES.recomputing, color=GRID, width=0.8)
    right.text(1, FIGURES.recomputing / 2, f"{FIGURES.recomputing:.1%}", ha="center", va="center", fontsize=8)
    right.set_title("of the latency", loc="left", fontsize=10)
    _percents(right)


def _phases(axes: Axes, trace: Trace) -> None:
    middle, bins = trace.middle(), len(trace.hit_rate)
    if middle is None:
        return
    width = trace.makespan_s / bins
    for name, first, last in (("warm-up", 0, middle[0]), ("middle phase", *middle), ("cool-down", middle[1], bins)):
        if first:
            axes.axvline(first * width, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
        rate = trace.hit_rate_in(first, last)
        axes.text(
            (first + last) / 2 * width,
            0.3,
            name if rate is None else f"{name}: {rate:.0%} hit",
            ha="center",
            va="center",
            fontsize=8,
            color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
            rotation=90 if last - first < bins / 4 else 0,
        )


def _figure_5(figure: Figure, none: Trace, law: Trace) -> None:
    upper, lower = figure.subplots(2, 1, sharex=True)
    for trace, name, colour in ((none, "SGLang", NONE), (law, "Concur", LAW)):
        times = _times(trace)
        upper.plot(times, _gaps(trace.hit_rate), color=colour, linewidth=1.2, label=name)
        lower.plot(times, _gaps(trace.pinned), color=colour, linewidth=1.2, label=f"{name}, pinned")
        lower.plot(times, _gaps(trace.occupied), color=colour, linewidth=0.8, linestyle=":", label=f"{name}, occupied")
    for (low, high), colour, name in (
        (FIGURES.none_hit, NONE, "paper, SGLang"),
        (FIGURES.concur_hit, LAW, "paper, Concur"),
    ):
        upper.axhspan(low, high, color=colour, alpha=0.1, linewidth=0, label=name)
    lower.axhline(FIGURES.concur_usage, color=LAW, linewidth=0.8, linestyle="--", label="paper, Concur: about")
    upper.set_title(f"Qwen3-32B, TP 2, {none.agents} agents", loc="left", fontsize=10)
    for axes, label in ((upper, "hit rate"), (lower, "KV usage")):
        _shares(axes, max(none.makespan_s, law.makespan_s))
        axes.set_ylabel(label)
        axes.legend(loc="center right", framealpha=0.9, edgecolor="none", fontsize=8)
    upper.set_xlabel("")


def _figure_6(figure: Figure, summary: Summary) -> None:
    row, scale = summary.scale.rows[2], summary.scale
    panels = figure.subplots(1, 2)
    for axes, steps in zip(panels, (scale.steps, scale.lengths[0]), strict=True):
        arms = [*(f"fixed:{window}" for window in scale.fixed), "concur"]
        values = [summary.makespan(row, arm, workload_name(steps)) or 0.0 for arm in arms]
        names = [*(str(window) for window in scale.fixed), "Concur"]
        bars = axes.bar(names, values, color=[*([USAGE] * len(scale.fixed)), LAW], width=0.85)
        axes.bar_label(bars, [f"{value:.0f}" for value in values], fontsize=8, color=INK)
        axes.set_title(f"{steps} steps", loc="left", fontsize=10)
        axes.set_xlabel("fixed window, in agents")
        axes.grid(visible=False, axis="x")
    panels[0].set_ylabel("seconds")
    figure.suptitle(
        f"Qwen3-32B, TP 2, {row.agents} agents. In the paper: fixed {FIGURES.best_fixed} is the best, "
        f"about {FIGURES.best_fixed_s:.0f} s; Concur {FIGURES.concur_s:.0f} s",
        fontsize=9,
        color=PAPER,
        x=0.01,
        ha="left",
    )


def _shares(axes: Axes, end: float) -> None:
    axes.set_xlim(0, end)
    axes.set_xlabel("seconds")
    _percents(axes)


def _percents(axes: Axes) -> None:
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _times(trace: Trace) -> list[float]:
    """The middle of each bin."""
    width = trace.makespan_s / len(trace.hit_rate)
    return [(index + 0.5) * width for index in range(len(trace.hit_rate))]


def _gaps(values: Sequence[float | None]) -> list[float]:
    """What is unknown is a gap."""
    return [float("nan") if value is None else value for value in values]
