"""The figures of a record: medians and spreads of arms, ratios within repeats, and how wrong the prediction was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.real.record import Record, RunRecord

__all__ = ["BASELINE", "ArmFigures", "Spread", "figures"]

BASELINE = "uncontrolled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Middle and ends of some values."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Of at least one value; None of none."""
        return cls(median=median(values), low=min(values), high=max(values)) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """One arm over its repeats. None where nothing is known."""

    arm: str
    runs: int
    makespan_s: Spread | None
    speedup: Spread | None
    """Uncontrolled makespan over this arm's, each pair from the same repeat."""
    hit_rate: Spread | None
    recomputed_tokens: Spread | None
    lost: int
    """Over all repeats."""
    predicted_s: Spread | None
    """The emulator's makespan."""
    error: float | None
    """(predicted - measured) / measured, of the medians."""


def figures(record: Record) -> tuple[ArmFigures, ...]:
    """Each arm's figures, in the record's order."""
    baseline = {run.repeat: run for run in record.of(BASELINE)}
    return tuple(_arm(record, arm, baseline) for arm in record.arms)


def _arm(record: Record, arm: str, baseline: dict[int, RunRecord]) -> ArmFigures:
    runs = record.of(arm)
    makespan = Spread.of([run.batch.makespan_s for run in runs])
    predicted = Spread.of([run.batch.makespan_s for run in record.predicted if run.arm == arm])
    return ArmFigures(
        arm=arm,
        runs=len(runs),
        makespan_s=makespan,
        speedup=Spread.of(
            [baseline[run.repeat].batch.makespan_s / run.batch.makespan_s for run in runs if run.repeat in baseline]
        ),
        hit_rate=Spread.of([rate for run in runs if (rate := run.batch.hit_rate) is not None]),
        recomputed_tokens=Spread.of([n for run in runs if (n := run.batch.recomputed_tokens) is not None]),
        lost=sum(run.batch.lost for run in runs),
        predicted_s=predicted,
        error=predicted.median / makespan.median - 1 if predicted is not None and makespan is not None else None,
    )
