"""What a file of records says: makespans by arm, and one arm's ratios to all others.

A ratio is another arm's makespan over ours on the same workload, engine and seed: above 1 we end sooner, below 1 is a
loss. Over seeds, and then over workloads, it is the geometric mean. The best cap of a sweep is chosen for a workload
and engine as a diligent user would: the one with the least mean makespan over the seeds, no cap at all among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, geometric_mean

from benchmarks.lab.cells import Record
from benchmarks.lab.grid import ORDER, SWEEPS

__all__ = [
    "BOUND",
    "CLAIRVOYANT",
    "REFERENCES",
    "THRASHING",
    "Group",
    "Ratio",
    "Report",
    "Spread",
    "Summary",
    "best_name",
]

BOUND = "lower bound"
"""Stands among the arms: what no scheduler can beat."""
CLAIRVOYANT = "clairvoyant"
REFERENCES = (CLAIRVOYANT, BOUND)
"""They know what is to come: to be behind them is no loss."""
NONE = "uncontrolled"
EVEN = 0.0005
"""Ratios this close to 1 are no difference."""
THRASHING = 0.25
"""Share of all prompt tokens computed again from where on an uncontrolled batch is said to thrash."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the seeds."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Another's makespan over ours, over the seeds: geometric mean, least and greatest."""

    mean: float
    low: float
    high: float
    loss: bool
    """Ours took longer, and the other is no reference."""


@dataclass(frozen=True, slots=True)
class Group:
    """One workload on one engine: its records by arm and seed."""

    workload: str
    engine: str
    agents: int
    arms: Mapping[str, Mapping[int, Record]]

    @property
    def place(self) -> str:
        """What and where it is."""
        return f"{self.workload} on {self.engine}"

    @property
    def title(self) -> str:
        """Names it."""
        return f"{self.place}, {self.agents} agents"

    def makespans(self, arm: str) -> dict[int, float]:
        """By seed; of :data:`BOUND`, too. Cells that failed are left out."""
        if arm == BOUND:
            bounds = {
                seed: record.lower_bound_s
                for records in self.arms.values()
                for seed, record in records.items()
                if record.lower_bound_s is not None
            }
            return dict(sorted(bounds.items()))
        records = self.arms.get(arm, {})
        return {seed: record.makespan_s for seed, record in records.items() if record.makespan_s is not None}

    def makespan(self, arm: str) -> Spread | None:
        """Over the seeds; None when no cell came to its end."""
        found = self.makespans(arm).values()
        return Spread(fmean(found), min(found), max(found)) if found else None

    def best(self, kind: str) -> str | None:
        """The arm with the best cap of that kind, or none at all; None when no cap was tried.

        Only caps that were run with as many seeds as any other count: a sweep that stopped early did not miss its best.
        """
        caps = [arm for arm in self.arms if arm.partition(":")[0] == kind]
        tried = {arm: self.makespans(arm) for arm in [*caps, *([NONE] if NONE in self.arms else [])] if caps}
        most = max((len(found) for found in tried.values()), default=0)
        means = {arm: fmean(found.values()) for arm, found in tried.items() if found and len(found) == most}
        return min(means, key=lambda arm: means[arm]) if means else None

    def named(self, name: str) -> str | None:
        """The arm that a name stands for here: that arm, or the best of a sweep."""
        for kind in SWEEPS:
            if name == best_name(kind):
                return self.best(kind)
        return name

    def ratio(self, ours: str, theirs: str) -> Ratio | None:
        """Over the seeds that both have; None when there is none."""
        mine, other = self.makespans(ours), self.makespans(self.named(theirs) or "")
        ratios = [other[seed] / mine[seed] for seed in mine.keys() & other.keys() if mine[seed] and other[seed]]
        if not ratios:
            return None
        mean = geometric_mean(ratios)
        return Ratio(mean, min(ratios), max(ratios), loss=mean < 1 - EVEN and theirs not in REFERENCES)

    @property
    def thrashes(self) -> bool | None:
        """Whether it does uncontrolled; None when that was not run."""
        shares = [
            record.recomputed_tokens / record.prompt_tokens
            for record in self.arms.get(NONE, {}).values()
            if record.recomputed_tokens is not None and record.prompt_tokens
        ]
        return fmean(shares) >= THRASHING if shares else None


