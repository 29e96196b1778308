"""The picture: arms below each other on one time axis, tokens to the left and agents to the right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.lab.picture.watch import Moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Story", "draw"]

INK, FAINT, GRID, PAPER = "#22262b", "#6b7280", "#e5e7eb", "#ffffff"
RUNNING, HELD, BUDGET = "#c7d9ee", "#2f6db5", "#b4552d"
SEATED, PARKED, NEW = "#2a8c6a", "#e0a37c", "#e5e7eb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One arm's run."""

    title: str
    moments: Sequence[Moment]


def draw(stories: Sequence[Story], capacity: int, heading: str, path: Path) -> None:
    """Draw to ``path`` (PNG or SVG, by its ending). On white paper: readable on light and dark pages alike.

    Args:
        stories: from top to bottom.
        capacity: tokens of the pool.
        heading: one line over all.
        path: a file whose folder exists.
    """
    import matplotlib as mpl

    style: Any = {
        "font.size": 9.0,
        "text.color": INK,
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.facecolor": PAPER,
        "xtick.color": FAINT,
        "ytick.color": FAINT,
        "svg.hashsalt": "concur",
    }
    with mpl.rc_context(style):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.0, 1.0 + 2.0 * len(stories)), layout="constrained")
        grid: Any = figure.subplots(len(stories), 2, sharex=True, squeeze=False)
        end = max(story.moments[-1].at_s for story in stories)
        for row, story in zip(grid, stories, strict=True):
            _tokens(row[0], story, capacity)
            _agents(row[1], story)
            for axes in row:
                axes.set_xlim(0, end)
                axes.axvline(story.moments[-1].at_s, color=FAINT, linewidth=0.8, linestyle=":")
            row[0].set_title(story.title, loc="left", fontsize=9.5, fontweight="bold")
        for column in (0, 1):
            grid[-1][column].set_xlabel("seconds")
            grid[0][column].legend(loc="upper right", fontsize=7.5, ncols=3, framealpha=0.85, edgecolor=GRID)
        figure.suptitle(heading, x=0.01, ha="left", fontsize=10)
        figure.savefig(path, dpi=110)


def _tokens(axes: Axes, story: Story, capacity: int) -> None:
    times = [moment.at_s for moment in story.moments]
    pool = capacity / 1000
    axes.fill_between(times, [moment.pinned * pool for moment in story.moments], color=RUNNING, lw=0, label="running")
    axes.plot(times, [moment.held / 1000 for moment in story.moments], color=HELD, lw=1.1, label="held by the seated")
    if any(math.isfinite(moment.budget) for moment in story.moments):
        budget = [moment.budget / 1000 if math.isfinite(moment.budget) else math.nan for moment in story.moments]
        axes.plot(times, budget, color=BUDGET, lw=1.0, ls="--", label="budget")
    axes.axhline(pool, color=INK, lw=0.8)
    axes.set_ylim(0, 2 * pool)
    axes.set_ylabel("1,000 tokens")


def _agents(axes: Axes, story: Story) -> None:
    moments = story.moments
    axes.stackplot(
        [moment.at_s for moment in moments],
        [moment.seated for moment in moments],
        [moment.parked for moment in moments],
        [moment.new for moment in moments],
        colors=[SEATED, PARKED, NEW],
        labels=["seated", "parked", "new"],
        lw=0,
    )
    axes.set_ylabel("agents")
