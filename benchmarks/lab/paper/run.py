"""Runs what is missing, cell by cell."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import closing

from benchmarks.lab.cells import Cell, Record, failed
from benchmarks.lab.paper.cells import run_paper_cell
from benchmarks.lab.paper.plan import Scale
from benchmarks.lab.paper.store import Store
from benchmarks.lab.paper.trace import run_trace
from benchmarks.lab.pool import Pool, described

__all__ = ["missing", "run_all"]


def missing(store: Store, scale: Scale) -> tuple[list[Cell], list[Cell]]:
    """Cells, and cells to be watched over time, that the file does not have yet."""
    cells = [cell for cell in scale.cells() if not store.done(cell)]
    return cells, [cell for cell in scale.traces() if cell.key not in store.traces]


def run_all(store: Store, scale: Scale, code: str, processes: int, tell: Callable[[Record], None]) -> None:
    """Run them. A cell that fails is kept with its error, and tried again by the next run.

    Args:
        store: where they are kept as they end.
        scale: how large everything is.
        code: of :func:`~benchmarks.lab.paper.cells.paper_code`.
        processes: cells that run at a time; 1 is this process itself.
        tell: called with each record.
    """
    cells, traces = missing(store, scale)

    def keep(record: Record) -> None:
        store.add(record)
        tell(record)

    if processes == 1:
        for cell in cells:
            keep(_run(cell, code))
    else:
        with closing(Pool(processes, code, run_paper_cell)) as pool:
            waiting = deque(cells)
            while waiting or pool.busy:
                while waiting and pool.free:
                    pool.submit(waiting.popleft())
                for record in pool.wait():
                    keep(record)
    for cell in traces:
        store.add(run_trace(cell, code))


def _run(cell: Cell, code: str) -> Record:
    try:
        return run_paper_cell(cell, code)
    except Exception as error:  # noqa: BLE001 - whatever a cell fails with is its record, and the others go on
        return failed(cell, code, described(error))
