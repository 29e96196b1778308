"""Which cells are compared, and what is kept of each."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.lab.batch import Batch
from benchmarks.lab.dynamo.install import versions
from benchmarks.lab.dynamo.ours import UNCHUNKED, Side, run, side
from benchmarks.lab.dynamo.replay import engine_args, replay
from benchmarks.lab.workloads import get_workload

__all__ = ["GROUPS", "Cell", "compare", "compare_all", "what_if"]

SGLANG, VLLM = "qwen3-32b-tp2", "vllm-qwen3-32b-tp2"
WORKLOADS = {"swe": 16, "react-10": 48, "mixed": 24, "no-shared-prefix": 16, "distill": 48}
"""Agents of each: a few hundred to some thousand steps. Those left out cannot be said in Dynamo's format: waves
(``rl-waves``), arrivals (``arrivals``), contexts that shrink (``coding-sessions``)."""
SHARES = (1.1, 0.5, 0.25)
"""Pool, as a share of what all contexts hold at their longest: everything fits, half of it, a quarter."""
PARTS = (4, 2, 1)
"""Caps: so many-th part of the agents; all of them is no cap."""
WORTH_ASKING = 0.003
"""A difference of makespans beyond which the cell is also run with Dynamo's rules."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison."""

    engine: str
    workload: str
    agents: int
    share: float
    """Pool, as a share of what all contexts hold at their longest."""
    cap: int
    chunk: int = UNCHUNKED
    """SGLang's ``chunked_prefill_size``, tokens."""
    shared: bool = True
    """Whether prefixes are shared as in the workload, or by nobody."""
    seed: int = 0

    def batch(self) -> Batch:
        """What its agents do."""
        batch = get_workload(self.workload).batch(self.seed, self.agents)
        return batch if self.shared else Batch.of([replace(plan, prefix_tokens=0) for plan in batch.plans])


CELLS: Sequence[Cell] = tuple(
    Cell(engine, workload, agents, share, agents // part)
    for engine in (SGLANG, VLLM)
    for workload, agents in WORKLOADS.items()
    for share in SHARES
    for part in PARTS
)
CHUNKED: Sequence[Cell] = tuple(
    Cell(SGLANG, workload, WORKLOADS[workload], 1.1, WORKLOADS[workload], chunk)
    for workload in ("swe", "react-10")
    for chunk in (UNCHUNKED, 8192)
)
"""With chunks as SGLang cuts them on a large card, and everything fitting: see the README."""
UNSHARED: Sequence[Cell] = tuple(
    Cell(VLLM, "react-10", agents, 1.1, agents // part, shared=shared)
    for agents in (WORKLOADS["react-10"],)
    for part in PARTS
    for shared in (True, False)
)
"""vLLM's kind with and without a shared prefix: see the README."""
GROUPS: Mapping[str, Sequence[Cell]] = MappingProxyType({"cells": CELLS, "chunked": CHUNKED, "unshared": UNSHARED})
"""By their names in the record."""


def compare(cell: Cell, python: Path) -> dict[str, Any]:
    """Run a cell on both sides.

    Args:
        cell: which.
        python: interpreter of Dynamo's environment.

    Raises:
        ValueError: Dynamo's trace cannot say the batch.
        DynamoError: the replay failed.
    """
    batch = cell.batch()
    longest = [plan.longest for plan in batch.plans]
    # Whoever is alone has to fit, with room for what he generates.
    pool = max(int(cell.share * sum(longest)), max(longest) * 5 // 4)
    our = side(cell.engine, pool, chunk=cell.chunk)
    args = engine_args(our.kind, pool=our.pool, page=our.page, batched=our.batched, running=our.running)
    result = run(batch, our, cap=cell.cap)
    theirs = replay(python, batch, args, our.timing, cap=cell.cap, spare=our.spare)
    record = {
        **asdict(cell),
        "pool_tokens": our.pool,
        "steps": sum(agent.steps for agent in result.agents),
        "lost": result.lost,
        "retractions": result.retractions,
        "makespan_s": round(result.makespan_s, 3),
        "hit_rate": round(result.hit_rate, 5),
        "dynamo_makespan_s": round(theirs.makespan_s, 3),
        "dynamo_hit_rate": round(theirs.hit_rate, 5),
    }
    if our.spare:
        whole = replay(python, batch, args, our.timing, cap=cell.cap, spare=0)
        record["dynamo_unspared_makespan_s"] = round(whole.makespan_s, 3)
    if our.kind == "sglang" and cell.chunk == UNCHUNKED and _differ(result.makespan_s, theirs.makespan_s):
        record |= what_if(cell, batch, our)
    return record


def compare_all(
    chosen: Callable[[Cell], bool], python: Path, tell: Callable[[Cell, dict[str, Any]], None]
) -> dict[str, Any]:
    """The record of all chosen cells.

    Args:
        chosen: which.
        python: interpreter of Dynamo's environment.
        tell: told of each when it is done.
    """

    def each(group: Sequence[Cell]) -> Iterator[dict[str, Any]]:
        for cell in filter(chosen, group):
            record = compare(cell, python)
            tell(cell, record)
            yield record

    groups = {name: list(each(group)) for name, group in GROUPS.items()}
    return {"versions": {**versions(), "python": platform.python_version()}, **groups}


def _differ(ours: float, theirs: float) -> bool:
    return abs(ours / theirs - 1) > WORTH_ASKING


def what_if(cell: Cell, batch: Batch, our: Side) -> dict[str, Any]:
    """How the emulator comes out with Dynamo's rules."""
    result = run(batch, our, cap=cell.cap, as_dynamo=True)
    return {
        "with_dynamos_rules_makespan_s": round(result.makespan_s, 3),
        "with_dynamos_rules_hit_rate": round(result.hit_rate, 5),
    }
