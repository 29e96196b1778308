"""Telling the user how the run goes: a live line on a terminal, one plain line an arm elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks.swebench.records import TimelinePoint
from benchmarks.swebench.summary import ArmFigures

__all__ = ["LineProgress", "LiveProgress", "TimeLeft", "open_progress"]


class TimeLeft:
    """How long the rest of a run takes, if its runs of arms take as long as those before.

    Args:
        runs: of arms, all repeats together.
        clock: seconds.
    """

    def __init__(self, runs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs, self._clock = runs, clock
        self._done = 0
        self._spent = self._began = 0.0

    def began(self) -> None:
        """A run of an arm begins. Those that are not run again never do."""
        self._began = self._clock()

    def ended(self) -> str:
        """It has ended; says what is left, where anything is."""
        self._done += 1
        self._spent += self._clock() - self._began
        left = (self._runs - self._done) * self._spent / self._done
        return f", about {_minutes(left)} left" if self._done < self._runs else ""


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _result(arm: str, repeat: int, figures: ArmFigures) -> str:
    makespan = "?" if figures.makespan_s is None else f"{figures.makespan_s:.1f} s"
    hit_rate = "?" if figures.hit_rate is None else f"{figures.hit_rate:.1%}"
    again = f" (repeat {repeat})" if repeat > 1 else ""
    return f"{arm}{again}: {makespan}, hit rate {hit_rate}, {figures.resolved} of {figures.agents} resolved"


class LineProgress:
    """For logs and pipes: a line when an arm is over."""

    def __init__(self, console: Console, left: TimeLeft) -> None:
        self._console, self._left = console, left

    def preparing(self, arm: str, repeat: int) -> None:  # noqa: ARG002 - a Progress
        """Nothing to say yet."""
        self._left.began()

    def sampled(self, arm: str, point: TimelinePoint) -> None:
        """Too often for a log."""

    def judging(self, arm: str) -> None:
        """Nothing to say yet."""

    def finished(self, arm: str, repeat: int, figures: ArmFigures) -> None:
        """The one line."""
        self._console.print(_result(arm, repeat, figures) + self._left.ended(), highlight=False)


class LiveProgress:
    """For terminals: one bar an arm, with what its agents are doing."""

    def __init__(self, bars: Progress, agents: int, left: TimeLeft) -> None:
        self._bars, self._left = bars, left
        self._agents = agents
        self._bar: TaskID | None = None

    def preparing(self, arm: str, repeat: int) -> None:
        """Start a bar."""
        self._left.began()
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
        self._update(_result(arm, repeat, figures).partition(": ")[2] + self._left.ended(), self._agents)
        if self._bar is not None:
            self._bars.stop_task(self._bar)

    def _update(self, state: str, completed: int) -> None:
        if self._bar is not None:
            self._bars.update(self._bar, state=state, completed=completed)


@contextlib.contextmanager
def open_progress(console: Console, agents: int, runs: int) -> Iterator[LineProgress | LiveProgress]:
    """What fits ``console``, for so many runs of arms; a live display is gone when the block is left."""
    left = TimeLeft(runs)
    if not console.is_terminal:
        yield LineProgress(console, left)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[state]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=5) as bars:
        yield LiveProgress(bars, agents, left)
