"""Which cells each table and figure needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.lab.cells import Cell
from benchmarks.lab.engines import get_engine
from benchmarks.lab.paper.values import FIGURES, TABLE_3
from benchmarks.lab.paper.workload import final_context, workload_name

__all__ = ["DEEPSEEK", "FULL", "QWEN", "SMALL", "Row", "Scale", "threshold_arm"]

QWEN = ("qwen3-32b-tp8", "qwen3-32b-tp4", "qwen3-32b-tp2")
DEEPSEEK = "deepseek-v3-tp16"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of Table 1."""

    engine: str
    agents: int
    seeds: int
    """So many batches, from seed 0."""
    published: int
    """Agents in the paper's row, by which its values are found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large everything is."""

    steps: int = 40
    """Of an agent, in the median."""
    qwen: int = 256
    """Agents."""
    deepseek: tuple[int, int, int] = (16, 32, 40)
    """Agents, row by row."""
    deepseek_seeds: int = 5
    """A batch of 16 agents is a small sample, and takes a second; one of 256 is a large one, and takes twenty."""
    lengths: tuple[int, ...] = (10, 20, 30)
    """Other numbers of steps, for comparison."""
    caps: tuple[int, ...] = (16, 64)
    """Of requests: what a user might try."""
    starts: tuple[int, ...] = (2, 32)
    """First windows of the paper's law, beside no limit."""
    links: tuple[int, ...] = (4, 2, 1)
    """GB/s of a host link, for HiCache."""
    fixed: tuple[int, ...] = (8, 16, *FIGURES.fixed)
    """Fixed windows."""

    shared: tuple[int, ...] = (8000, 16000)
    """Longer shared prefixes, in tokens."""

    @property
    def workload(self) -> str:
        """Its name."""
        return workload_name(self.steps)

    def sharing(self, shared: int) -> str:
        """The same workload with so many shared tokens."""
        return workload_name(self.steps, shared)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Of Table 1."""
        return (
            *(Row(engine, self.qwen, 1, 256) for engine in QWEN),
            *(
                Row(DEEPSEEK, agents, self.deepseek_seeds, published)
                for agents, published in zip(self.deepseek, (16, 32, 40), strict=True)
            ),
        )

    def request_cap(self, row: Row) -> int:
        """One rule for all rows: as many requests as the pool holds at the agents' mean final context. >= 1."""
        return max(1, int(get_engine(row.engine).config.max_total_tokens / final_context(self.workload, row.agents)))

    def request_arms(self, row: Row) -> tuple[str, ...]:
        """The caps that are tried, the rule's among them."""
        caps = {cap for cap in self.caps if cap < row.agents} | {self.request_cap(row)}
        return tuple(f"requests:{cap}" for cap in sorted(caps))

    def start_arms(self) -> tuple[str, ...]:
        """The paper's law with other first windows."""
        return tuple(f"concur:start={start}" for start in self.starts)

    def cells(self) -> list[Cell]:
        """All, each once, in the order of the tables."""
        return list(dict.fromkeys(self._cells()))

    def traces(self) -> tuple[Cell, Cell, Cell]:
        """What Figure 3 shows, and what Figure 5 does: without control, and with the paper's law."""
        most, tp2 = self.rows[-1], self.rows[2]
        return (
            self._cell(most, "uncontrolled", 0),
            self._cell(tp2, "uncontrolled", 0),
            self._cell(tp2, "concur", 0),
        )

    def _cells(self) -> Iterator[Cell]:
        for row in self.rows:
            yield from self._of(row, "uncontrolled", "concur", "budget", "hicache", f"requests:{self.request_cap(row)}")
        qwen, deepseek = self.rows[:3], self.rows[3:]
        for row in qwen:
            for name, values in TABLE_3.items():
                yield from self._of(row, *(threshold_arm(name, value) for value in values))
                yield from self._of(row, *(threshold_arm(name, value, self.starts[0]) for value in values))
        yield from self._of(qwen[2], *(f"fixed:{window}" for window in self.fixed))
        for row in self.rows:
            yield from self._of(row, *self.start_arms())
        for row in deepseek:
            yield from self._of(row, *(f"link:{link}" for link in self.links))
        for row in self.rows:
            yield from self._of(row, *self.request_arms(row))
        for steps in self.lengths:
            for row in self.rows:
                yield from self._of(row, "uncontrolled", "concur", workload=workload_name(steps))
        for steps in self.lengths[:1]:
            windows = (f"fixed:{window}" for window in self.fixed)
            yield from self._of(qwen[2], *windows, workload=workload_name(steps))
        for shared in self.shared:
            for row in (*deepseek, *qwen):
                yield from self._of(row, "uncontrolled", "concur", "budget", workload=self.sharing(shared))

    def _of(self, row: Row, *arms: str, workload: str = "") -> Iterator[Cell]:
        yield from (self._cell(row, arm, seed, workload) for arm in arms for seed in range(row.seeds))

    def _cell(self, row: Row, arm: str, seed: int, workload: str = "") -> Cell:
        return Cell(workload=workload or self.workload, engine=row.engine, arm=arm, seed=seed, agents=row.agents)


def threshold_arm(name: str, value: float, start: int | None = None) -> str:
    """The paper's law with one threshold changed; with its own value it is the law itself.

    Args:
        name: ``u_high`` or ``u_low``.
        value: of it.
        start: first window; None for the law's own, no limit.
    """
    changed = [f"start={start}"] if start is not None else []
    if value != {"u_high": 0.5, "u_low": 0.2}[name]:
        changed.append(f"{name}={value}")
    return f"concur:{','.join(changed)}" if changed else "concur"


FULL = Scale()
SMALL = Scale(
    steps=4,
    qwen=6,
    deepseek=(2, 3, 4),
    deepseek_seeds=1,
    lengths=(2,),
    caps=(2,),
    starts=(2,),
    links=(2,),
    fixed=(2,),
    shared=(8000,),
)
"""So little that it all fits, and no figure means anything: to see that everything runs."""
