"""The figures of a store: each arm's makespan and ratio, and whether the lab puts the arms in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import mean

from benchmarks.lab.real.store import Run, Store

__all__ = ["BASELINE", "NOISY", "OURS", "ArmFigures", "Ranking", "Spread", "arm_figures", "kendall_tau", "ranking"]

BASELINE = "uncontrolled"
OURS = "budget"
"""The default law."""
NOISY = 0.05
"""Share of all cores that others used, above which a run is left out: on two cores a tenth of the engine's. Runs with
15% took 14 to 19% longer than when they were run again."""


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
    """That count: those that were disturbed do not."""
    makespans: Mapping[int, float]
    """Seconds, by repeat."""
    ratio: Spread | None
    """Uncontrolled makespan over this arm's, each pair from the same repeat. Above 1 is faster."""
    against: Spread | None
    """This arm's makespan over the default law's, each pair from the same repeat. Above 1 that law is faster."""
    hit_rate: float | None
    """Mean over the repeats."""
    recomputed_tokens: float | None
    lost: int
    """Over all repeats."""
    predictions: Mapping[int, float]
    """Predicted seconds, by repeat."""
    predicted_ratio: float | None
    predicted_against: float | None
    """Means over the repeats, as ``ratio`` and ``against``."""
    error: float | None
    """(predicted - measured) / measured, of the mean makespan over the repeats that have both."""

    @property
    def makespan_s(self) -> Spread | None:
        """Over the repeats."""
        return Spread.of(list(self.makespans.values()))

    @property
    def predicted_s(self) -> float | None:
        """Mean over the repeats."""
        return mean(self.predictions.values()) if self.predictions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Whether the lab orders the arms of a workload as the engine does."""

    arms: int
    tau: float
    """Kendall's tau-b of predicted and measured mean makespans. 1: the same order, -1: the opposite one."""
    decided: int
    """Pairs of arms of which the same one was faster in every repeat."""
    agreeing: int
    """Of these, pairs that the lab puts in the same order."""


def arm_figures(store: Store, workload: str) -> tuple[ArmFigures, ...]:
    """Each arm that was run or predicted, in the order in which it first was."""
    every = sorted((run for run in store.runs if run.workload == workload), key=lambda run: run.repeat)
    said = [run for run in store.predictions if run.workload == workload]
    runs = [run for run in every if (run.others_cpu or 0.0) <= NOISY]
    measured, predicted = _Table(runs), _Table(said)
    return tuple(
        _arm(name, [run for run in runs if run.arm == name], measured, predicted)
        for name in dict.fromkeys(run.arm for run in (*every, *said))
    )


class _Table:
    """Makespans by arm and repeat."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._seconds = {(run.arm, run.repeat): run.makespan_s for run in runs}

    def of(self, arm: str) -> dict[int, float]:
        return {repeat: seconds for (name, repeat), seconds in self._seconds.items() if name == arm}

    def ratio(self, over: str, under: str) -> Spread | None:
        """One arm's makespan over another's, within each repeat that has both."""
        top, bottom = self.of(over), self.of(under)
        return Spread.of([top[repeat] / bottom[repeat] for repeat in top if repeat in bottom])


def _arm(name: str, runs: Sequence[Run], measured: _Table, predicted: _Table) -> ArmFigures:
    makespans, predictions = measured.of(name), predicted.of(name)
    both = makespans.keys() & predictions.keys()
    return ArmFigures(
        arm=name,
        runs=len(runs),
        makespans=makespans,
        ratio=measured.ratio(BASELINE, name),
        against=measured.ratio(name, OURS),
        hit_rate=_mean(run.hit_rate for run in runs),
        recomputed_tokens=_mean(run.recomputed_tokens for run in runs),
        lost=sum(run.lost for run in runs),
        predictions=predictions,
        predicted_ratio=_middle(predicted.ratio(BASELINE, name)),
        predicted_against=_middle(predicted.ratio(name, OURS)),
        error=sum(predictions[each] for each in both) / sum(makespans[each] for each in both) - 1 if both else None,
    )


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return mean(known) if known else None


def _middle(spread: Spread | None) -> float | None:
    return spread.mean if spread else None


def ranking(figures: Sequence[ArmFigures]) -> Ranking | None:
    """How the two orders compare; None with fewer than two arms that were both measured and predicted."""
    both = [arm for arm in figures if arm.makespans and arm.predictions]
    if len(both) < 2:
        return None
    measured = [mean(arm.makespans.values()) for arm in both]
    predicted = [mean(arm.predictions.values()) for arm in both]
    agreeing = [
        sign * (predicted[one] - predicted[other]) > 0
        for one, other in combinations(range(len(both)), 2)
        if (sign := _slower(both[one].makespans, both[other].makespans))
    ]
    tau = kendall_tau(measured, predicted)
    return Ranking(arms=len(both), tau=tau, decided=len(agreeing), agreeing=sum(agreeing))


def _slower(one: Mapping[int, float], other: Mapping[int, float]) -> int:
    """1 if the first took longer in every repeat that both have, -1 if the other did, else 0."""
    signs = {_sign(one[repeat] - other[repeat]) for repeat in one if repeat in other}
    return signs.pop() if len(signs) == 1 else 0


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
