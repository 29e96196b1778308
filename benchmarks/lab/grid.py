"""The grid: which cells there are, in what order they run, and where a sweep may stop.

A sweep (``fixed:sweep``, ``requests:sweep``) runs a grid of caps from the lowest up, in each workload, engine and seed
by itself. It stops where two caps in a row were over 20% worse than the best below them, the second no better than the
first: that assumes that over the caps makespan first falls and then rises (is unimodal). ``--no-prune`` does not assume
it. No cap at all is every sweep's last point, and always run: ``uncontrolled``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from benchmarks.lab.arms import ARMS, parse_arms
from benchmarks.lab.cells import Cell, Key, Record
from benchmarks.lab.engines import get_engine
from benchmarks.lab.records import RecordFile
from benchmarks.laws import split_names

__all__ = [
    "ORDER",
    "SWEEPS",
    "Chain",
    "Workers",
    "all_arms",
    "applies",
    "expand_arms",
    "plan_grid",
    "run_grid",
    "sweep_caps",
]

ORDER = (
    "uncontrolled",
    "requests",
    "fixed",
    "hicache",
    "concur",
    "budget",
    "thunder",
    "dynamo",
    "prime-rl",
    "gradient2",
    "fireworks",
    "llm-d",
    "clairvoyant",
)
"""In which arms are run and shown; others come before the last, which is a reference."""

SWEEPS = {"fixed": (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256), "requests": (8, 16, 32, 64, 128, 256)}
"""Caps by arm. Beyond the last each is twice the one before."""

RISE = 1.2
"""Over the best so far: a sweep stops after two caps above it. One alone may be a bump."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Cells that run one after the other: one arm's, or a sweep from its lowest cap up."""

    cells: tuple[Cell, ...]
    prune: bool = False

    def open_cells(self, done: Mapping[Key, Record]) -> Sequence[Cell]:
        """Those still to be run, by what is known so far; a sweep that may stop has none.

        Args:
            done: cells that have ended. One that failed has not, until it is run again.
        """
        makespans: list[float] = []
        for index, cell in enumerate(self.cells):
            if self.prune and _rises(makespans):
                return ()
            record = done.get(cell.key)
            if record is None:
                return self.cells[index:]
            if record.makespan_s is not None:
                makespans.append(record.makespan_s)
        return ()


class Workers(Protocol):
    """What runs cells: :class:`~benchmarks.lab.pool.Pool`."""

    @property
    def free(self) -> bool:
        """Whether one more cell can be begun."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a cell is running."""
        ...

    def submit(self, cell: Cell) -> None:
        """Begin a cell."""
        ...

    def wait(self) -> list[Record]:
        """Sleep until a cell has ended; return those that have."""
        ...


def sweep_caps(kind: str, agents: int) -> tuple[int, ...]:
    """The caps of a sweep, below the number of agents: a cap of all of them is none."""
    caps = list(SWEEPS[kind])
    while caps[-1] < agents:
        caps.append(2 * caps[-1])
    return tuple(cap for cap in caps if cap < agents)


def all_arms() -> tuple[str, ...]:
    """What ``all`` stands for: every arm that there is and that needs no argument, and the sweeps."""
    plain = [kind for kind in ARMS if kind not in SWEEPS and _needs_nothing(kind)]
    rank = {kind: number for number, kind in enumerate(ORDER)}
    kinds = sorted([*plain, *SWEEPS], key=lambda kind: rank.get(kind, len(ORDER) - 1.5))
    return tuple(f"{kind}:sweep" if kind in SWEEPS else kind for kind in kinds)


def expand_arms(text: str) -> tuple[str, ...]:
    """The arms named in ``text``, ``all`` replaced by what it stands for, sweeps left as they are.

    Raises:
        ValueError: as :func:`~benchmarks.lab.arms.parse_arms`.
    """
    names = [name for part in split_names(text) for name in (all_arms() if part == "all" else (part,))]
    sweeps = {f"{kind}:sweep" for kind in SWEEPS}
    if plain := [name for name in names if name not in sweeps]:
        parse_arms(",".join(plain))
    return tuple(dict.fromkeys(names))


def plan_grid(
    workloads: Mapping[str, tuple[int, str | None]],
    engines: Sequence[str],
    arms: Sequence[str],
    seeds: int,
    *,
    prune: bool = True,
    applies: Callable[[str, str], bool] = lambda arm, engine: True,  # noqa: ARG005
) -> list[Chain]:
    """All chains of a grid, one seed after the other, so that whatever is interrupted can be compared.

    Args:
        workloads: agents, and the trace file or None, by name.
        engines: names.
        arms: as of :func:`expand_arms`.
        seeds: how many, from 0.
        prune: whether a sweep may stop early.
        applies: whether an arm can be had on an engine, as of :func:`applies`; where it cannot there is no cell.
    """
    chains = []
    for seed, (name, (agents, trace)), engine, arm in product(range(seeds), workloads.items(), engines, arms):
        kind, _, argument = arm.partition(":")
        if not applies(arm, engine):
            continue
        swept = kind in SWEEPS and argument == "sweep"
        names = [f"{kind}:{cap}" for cap in sweep_caps(kind, agents)] if swept else [arm]
        cells = tuple(
            Cell(workload=name, engine=engine, arm=each, seed=seed, agents=agents, trace=trace) for each in names
        )
        chains.append(Chain(cells, prune=swept and prune))
    return chains


def applies(arm: str, engine: str) -> bool:
    """Whether the engine has what the arm switches on: a host cache tier is none of vLLM's, for one."""
    if arm.partition(":")[2] == "sweep":
        return True
    try:
        parse_arms(arm)[0].flags(get_engine(engine))
    except ValueError:
        return False
    return True


def run_grid(
    chains: Sequence[Chain], file: RecordFile, workers: Workers, ended: Callable[[Record], None] = lambda _: None
) -> None:
    """Run every cell that the file does not have, and write each there when it has ended.

    Args:
        chains: of :func:`plan_grid`.
        file: where records are, and go.
        workers: who runs them.
        ended: told of each cell, after it was written.
    """
    done = finished(file)
    waiting, running = list(chains), set[Key]()
    while True:
        waiting = [chain for chain in waiting if chain.open_cells(done)]
        ready = _ready(waiting, done, running)
        while workers.free and (cell := next(ready, None)):
            running.add(cell.key)
            workers.submit(cell)
        if not workers.busy:
            return
        for record in workers.wait():
            running.discard(record.key)
            file.append(record)
            done[record.key] = record  # a failed one, too: it is tried once a run
            ended(record)


def finished(file: RecordFile) -> dict[Key, Record]:
    """The file's cells that have come to their end; those that failed are to be run again."""
    return {key: record for key, record in file.records.items() if record.error is None}


def _ready(waiting: Sequence[Chain], done: Mapping[Key, Record], running: set[Key]) -> Iterator[Cell]:
    for chain in waiting:
        cells = chain.open_cells(done)
        if cells and cells[0].key not in running:
            yield cells[0]


def _rises(makespans: Sequence[float]) -> bool:
    if len(makespans) < 3:
        return False
    *before, first, second = makespans
    return first > RISE * min(before) and second >= first


def _needs_nothing(kind: str) -> bool:
    try:
        ARMS[kind](kind, "")
    except ValueError:
        return False
    return True
