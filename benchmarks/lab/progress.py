"""How far a grid has come, and how long it will take: a live bar on a terminal, a line a cell elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from benchmarks.lab.cells import Cell, Key, Record
from benchmarks.lab.grid import Chain

__all__ = ["Estimate", "said", "show_progress"]

STEP_S = 1e-3
"""A step of an agent takes about so long to simulate, until the first cells have shown how long."""
TRUSTED_STEPS = 20_000
"""As many steps count as that guess."""


class Estimate:
    """How long cells take, learned from those that have ended.

    Args:
        steps: of all agents, by workload.
        known: records whose times are already there.
    """

    def __init__(self, steps: Mapping[str, int], known: Iterable[Record] = ()) -> None:
        self._steps = steps
        self._work_s, self._work_steps = STEP_S * TRUSTED_STEPS, TRUSTED_STEPS
        for record in known:
            self.learn(record)

    def learn(self, record: Record) -> None:
        """A cell has ended."""
        if record.wall_s is not None and record.steps is not None:
            self._work_s += record.wall_s
            self._work_steps += record.steps

    def seconds(self, cells: Iterable[Cell], processes: int) -> float:
        """Wall seconds for all these."""
        return sum(self._steps[cell.workload] for cell in cells) * self._work_s / self._work_steps / processes


def said(seconds: float) -> str:
    """A time as people say it: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def show_progress(
    console: Console, chains: Sequence[Chain], done: dict[Key, Record], estimate: Estimate, processes: int
) -> Iterator[Callable[[Record], None]]:
    """Say how much there is to do; yield what is to be told of each cell that has ended.

    Args:
        console: where.
        chains: all of the grid.
        done: cells that have ended before; grows here.
        estimate: of how long they take; learns here.
        processes: how many cells run at a time.
    """
    left = _open(chains, done)
    there = {cell.key for chain in chains for cell in chain.cells} & done.keys()
    most = "at most " if any(chain.prune and chain.open_cells(done) for chain in chains) else ""
    console.print(
        f"{len(there)} cells are there, {most}{len(left)} to go: "
        f"about {said(estimate.seconds(left, processes))} on {processes} processes",
        highlight=False,
    )
    live = console.is_terminal
    columns = (BarColumn(bar_width=24), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=console, disable=not live, refresh_per_second=4) as bars:
        total = max(1, len(left))
        bar = bars.add_task("", total=total, state="the first cells run")
        ended = 0

        def tell(record: Record) -> None:
            nonlocal ended
            ended += 1
            done[record.key] = record
            estimate.learn(record)
            rest = _open(chains, done)
            time_left = f"{len(rest)} to go, about {said(estimate.seconds(rest, processes))}" if rest else "done"
            if record.error is not None or not live:
                console.print(f"{_outcome(record)}; {time_left}", highlight=False, markup=False, soft_wrap=True)
            bars.update(bar, completed=total - len(rest), state=f"{ended} cells ended, {time_left}")

        yield tell


def _open(chains: Sequence[Chain], done: Mapping[Key, Record]) -> list[Cell]:
    """All that are still to be run, each once, though it be named by itself and also part of a sweep."""
    return list({cell.key: cell for chain in chains for cell in chain.open_cells(done)}.values())


def _outcome(record: Record) -> str:
    name = f"{record.workload}, {record.engine}, {record.arm}, seed {record.seed}"
    if record.error is not None:
        return f"{name}: failed: {record.error}"
    lost = f", {record.lost} lost" if record.lost else ""
    return f"{name}: {record.makespan_s:.1f} s, hit rate {record.hit_rate:.0%}{lost} ({record.wall_s:.1f} s)"
