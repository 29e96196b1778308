"""Telling the user how the run goes: a live line on a terminal, one plain line an arm elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks.swebench.records import TimelinePoint
from benchmarks.swebench.summary import ArmFigures

__all__ = ["LineProgress", "LiveProgress", "open_progress"]


def _result(arm: str, repeat: int, figures: ArmFigures) -> str:
    makespan = "?" if figures.makespan_s is None else f"{figures.makespan_s:.1f} s"
    hit_rate = "?" if figures.hit_rate is None else f"{figures.hit_rate:.1%}"
    again = f" (repeat {repeat})" if repeat > 1 else ""
    return f"{arm}{again}: {makespan}, hit rate {hit_rate}, {figures.resolved} of {figures.agents} resolved"


class LineProgress:
    """For logs and pipes: a line when an arm is over."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def preparing(self, arm: str, repeat: int) -> None:
        """Nothing to say yet."""

    def sampled(self, arm: str, point: TimelinePoint) -> None:
        """Too often for a log."""

    def judging(self, arm: str) -> None:
        """Nothing to say yet."""

    def finished(self, arm: str, repeat: int, figures: ArmFigures) -> None:
        """The one line."""
        self._console.print(_result(arm, repeat, figures), highlight=False)


class LiveProgress:
    """For terminals: one bar an arm, with what its agents are doing."""

    def __init__(self, bars: Progress, agents: int) -> None:
        self._bars = bars
        self._agents = agents
        self._bar: TaskID | None = None

    def preparing(self, arm: str, repeat: int) -> None:
        """Start a bar."""
        again = f" #{repeat}" if repeat > 1 else ""
        self._bar = self._bars.add_task(f"{arm}{again}", total=self._agents, state="engine and sandboxes start")

    def sampled(self, arm: str, point: TimelinePoint) -> None:  # noqa: ARG002 - a Progress
        """Move the bar."""
        usage = "?" if point.occupied_usage is None else f"{point.occupied_usage:.0%}"
        state = f"{point.seated} active, {point.waiting} waiting, pool {usage} full"
        self._update(state, point.finished)

    def judging(self, arm: str) -> None:  # noqa: ARG002 - a Progress
        """The agents are done."""
        self._update("tests run", self._agents)

    def finished(self, arm: str, repeat: int, figures: ArmFigures) -> None:
        """Stop the bar's clock."""
        self._update(_result(arm, repeat, figures).partition(": ")[2], self._agents)
        if self._bar is not None:
            self._bars.stop_task(self._bar)

    def _update(self, state: str, completed: int) -> None:
        if self._bar is not None:
            self._bars.update(self._bar, state=state, completed=completed)


@contextlib.contextmanager
def open_progress(console: Console, agents: int) -> Iterator[LineProgress | LiveProgress]:
    """What fits ``console``; a live display is gone from the cursor when the block is left."""
    if not console.is_terminal:
        yield LineProgress(console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[state]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=5) as bars:
        yield LiveProgress(bars, agents)
