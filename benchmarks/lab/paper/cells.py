"""Runs one cell of the paper's tables. Beside the lab's arms there is ``link:GB/S``: HiCache over a slower link."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from benchmarks.lab.arms import Arm, parse_arms
from benchmarks.lab.batch import Batch
from benchmarks.lab.cells import Cell, Record, code_hash
from benchmarks.lab.engines import Engine, get_engine, with_host_cache
from benchmarks.lab.paper.workload import paper_workload
from benchmarks.lab.simulate import simulate

__all__ = ["make_arm", "make_batch", "paper_code", "run_paper_cell"]

_SOURCES = ("cells.py", "trace.py", "watch.py", "workload.py")


def run_paper_cell(cell: Cell, code: str) -> Record:
    """Run one cell. Deterministic, but for ``wall_s``. No bounds are computed here, nor stretches.

    Args:
        cell: which.
        code: of :func:`paper_code`.

    Raises:
        ValueError: a name in it is unknown.
    """
    began = time.perf_counter()
    batch = make_batch(cell.workload, cell.seed, cell.agents)
    result = simulate(batch, get_engine(cell.engine), make_arm(cell.arm))
    return Record(
        concur=version("concur-agents"),
        code=code,
        workload=cell.workload,
        engine=cell.engine,
        arm=cell.arm,
        seed=cell.seed,
        agents=cell.agents,
        steps=sum(len(plan.steps) for plan in batch.plans),
        makespan_s=round(result.makespan_s, 2),
        hit_rate=round(result.hit_rate, 4),
        recomputed_tokens=result.recomputed_tokens,
        lost=result.lost,
        retractions=result.retractions,
        wall_s=round(time.perf_counter() - began, 2),
    )


def make_arm(name: str) -> Arm:
    """One of the lab's, or ``link:4``: HiCache with 4 GB/s from host memory to each card and back.

    Raises:
        ValueError: there is none of that name.
    """
    kind, _, argument = name.partition(":")
    if kind != "link":
        return parse_arms(name)[0]
    try:
        gigabytes = float(argument)
        if not 0 < gigabytes < float("inf"):
            raise ValueError
    except ValueError:
        raise ValueError(f"arm {name!r} needs GB/s above 0, as in link:4") from None

    def flags(engine: Engine) -> Engine:
        seconds = engine.cost.token_link_bytes / (gigabytes * 1e9)
        cost = replace(engine.cost, load_token_s=seconds, backup_token_s=seconds)
        return replace(with_host_cache(engine), cost=cost)

    return Arm(name, parse_arms("uncontrolled")[0].gate, flags)


@lru_cache(maxsize=2)  # cells of one batch come one after the other
def make_batch(workload: str, seed: int, agents: int) -> Batch:
    """The agents of a cell."""
    return paper_workload(workload).batch(seed, agents)


def paper_code() -> str:
    """Of the sources that figures depend on: the lab's, and of this package what runs cells. Twelve digits."""
    digest = hashlib.sha256(code_hash().encode())
    for name in _SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()[:12]
