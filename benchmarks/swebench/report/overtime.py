"""Usage, hit rate and agents over time, an arm a column: the paper's Figure 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import RunFolder, TimelinePoint
from benchmarks.swebench.report.theme import Theme, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_over_time", "in_bands", "rolling_hit_rate"]

COLUMNS = 3
"""Arms beside each other: of more, nobody can read the numbers on a page."""

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


def in_bands(folder: RunFolder, summary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The arms that have a sample, as many at a time as :func:`draw_over_time` shows."""
    known = [name for name in summary["arms"] if folder.arm(name, 1).timeline()]
    return [tuple(known[first : first + COLUMNS]) for first in range(0, len(known), COLUMNS)]


def draw_over_time(folder: RunFolder, summary: Mapping[str, Any], names: Sequence[str], theme: Theme) -> Figure:
    """Some arms' first repeats, on the scales of all.

    Args:
        folder: the run.
        summary: its figures.
        names: of one of :func:`in_bands`.
        theme: colours.
    """
    config = RunConfig.from_json(folder.about()["config"])
    every = {name: points for name in summary["arms"] if (points := folder.arm(name, 1).timeline())}
    end = max(points[-1].at_s for points in every.values()) or 1.0  # one sample alone spans no time
    arms = [(name, every[name]) for name in names]
    columns = min(COLUMNS, len(every))
    figure = new_figure(1.0 + 3.9 * columns, 6.4)
    places = figure.subplots(3, columns, sharex=True, sharey="row", squeeze=False)
    for axes in places[:, len(arms) :].flat:  # in the last picture: as wide as in the others
        axes.set_visible(False)
    grid = places[:, : len(arms)]
    for column, (name, points) in enumerate(arms):
        usage, hits, agents = grid[:, column]
        _usage(usage, points, theme)
        _hit_rate(hits, points, theme, span_s=HIT_SPAN_SHARE * end)
        _agents(agents, points, theme, config.agents)
        _title(usage, name, summary["arms"][name], theme)
        for axes in (usage, hits, agents):
            axes.axvline(points[-1].at_s, color=theme.faint, linewidth=0.8, linestyle=(0, (2, 2)))
        agents.set_xlabel("wall seconds")
    _scale(grid, end, config.agents)
    emptiest = min(range(len(arms)), key=lambda column: arms[column][1][-1].at_s)
    for row in grid:  # one legend a row, where it hides least
        legend = row[emptiest].legend(loc="upper right", framealpha=0.9, fontsize=8)
        legend.set_zorder(10)
    return figure


def _scale(grid: Any, end: float, agents: int) -> None:
    usage, hits, population = grid[:, 0]
    for axes, label in ((usage, "KV pool"), (hits, "cache hit rate")):
        axes.set_ylim(0, 1.02)
        axes.set_ylabel(label)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    population.set_ylim(0, agents * 1.06)
    population.set_ylabel("agents")
    population.set_xlim(0, end * 1.02)


def _title(axes: Axes, name: str, arm: Mapping[str, Any], theme: Theme) -> None:
    axes.set_title(name, loc="left", fontweight="bold", fontsize=11)
    first, speedup = arm["repeats"][0], arm["speedup"]
    if not first["complete"]:
        ending = "interrupted"
    elif speedup is None or name == "uncontrolled":
        ending = f"{first['makespan_s']:.1f} s"
    else:
        ending = f"{first['makespan_s']:.1f} s, {speedup['median']:.2f}x"
    axes.set_title(ending, loc="right", color=theme.faint, fontsize=9)


def _series(points: Sequence[TimelinePoint], field: str) -> tuple[list[float], list[float]]:
    """Times and values of ``field``; what is unknown is a gap."""
    values = [getattr(point, field) for point in points]
    return [point.at_s for point in points], [float("nan") if value is None else value for value in values]


def _usage(axes: Axes, points: Sequence[TimelinePoint], theme: Theme) -> None:
    times, occupied = _series(points, "occupied_usage")
    axes.fill_between(times, occupied, step="post", color=theme.occupied, linewidth=0, label="occupied (with cache)")
    pinned = _series(points, "pinned_usage")
    axes.step(*pinned, where="post", color=theme.pinned, linewidth=1.0, label="pinned (running)")


def _hit_rate(axes: Axes, points: Sequence[TimelinePoint], theme: Theme, *, span_s: float) -> None:
    rates = rolling_hit_rate(points, span_s)
    axes.plot([at for at, _ in rates], [rate for _, rate in rates], color=theme.hit, linewidth=1.4, label="hit rate")


def _agents(axes: Axes, points: Sequence[TimelinePoint], theme: Theme, agents: int) -> None:
    times, seated = _series(points, "seated")
    axes.fill_between(times, seated, step="post", color=theme.seated, linewidth=0, label="active (seated)")
    generating = _series(points, "generating")[1]
    axes.step(times, generating, where="post", color=theme.generating, linewidth=0.8, label="generating")
    # An unlimited window lies above every batch: drawn along the top of the batch, it stays in the picture.
    window = [agents if point.window is None else min(point.window, agents) for point in points]
    axes.step(times, window, where="post", color=theme.window, linewidth=1.4, label="window")
