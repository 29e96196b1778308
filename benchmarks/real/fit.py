"""The emulator's cost model from measured passes, no coefficient below zero.

Each point counts by one over its fitted time (the weights of a quasi-Poisson regression, found by iterating). Then the
fitted times add up to the measured ones, which is what matters: a makespan is a sum of passes. Weights by relative
error would let many short passes outvote the few long ones that make up most of a batch's time, and fit a noisy
engine as too fast. With so few unknowns the best non-negative solution is found by trying every subset of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.calibrate import DecodePoint, Points, PrefillPoint
from benchmarks.real.record import FitRecord
from concur_agents.emulator import CostModel

__all__ = ["fit", "least_squares"]

ROUNDS = 20
"""Of weighting by the last round's fit; it stands still after a few."""
TINY = 1e-6
"""Of a measured time: what a fitted time of nothing counts as, in the weights."""


def fit(points: Points, scheduling: Mapping[str, Any]) -> FitRecord:
    """Fit a cost model.

    Args:
        points: what was measured.
        scheduling: of the engine, to go along.

    Raises:
        ValueError: there are fewer points than coefficients, or no step takes any time.
    """
    prefill, decode = points.prefill, points.decode
    rows = [
        (
            1.0,
            float(sum(new for new, _ in point.shapes)),
            sum(new * (cached + new / 2) for new, cached in point.shapes),
            float(sum(cached for _, cached in point.shapes)),
        )
        for point in prefill
    ]
    base, token, pair, cached = least_squares(rows, [point.seconds for point in prefill])
    cost: dict[str, Any] = {
        "prefill_base_s": base,
        "prefill_token_s": token,
        "prefill_pair_s": pair,
        "prefill_cached_s": cached,
        **_decode(decode),
    }
    compared = _compared(CostModel(**cost), prefill, decode)
    return FitRecord(
        cost=cost,
        scheduling=dict(scheduling),
        prefill_error=_typical(compared, "prefill"),
        decode_error=_typical(compared, "decode"),
        points=tuple(compared),
    )


def _decode(points: Sequence[DecodePoint]) -> dict[str, Any]:
    """What a decode step costs: by the size of the batch as measured, where sizes were measured at several lengths."""
    seconds = [point.seconds for point in points]
    sizes = sorted({point.sequences for point in points})
    if len(points) == len(sizes):  # else nothing would tell the cost of a token from that of a size
        rows = [(float(point.steps), float(point.steps * point.sequences), float(point.tokens)) for point in points]
        base, each, token = least_squares(rows, seconds)
        return {"decode_base_s": base, "decode_seq_s": each, "decode_token_s": token}
    *of_sizes, token = least_squares(
        [
            (*(float(point.steps * (point.sequences == size)) for size in sizes), float(point.tokens))
            for point in points
        ],
        seconds,
    )
    batches = tuple(zip(sizes, of_sizes, strict=True))
    return {"decode_base_s": batches[0][1], "decode_token_s": token, "decode_batch_s": batches}


def least_squares(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> tuple[float, ...]:
    """Coefficients, none below zero, with which ``rows @ coefficients`` is nearest to ``seconds`` (see above).

    Raises:
        ValueError: fewer rows than coefficients, or a time that is not positive.
    """
    if not rows or len(rows) < len(rows[0]):
        raise ValueError(f"a fit needs at least as many points as coefficients, got {len(rows)}")
    if min(seconds) <= 0:
        raise ValueError(f"every time must be positive, got {min(seconds)}")
    matrix: NDArray[np.float64] = np.asarray(rows, dtype=np.float64)
    wanted: NDArray[np.float64] = np.asarray(seconds, dtype=np.float64)
    scale = np.sqrt(wanted)
    for _ in range(ROUNDS):
        found = _non_negative(matrix / scale[:, None], wanted / scale)
        scale = np.sqrt(np.maximum(matrix @ found, wanted * TINY))
    return tuple(float(value) for value in found)


def _non_negative(matrix: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least-squares solution among those without a negative coefficient."""
    # Columns differ by six orders of magnitude; scaled to the same length they lose no digits.
    lengths = np.linalg.norm(matrix, axis=0)
    lengths[lengths == 0] = 1.0
    matrix = matrix / lengths
    width = matrix.shape[1]
    plain = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
    if not (plain < 0).any():
        return np.asarray(plain / lengths, dtype=np.float64)
    best, least = np.zeros(width), float("inf")
    for size in range(1, width + 1):
        for columns in map(list, combinations(range(width), size)):
            solution = np.linalg.lstsq(matrix[:, columns], wanted, rcond=None)[0]
            if (solution < 0).any():
                continue
            error = float(np.linalg.norm(matrix[:, columns] @ solution - wanted))
            if error < least:
                best, least = np.zeros(width), error
                best[columns] = solution
    scaled: NDArray[np.float64] = best / lengths
    return scaled


def _compared(cost: CostModel, prefill: Sequence[PrefillPoint], decode: Sequence[DecodePoint]) -> list[dict[str, Any]]:
    """Every point of the grid: mean of what was measured there, and what the model says."""
    found: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for point in prefill:
        new, cached = (sum(shape[part] for shape in point.shapes) for part in (0, 1))
        found["prefill", len(point.shapes), new, cached].append((point.seconds, cost.prefill_s(point.shapes)))
    for steps in decode:
        held = steps.tokens // steps.steps
        each = steps.seconds / steps.steps
        found["decode", steps.sequences, steps.sequences, held].append((each, cost.decode_s(steps.sequences, held)))
    return [
        {
            "kind": kind,
            "sequences": sequences,
            "new": new,
            "held": held,
            "times": len(pairs),
            "measured_s": mean(measured for measured, _ in pairs),
            "fitted_s": mean(fitted for _, fitted in pairs),
        }
        for (kind, sequences, new, held), pairs in found.items()
    ]


def _typical(points: Sequence[Mapping[str, Any]], kind: str) -> float:
    return float(median(abs(p["fitted_s"] - p["measured_s"]) / p["measured_s"] for p in points if p["kind"] == kind))
