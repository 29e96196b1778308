"""The figures of a store: each arm's makespan and ratio, and whether the lab puts the arms in the same order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import mean

from benchmarks.lab.real.store import Run, Store

__all__ = ["BASELINE", "ArmFigures", "Ranking", "Spread", "arm_figures", "kendall_tau", "ranking"]

BASELINE = "uncontrolled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean and ends of some values."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Of at least one value; None of none."""
        return cls(mean=mean(values), low=min(values), high=max(values)) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """One arm on one workload. None where nothing is known."""

    arm: str
    runs: int
    makespan_s: Spread | None
    ratio: Spread | None
    """Uncontrolled makespan over this arm's, each pair from the same repeat. Above 1 is faster."""
    hit_rate: float | None
    """Mean over the repeats."""
    recomputed_tokens: float | None
    lost: int
    """Over all repeats."""
    predicted_s: float | None
    predicted_ratio: float | None
    predicted_hit_rate: float | None
    error: float | None
    """(predicted - measured) / measured, of the mean makespan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Whether the lab orders the arms of a workload as the engine does."""

    arms: int
    tau: float
    """Kendall's tau-b of predicted and mean measured makespans. 1: the same order, -1: the opposite one."""
    decided: int
    """Pairs of arms of which every run of one was faster than every run of the other."""
    agreeing: int
    """Of these, pairs that the lab puts in the same order."""


def arm_figures(store: Store, workload: str) -> tuple[ArmFigures, ...]:
    """Each arm that was run or predicted, in the order in which it first was."""
    runs = [run for run in store.runs if run.workload == workload]
    predicted = {run.arm: run for run in store.predictions if run.workload == workload}
    baseline = {run.repeat: run for run in runs if run.arm == BASELINE}
    first = sorted(runs, key=lambda run: run.repeat)
    names = dict.fromkeys([*(run.arm for run in first), *predicted])
    return tuple(_arm(name, [run for run in runs if run.arm == name], baseline, predicted) for name in names)


def _arm(name: str, runs: Sequence[Run], baseline: Mapping[int, Run], predicted: Mapping[str, Run]) -> ArmFigures:
    makespan = Spread.of([run.makespan_s for run in runs])
    said, free = predicted.get(name), predicted.get(BASELINE)
    return ArmFigures(
        arm=name,
        runs=len(runs),
        makespan_s=makespan,
        ratio=Spread.of([baseline[run.repeat].makespan_s / run.makespan_s for run in runs if run.repeat in baseline]),
        hit_rate=mean(run.hit_rate for run in runs) if runs else None,
        recomputed_tokens=mean(run.recomputed_tokens for run in runs) if runs else None,
        lost=sum(run.lost for run in runs),
        predicted_s=said.makespan_s if said else None,
        predicted_ratio=free.makespan_s / said.makespan_s if said and free else None,
        predicted_hit_rate=said.hit_rate if said else None,
        error=said.makespan_s / makespan.mean - 1 if said and makespan else None,
    )


def ranking(figures: Sequence[ArmFigures]) -> Ranking | None:
    """How the two orders compare; None with fewer than two arms that were both measured and predicted."""
    both = [(arm.makespan_s, arm.predicted_s) for arm in figures if arm.makespan_s and arm.predicted_s]
    if len(both) < 2:
        return None
    decided = [
        (one[0].mean - other[0].mean) * (one[1] - other[1]) > 0
        for one, other in combinations(both, 2)
        if one[0].high < other[0].low or other[0].high < one[0].low
    ]
    tau = kendall_tau([measured.mean for measured, _ in both], [said for _, said in both])
    return Ranking(arms=len(both), tau=tau, decided=len(decided), agreeing=sum(decided))


def kendall_tau(left: Sequence[float], right: Sequence[float]) -> float:
    """Kendall's tau-b of two rankings of the same things; 0.0 where either has nothing but ties.

    Raises:
        ValueError: they are not equally long.
    """
    if len(left) != len(right):
        raise ValueError(f"two rankings must be equally long, got {len(left)} and {len(right)}")
    score = left_pairs = right_pairs = 0
    for (a, b), (c, d) in combinations(zip(left, right, strict=True), 2):
        one, other = _sign(a - c), _sign(b - d)
        score += one * other
        left_pairs += abs(one)
        right_pairs += abs(other)
    return score / float(left_pairs * right_pairs) ** 0.5 if left_pairs and right_pairs else 0.0


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