@dataclass(frozen=True, slots=True)
class Summary:
    """Ours against one other, over all workloads."""

    name: str
    by_engine: Mapping[str, float | None]
    """Geometric mean over the workloads."""
    mean: float
    """Over all workloads and engines."""
    worst: float
    worst_at: str
    losses: int
    cells: int
    """How many workloads and engines that is over."""


class Report:
    """All that is shown.

    Args:
        records: of a file.
        ours: the arm that others are compared with.
        only: compare with these only; None for all.

    Raises:
        ValueError: no cell was run under ``ours``, or there is nothing of a name in ``only``.
    """

    def __init__(self, records: Sequence[Record], *, ours: str, only: Sequence[str] | None = None) -> None:
        self.records, self.ours = records, ours
        arms = sorted({record.arm for record in records}, key=_rank)
        if ours not in arms:
            raise ValueError(f"ours must be one of {', '.join(arms)}, got {ours!r}")
        self.groups = _groups(records, arms)
        names = self._names(arms)
        for name in only or ():
            if name not in names:
                raise ValueError(f"baseline must be one of {', '.join(names)}, got {name!r}")
        self.baselines = [name for name in names if only is None or name in only]

    @cached_property
    def summaries(self) -> list[Summary]:
        """Over all workloads, against each baseline that has anything in common with ours."""
        found = [self._summary(name, name, self.groups) for name in self.baselines]
        if NONE in self.baselines:
            thrashing = [group for group in self.groups if group.thrashes]
            found.insert(1 + self.baselines.index(NONE), self._summary(f"{NONE}, thrashing", NONE, thrashing))
        return [summary for summary in found if summary is not None]

    @property
    def versions(self) -> list[str]:
        """Of the code that ran the cells."""
        return sorted({record.code for record in self.records})

    @property
    def failures(self) -> list[Record]:
        """Cells that did not come to their end."""
        return [record for record in self.records if record.error is not None]

    def cells_with(self, arm: str) -> Report | None:
        """The same, of the workloads, engines and seeds alone that were run under ``arm`` too; None where none was."""
        has = {record.batch for record in self.records if record.arm == arm and record.makespan_s is not None}
        records = [record for record in self.records if record.batch in has]
        return Report(records, ours=self.ours) if any(record.arm == self.ours for record in records) else None

    def _names(self, arms: Sequence[str]) -> list[str]:
        names: list[str] = []
        for arm in arms:
            kind = arm.partition(":")[0]
            name = best_name(kind) if kind in SWEEPS else arm
            if arm != self.ours and name not in names:
                names.append(name)
        return [*names, BOUND]

    def _summary(self, name: str, baseline: str, groups: Sequence[Group]) -> Summary | None:
        ratios = [(group, ratio) for group in groups if (ratio := group.ratio(self.ours, baseline))]
        if not ratios:
            return None
        worst_group, worst = min(ratios, key=lambda pair: pair[1].mean)
        engines = dict.fromkeys(group.engine for group in self.groups)
        return Summary(
            name=name,
            by_engine={engine: _mean(ratios, engine) for engine in engines},
            mean=geometric_mean(ratio.mean for _, ratio in ratios),
            worst=worst.mean,
            worst_at=worst_group.place,
            losses=sum(ratio.loss for _, ratio in ratios),
            cells=len(ratios),
        )


def best_name(kind: str) -> str:
    """What the best of a sweep is called."""
    return f"best {kind} cap"


def _mean(ratios: Sequence[tuple[Group, Ratio]], engine: str) -> float | None:
    chosen = [ratio.mean for group, ratio in ratios if group.engine == engine]
    return geometric_mean(chosen) if chosen else None


def _groups(records: Sequence[Record], arms: Sequence[str]) -> list[Group]:
    found: dict[tuple[str, str, int], dict[str, dict[int, Record]]] = {}
    for record in sorted(records, key=lambda record: (arms.index(record.arm), record.seed)):
        cells = found.setdefault((record.workload, record.engine, record.agents), {})
        cells.setdefault(record.arm, {})[record.seed] = record
    return [Group(*names, arms=cells) for names, cells in sorted(found.items())]


def _rank(arm: str) -> tuple[float, float, str]:
    kind, _, argument = arm.partition(":")
    return (ORDER.index(kind) if kind in ORDER else len(ORDER) - 1.5, int(argument) if argument.isdigit() else -1, arm)
