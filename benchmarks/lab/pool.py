"""Worker processes that run cells. One that dies costs the cell it was running, and no other."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from benchmarks.lab.cells import Cell, Record, failed, run_cell

__all__ = ["Pool", "described"]

_SPAWN = multiprocessing.get_context("spawn")  # a fork would copy whatever the starter has open and running


class Pool:
    """So many processes, each with one cell at a time.

    Args:
        processes: how many. >= 1.
        code: of :func:`~benchmarks.lab.cells.code_hash`.
        work: what a process does with a cell; importable by name.
    """

    def __init__(self, processes: int, code: str, work: Callable[[Cell, str], Record] = run_cell) -> None:
        self._size, self._code, self._work = processes, code, work
        self._idle: list[tuple[Connection, BaseProcess]] = []
        self._busy: dict[Connection, tuple[BaseProcess, Cell]] = {}

    @property
    def free(self) -> bool:
        """Whether one more cell can be begun."""
        return len(self._busy) < self._size

    @property
    def busy(self) -> bool:
        """Whether a cell is running."""
        return bool(self._busy)

    def submit(self, cell: Cell) -> None:
        """Begin a cell; only while :attr:`free`."""
        connection, process = self._idle.pop() if self._idle else self._start()
        self._busy[connection] = (process, cell)
        with contextlib.suppress(BrokenPipeError):  # it died while it was idle; `wait` finds that out
            connection.send(cell)

    def wait(self) -> list[Record]:
        """Sleep until a cell has ended; return those that have."""
        records = []
        for connection in wait(list(self._busy)):
            assert isinstance(connection, Connection)  # noqa: S101 - only those were given
            process, cell = self._busy.pop(connection)
            try:
                records.append(connection.recv())
                self._idle.append((connection, process))
            except (EOFError, ConnectionResetError):
                connection.close()
                process.join()
                message = f"its process ended with exit code {process.exitcode} (-9: killed, perhaps for memory)"
                records.append(failed(cell, self._code, message))
        return records

    def close(self) -> None:
        """End all processes, also those in the middle of a cell."""
        everyone = [*self._idle, *((connection, process) for connection, (process, _) in self._busy.items())]
        self._idle, self._busy = [], {}
        for connection, process in everyone:
            connection.close()
            process.terminate()
        for _, process in everyone:
            process.join()
            process.close()

    def _start(self) -> tuple[Connection, BaseProcess]:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_serve, args=(theirs, self._code, self._work), daemon=True)
        process.start()
        theirs.close()  # so that its end is seen here
        return ours, process


def described(error: Exception) -> str:
    """An exception in one line: type, message, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _serve(connection: Connection, code: str, work: Callable[[Cell, str], Record]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of them; the one that started them decides
    logging.disable(logging.CRITICAL)  # would break into the progress display; what matters is in the record
    while True:
        try:
            cell = connection.recv()
        except EOFError:
            return  # whoever started this is gone
        try:
            record = work(cell, code)
        except Exception as error:  # noqa: BLE001 - whatever a cell fails with is its record, and the others go on
            record = failed(cell, code, described(error))
        try:
            connection.send(record)
        except BrokenPipeError:
            return
