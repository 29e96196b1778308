"""One cell of the grid: a workload on an engine under an arm with a seed, and the record of how it came out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

import concur_agents
from benchmarks.lab.arms import parse_arms
from benchmarks.lab.batch import Batch
from benchmarks.lab.bounds import alone_s, lower_bound_s
from benchmarks.lab.engines import get_engine
from benchmarks.lab.simulate import Result, simulate
from benchmarks.lab.workloads import Workload, get_workload
from benchmarks.lab.workloads.trace import from_trace
from concur_agents.emulator import EngineConfig

__all__ = ["FORMAT", "Cell", "Key", "Record", "code_hash", "failed", "file_hash", "find_workload", "run_cell"]

FORMAT = 1
"""Of a record. A file of another format is refused, not guessed at."""

Key = tuple[str, str, str, int, int]
"""Workload, engine, arm, seed, agents: what makes two cells the same."""

ROOT = Path(__file__).resolve().parents[2]
LAB = Path(__file__).resolve().parent
_SHOWS = (
    "__main__.py",
    "cli.py",
    "goals.py",
    "grid.py",
    "pool.py",
    "progress.py",
    "rebound.py",
    "records.py",
    "report.py",
    "tables.py",
)
_OTHERS = ("dynamo", "paper", "real")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is to be run. Goes to a worker process as it is, so it holds names only."""

    workload: str
    engine: str
    arm: str
    seed: int
    agents: int
    trace: str | None = None
    """The file a workload from a user's own steps is read from; None for the lab's own."""

    @property
    def key(self) -> Key:
        """Says which cell it is, in a file of records too."""
        return (self.workload, self.engine, self.arm, self.seed, self.agents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of a file of records. Unknown is None, never 0; of a cell that failed all figures are unknown."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    format: int = FORMAT
    concur: str
    """Version of concur-agents, which the emulator is a part of."""
    code: str
    """What :func:`code_hash` said of the sources it was run with."""
    workload: str
    engine: str
    arm: str
    seed: int
    agents: int
    trace: str | None = None
    """Hash of the user's recording; None for the lab's own workloads."""
    steps: int | None = None
    """Steps of all agents."""
    makespan_s: float | None = None
    lower_bound_s: float | None = None
    """No scheduler can end this batch on this engine sooner."""
    hit_rate: float | None = None
    """Of all prompt tokens, the share found cached. 0..1."""
    prompt_tokens: int | None = None
    recomputed_tokens: int | None = None
    """Had been in their agent's context, and were computed again."""
    max_stretch: float | None = None
    """Of an agent: seconds from its arrival to its end, over the seconds it takes alone on the engine. >= 1."""
    mean_stretch: float | None = None
    lost: int | None = None
    """Agents that did not get through. They count for the makespan, and not for the stretch."""
    retractions: int | None = None
    evicted_tokens: int | None = None
    wall_s: float | None = None
    """Seconds it took to simulate. The only figure that is another one each time."""
    error: str | None = None
    """Type, message and place of what made the cell fail."""

    @property
    def key(self) -> Key:
        """As :attr:`Cell.key`."""
        return (self.workload, self.engine, self.arm, self.seed, self.agents)

    @property
    def batch(self) -> tuple[str, str, int, int]:
        """What all arms have in common that are to be compared: workload, engine, seed, agents."""
        return (self.workload, self.engine, self.seed, self.agents)


def run_cell(cell: Cell, code: str) -> Record:
    """Run one cell. Deterministic, but for ``wall_s``.

    Args:
        cell: which.
        code: of :func:`code_hash`, computed once for all cells.

    Raises:
        ValueError: a name in it is unknown.
    """
    began = time.perf_counter()
    engine, (arm,) = get_engine(cell.engine), parse_arms(cell.arm)
    batch = _batch(cell.workload, cell.trace, cell.seed, cell.agents)
    # Before the simulation, so that a mistake in them is seen at once and not after minutes.
    bound, alone = _bounds(cell.workload, cell.trace, cell.seed, cell.agents, cell.engine)
    result = simulate(batch, engine, arm)
    stretches = _stretches(result, alone)
    return Record(
        **_identity(cell, code),
        steps=sum(len(plan.steps) for plan in batch.plans),
        makespan_s=result.makespan_s,
        lower_bound_s=bound,
        hit_rate=result.hit_rate,
        prompt_tokens=sum(agent.prompt_tokens for agent in result.agents),
        recomputed_tokens=result.recomputed_tokens,
        max_stretch=max(stretches, default=None),
        mean_stretch=sum(stretches) / len(stretches) if stretches else None,
        lost=result.lost,
        retractions=result.retractions,
        evicted_tokens=result.evicted_tokens,
        wall_s=round(time.perf_counter() - began, 3),
    )


def failed(cell: Cell, code: str, error: str) -> Record:
    """The record of a cell that did not come to its end."""
    return Record(**_identity(cell, code), error=error)


def find_workload(name: str, trace: str | None) -> Workload:
    """The lab's workload of that name, or the one in a user's recording.

    Raises:
        ValueError: there is none; or the recording cannot be read.
    """
    return get_workload(name) if trace is None else _recorded(trace)


@cache
def file_hash(path: str) -> str:
    """Of a file's content, or of all files' in a folder: twelve hexadecimal digits."""
    top = Path(path)
    inside = sorted(one for one in top.rglob("*") if one.is_file()) if top.is_dir() else [top]
    return _digest((one.relative_to(top).as_posix(), one) for one in inside)


def code_hash() -> str:
    """Of the sources a cell's figures depend on: twelve hexadecimal digits.

    Those are all of ``concur_agents``, the arms shared with the SWE benchmark, and of the lab what is not only there
    to plan, show or store cells, nor one of its subcommands.
    """
    return _digest(sorted(_sources()))


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in files:
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def _sources() -> Iterator[tuple[str, Path]]:
    package = Path(concur_agents.__file__).resolve().parent
    for path in package.rglob("*.py"):
        yield f"concur_agents/{path.relative_to(package).as_posix()}", path
    for path in LAB.rglob("*.py"):
        inside = path.relative_to(LAB)
        if inside.as_posix() not in _SHOWS and inside.parts[0] not in _OTHERS:
            yield f"benchmarks/lab/{inside.as_posix()}", path
    for name in ("laws.py", "recorded.py"):
        yield f"benchmarks/{name}", LAB.parent / name


def _identity(cell: Cell, code: str) -> dict[str, Any]:
    given = asdict(cell)
    if cell.trace is not None:
        given["trace"] = file_hash(cell.trace)
    return given | {"concur": version("concur-agents"), "code": code}


@cache
def _recorded(trace: str) -> Workload:
    """Read once a process."""
    if not Path(trace).exists():
        raise ValueError(f"trace must be a file or folder of recorded sessions, got {trace!r}")
    return from_trace(trace)


@lru_cache(maxsize=2)  # a worker runs a batch's arms one after the other
def _batch(workload: str, trace: str | None, seed: int, agents: int) -> Batch:
    return find_workload(workload, trace).batch(seed, agents)


@lru_cache(maxsize=4)
def _bounds(
    workload: str, trace: str | None, seed: int, agents: int, engine: str
) -> tuple[float | None, dict[str, float] | None]:
    """The lower bound of the makespan, and each agent's seconds alone; None where none is known."""
    batch, found = _batch(workload, trace, seed, agents), get_engine(engine)
    if not isinstance(found.config, EngineConfig):
        return None, None  # the proof is about SGLang's scheduler
    alone = {plan.agent_id: alone_s(plan, found) for plan in batch.plans}
    return lower_bound_s(batch, found), alone


def _stretches(result: Result, alone: dict[str, float] | None) -> list[float]:
    if alone is None:
        return []
    return [(agent.ended_s - agent.arrived_s) / alone[agent.agent_id] for agent in result.agents if not agent.lost]
