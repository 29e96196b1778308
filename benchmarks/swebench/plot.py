"""The picture of a run: per arm, KV usage, hit rate and active agents over time, all on the same axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import RunFolder, TimelinePoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "rolling_hit_rate"]

INK, FAINT, GRID = "#22262b", "#6b7280", "#e5e7eb"
OCCUPIED, PINNED, HIT, WINDOW, SEATED, GENERATING = "#c7d9ee", "#2f6db5", "#2a8c6a", "#b4552d", "#f3d9c7", "#e0a37c"
HIT_SPAN_SHARE = 0.04
"""A prefill batch hits all or nothing; averaged over this share of the picture's width the trend shows."""


def rolling_hit_rate(points: Sequence[TimelinePoint], span_s: float) -> list[tuple[float, float]]:
    """Hit rate over the last ``span_s`` seconds at each point that has one, from the engine's counters."""
    rates = []
    first = 0
    known = [point for point in points if point.hit_tokens is not None and point.query_tokens is not None]
    for last, point in enumerate(known):
        while first < last and point.at_s - known[first + 1].at_s >= span_s:
            first += 1
        queries = (point.query_tokens or 0) - (known[first].query_tokens or 0)
        hits = (point.hit_tokens or 0) - (known[first].hit_tokens or 0)
        if queries > 0 and hits >= 0:
            rates.append((point.at_s, min(1.0, hits / queries)))
    return rates


def draw(folder: RunFolder, summary: Mapping[str, Any], path: Path) -> Path | None:
    """Draw each arm's first repeat to ``path``; None when no arm has any sample yet.

    Args:
        folder: the run.
        summary: its figures, for the titles.
        path: a PNG file.
    """
    import matplotlib as mpl

    config = RunConfig.from_json(folder.about()["config"])
    arms = [(name, points) for name in config.arms if (points := folder.arm(name, 1).timeline())]
    if not arms:
        return None
    end = max(points[-1].at_s for _, points in arms) or 1.0  # one sample alone spans no time
    style: Any = {
        "font.size": 9.0,
        "text.color": INK,
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "xtick.color": FAINT,
        "ytick.color": FAINT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
    }
    with mpl.rc_context(style):
        # Figure without pyplot: no global state, no backend to choose, nothing to close.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(1.0 + 3.9 * len(arms), 6.4), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(3, len(arms), sharex=True, sharey="row", squeeze=False)
        for column, (name, points) in enumerate(arms):
            usage, hits, agents = grid[:, column]
            _usage(usage, points)
            _hit_rate(hits, points, span_s=HIT_SPAN_SHARE * end)
            _agents(agents, points, config.agents)
            _title(usage, name, summary["arms"][name])
            for axes in (usage, hits, agents):
                axes.axvline(points[-1].at_s, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
            agents.set_xlabel("wall seconds")
        _scale(grid, end, config.agents)
        emptiest = min(range(len(arms)), key=lambda column: arms[column][1][-1].at_s)
        for row in grid:  # one legend a row, where it hides least
            legend = row[emptiest].legend(loc="upper right", framealpha=0.9, edgecolor="none", fontsize=8)
            legend.set_zorder(10)
        figure.savefig(path, dpi=150)
    return path


def _scale(grid: Any, end: float, agents: int) -> None:
    usage, hits, population = grid[:, 0]
    for axes, label in ((usage, "KV pool"), (hits, "cache hit rate")):
        axes.set_ylim(0, 1.02)
        axes.set_ylabel(label)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    population.set_ylim(0, agents * 1.06)
    population.set_ylabel("agents")
    population.set_xlim(0, end * 1.02)


def _title(axes: Axes, name: str, arm: Mapping[str, Any]) -> None:
    axes.set_title(name, loc="left", fontweight="bold", fontsize=11)
    first, speedup = arm["repeats"][0], arm["speedup"]
    if not first["complete"]:
        ending = "interrupted"
    elif speedup is None or name == "uncontrolled":
        ending = f"{first['makespan_s']:.1f} s"
    else:
        ending = f"{first['makespan_s']:.1f} s, {speedup['median']:.2f}x"
    axes.set_title(ending, loc="right", color=FAINT, fontsize=9)


def _series(points: Sequence[TimelinePoint], field: str) -> tuple[list[float], list[float]]:
    """Times and values of ``field``; what is unknown is a gap."""
    values = [getattr(point, field) for point in points]
    return [point.at_s for point in points], [float("nan") if value is None else value for value in values]


def _usage(axes: Axes, points: Sequence[TimelinePoint]) -> None:
    times, occupied = _series(points, "occupied_usage")
    axes.fill_between(times, occupied, step="post", color=OCCUPIED, linewidth=0, label="occupied (with cache)")
    axes.step(*_series(points, "pinned_usage"), where="post", color=PINNED, linewidth=1.0, label="pinned (running)")


def _hit_rate(axes: Axes, points: Sequence[TimelinePoint], *, span_s: float) -> None:
    rates = rolling_hit_rate(points, span_s)
    axes.plot([at for at, _ in rates], [rate for _, rate in rates], color=HIT, linewidth=1.4, label="hit rate")


def _agents(axes: Axes, points: Sequence[TimelinePoint], agents: int) -> None:
    times, seated = _series(points, "seated")
    axes.fill_between(times, seated, step="post", color=SEATED, linewidth=0, label="active (seated)")
    generating = _series(points, "generating")[1]
    axes.step(times, generating, where="post", color=GENERATING, linewidth=0.8, label="generating")
    # An unlimited window lies above every batch: drawn along the top of the batch, it stays in the picture.
    window = [agents if point.window is None else min(point.window, agents) for point in points]
    axes.step(times, window, where="post", color=WINDOW, linewidth=1.4, label="window")
