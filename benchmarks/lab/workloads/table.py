"""What the workloads are, measured: one row each, for the page beside this file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from benchmarks.lab.batch import Plan
from benchmarks.lab.workloads.base import Workload
from benchmarks.lab.workloads.registry import WORKLOADS

__all__ = ["PAGE", "filled", "table"]

PAGE = Path(__file__).parent / "README.md"
SEEDS = 3
"""Batches that a row is measured on, together."""
_MARKED = re.compile(r"(<!-- workloads -->\n).*?(<!-- /workloads -->)", re.DOTALL)
_COLUMNS = ("agents", "steps", "first prompt", "longest context", "output", "added", "tool s", "shared prefix")
_HEAD = (f"| workload | {' | '.join(_COLUMNS)} | numbers from |", f"|---|{'---:|' * len(_COLUMNS)}---|")


def table(workloads: Iterable[Workload] | None = None) -> str:
    """Markdown, a row for each workload at its default number of agents; all of them unless told otherwise."""
    chosen = WORKLOADS.values() if workloads is None else workloads
    return "\n".join([*_HEAD, *(_row(workload) for workload in chosen)]) + "\n"


def filled(page: str) -> str:
    """``page`` with its marked table made anew."""
    return _MARKED.sub(lambda match: f"{match[1]}\n{table()}\n{match[2]}", page)


@cache
def _row(workload: Workload) -> str:
    plans = [plan for seed in range(SEEDS) for plan in workload.batch(seed).plans]
    steps = [step for plan in plans for step in plan.steps]
    cells = (
        f"`{workload.name}`",
        f"{workload.agents:,}",
        _three([len(plan.steps) for plan in plans]),
        _three([plan.steps[0].prompt for plan in plans]),
        _three([plan.longest for plan in plans]),
        _three([step.output for step in steps]),
        _three(_added(plans) or [0]),
        _seconds([step.tool_s for step in steps]),
        _three([plan.prefix_tokens for plan in plans]),
        workload.source,
    )
    return f"| {' | '.join(cells)} |"


def _added(plans: Sequence[Plan]) -> list[int]:
    pairs = (pair for plan in plans for pair in pairwise(plan.steps))
    return [after.prompt - before.prompt - before.output for before, after in pairs]


def _at(values: Sequence[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


def _three(values: Sequence[int]) -> str:
    low, middle, high = (_at(values, share) for share in (0.1, 0.5, 0.9))
    return f"{middle:,}" if low == high else f"{low:,} / {middle:,} / {high:,}"


def _seconds(values: Sequence[float]) -> str:
    return " / ".join(f"{_at(values, share):.2g}" for share in (0.1, 0.5, 0.9)) + f", {max(values):.0f}"
