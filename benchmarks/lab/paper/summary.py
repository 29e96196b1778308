"""Means and ratios of the cells that a table asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, geometric_mean

from benchmarks.lab.cells import Record
from benchmarks.lab.engines import get_engine
from benchmarks.lab.paper.plan import Row, Scale
from benchmarks.lab.paper.store import Store
from benchmarks.lab.paper.workload import final_context

__all__ = ["Summary"]


class Summary:
    """What a file of figures says at one scale.

    Args:
        store: the file.
        scale: which of its cells.

    In its methods ``workload`` is a name; empty for the scale's own.
    """

    def __init__(self, store: Store, scale: Scale) -> None:
        self.store, self.scale = store, scale

    @property
    def records(self) -> list[Record]:
        """This scale's cells, as far as there are any."""
        return [self.store.records[cell.key] for cell in self.scale.cells() if cell.key in self.store.records]

    def makespan(self, row: Row, arm: str, workload: str = "") -> float | None:
        """Seconds, mean over the seeds; None while one of them is missing."""
        return self._mean(row, arm, workload, lambda record: record.makespan_s)

    def hit_rate(self, row: Row, arm: str, workload: str = "") -> float | None:
        """0..1, mean over the seeds; None while one of them is missing."""
        return self._mean(row, arm, workload, lambda record: record.hit_rate)

    def speedup(self, row: Row, arm: str, workload: str = "", over: str = "uncontrolled") -> float | None:
        """Another arm's makespan over this one's, seed by seed: geometric mean. Above 1 this one is faster."""
        one, other = self._seeds(row, arm, workload), self._seeds(row, over, workload)
        ratios = [
            b.makespan_s / a.makespan_s for a, b in zip(one, other, strict=False) if a.makespan_s and b.makespan_s
        ]
        return geometric_mean(ratios) if len(ratios) == row.seeds else None

    def best(self, row: Row, arms: Sequence[str], workload: str = "") -> str | None:
        """The arm with the least mean makespan; None while one is missing."""
        found = {arm: self.makespan(row, arm, workload) for arm in arms}
        known = {arm: seconds for arm, seconds in found.items() if seconds is not None}
        return min(known, key=lambda arm: known[arm]) if len(known) == len(arms) else None

    def overcommit(self, row: Row, workload: str = "") -> float:
        """Tokens of all agents' final contexts, over the pool."""
        return (
            final_context(workload or self.scale.workload, row.agents)
            * row.agents
            / get_engine(row.engine).config.max_total_tokens
        )

    def _seeds(self, row: Row, arm: str, workload: str) -> list[Record]:
        keys = [(workload or self.scale.workload, row.engine, arm, seed, row.agents) for seed in range(row.seeds)]
        return [record for key in keys if (record := self.store.records.get(key)) is not None and record.error is None]

    def _mean(self, row: Row, arm: str, workload: str, value: Callable[[Record], float | None]) -> float | None:
        known = [found for record in self._seeds(row, arm, workload) if (found := value(record)) is not None]
        return fmean(known) if len(known) == row.seeds else None
