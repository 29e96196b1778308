"""The emulator's cost model from measured passes: least squares of relative errors, no coefficient below zero.

Relative, because a makespan is made of many short passes and few long ones, and each should be right by the same
share; relative to the geometric mean of measured and fitted, since relative to the measured alone a fit through noisy
points comes out too low (half a time is an error of 1/2, twice a time one of 1). With so few unknowns the best
non-negative solution is found by trying every subset of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.calibrate import DecodePoint, PrefillPoint
from benchmarks.real.record import FitRecord
from concur_agents.emulator import CostModel

__all__ = ["fit", "least_squares"]

ROUNDS = 20
"""Of weighting by the last round's fit; it stands still after a few."""
TINY = 1e-6
"""Of a measured time: what a fitted time of nothing counts as, in the weights."""


def fit(prefill: Sequence[PrefillPoint], decode: Sequence[DecodePoint], scheduling: Mapping[str, Any]) -> FitRecord:
    """Fit a cost model.

    Args:
        prefill: measured prefill passes.
        decode: measured decode steps.
        scheduling: of the engine, to go along.

    Raises:
        ValueError: there are fewer points than coefficients, or no step takes any time.
    """
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
    steps = [(float(point.steps), float(point.steps * point.sequences), float(point.tokens)) for point in decode]
    decode_base, decode_seq, decode_token = least_squares(steps, [point.seconds for point in decode])
    cost = {
        "prefill_base_s": base,
        "prefill_token_s": token,
        "prefill_pair_s": pair,
        "prefill_cached_s": cached,
        "decode_base_s": decode_base,
        "decode_seq_s": decode_seq,
        "decode_token_s": decode_token,
    }
    points = _compared(CostModel(**cost), prefill, decode)
    return FitRecord(
        cost=cost,
        scheduling=dict(scheduling),
        prefill_error=_typical(points, "prefill"),
        decode_error=_typical(points, "decode"),
        points=tuple(points),
    )


def least_squares(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> tuple[float, ...]:
    """Coefficients, none below zero, that make ``rows @ coefficients`` least wrong relative to ``seconds``.

    Raises:
        ValueError: fewer rows than coefficients, or a time that is not positive.
    """
    if not rows or len(rows) < len(rows[0]):
        raise ValueError(f"a fit needs at least as many points as coefficients, got {len(rows)}")
    if min(seconds) <= 0:
        raise ValueError(f"every time must be positive, got {min(seconds)}")
    matrix: NDArray[np.float64] = np.asarray(rows, dtype=np.float64)
    wanted: NDArray[np.float64] = np.asarray(seconds, dtype=np.float64)
    scale = wanted
    for _ in range(ROUNDS):
        found = _non_negative(matrix / scale[:, None], wanted / scale)
        scale = np.sqrt(wanted * np.maximum(matrix @ found, wanted * TINY))
    return tuple(float(value) for value in found)


def _non_negative(matrix: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least-squares solution among those without a negative coefficient."""
    # Columns differ by six orders of magnitude; scaled to the same length they lose no digits.
    lengths = np.linalg.norm(matrix, axis=0)
    lengths[lengths == 0] = 1.0
    matrix = matrix / lengths
    width = matrix.shape[1]
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
    points: list[dict[str, Any]] = [
        {
            "kind": "prefill",
            "prompts": len(point.shapes),
            "new": sum(new for new, _ in point.shapes),
            "cached": sum(cached for _, cached in point.shapes),
            "measured_s": point.seconds,
            "fitted_s": cost.prefill_s(point.shapes),
        }
        for point in prefill
    ]
    points += [
        {
            "kind": "decode",
            "sequences": point.sequences,
            "tokens": round(point.tokens / point.steps),
            "measured_s": point.seconds / point.steps,
            "fitted_s": cost.decode_s(point.sequences, point.tokens // point.steps),
        }
        for point in decode
    ]
    return points


def _typical(points: Sequence[Mapping[str, Any]], kind: str) -> float:
    return float(median(abs(p["fitted_s"] - p["measured_s"]) / p["measured_s"] for p in points if p["kind"] == kind))
