"""What was measured: one JSON file, written anew after each run, and gone on with where it stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from benchmarks.lab.real.figures import NOISY
from benchmarks.lab.real.store import CaseLine

__all__ = ["Record", "Run", "Setting", "Share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one server did in a run, by its own counters."""

    prompt_tokens: float
    hit_tokens: float
    """Of these, found in its cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One arm with one repeat's agents."""

    arm: str
    repeat: int
    """From 1."""
    makespan_s: float
    hit_rate: float
    """Of all prompt tokens, the share that was cached, by the replies. 0..1."""
    recomputed_tokens: int
    """Had been in an agent's context, and were computed again."""
    lost: int
    """Agents that did not get through."""
    servers: tuple[Share, ...]
    front_cpu_s: float
    """CPU seconds of what stood before the servers."""
    others_cpu: float | None = None
    """Share of all cores that other programs used meanwhile; None when unknown. 0..1."""
    error: str | None = None
    """Of the first agent that was lost."""

    @property
    def counts(self) -> bool:
        """Whether nothing else kept the machine busy."""
        return (self.others_cpu or 0.0) <= NOISY


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What everything in the file was measured on."""

    workload: str
    seed: int
    """Of the first repeat's agents; each repeat has others, with the next seed."""
    engine: dict[str, Any]
    """Name with version, and what else it says of itself; the same for each server."""
    servers: int
    machine: dict[str, Any]

    def same(self, other: Setting) -> bool:
        """Whether runs of both may stand beside each other."""
        mine, others = ((each.workload, each.seed, each.engine, each.servers) for each in (self, other))
        return mine == others


@dataclass(slots=True, kw_only=True)
class Record:
    """All runs, and what they were run with."""

    setting: Setting | None = None
    cases: dict[int, CaseLine] = field(default_factory=dict)
    """The agents of each repeat."""
    runs: list[Run] = field(default_factory=list)

    @classmethod
    def of(cls, data: Any) -> Record:
        """What JSON has. Raises ValueError where it is something else."""
        try:
            return _RECORD.validate_python(data, strict=False)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"it is no record of this benchmark: {place}: {first['msg']}") from None

    @classmethod
    def load(cls, path: Path) -> Record:
        """A file's; an empty one where there is none yet. Raises ValueError or OSError."""
        return cls.of(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls()

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    def save(self, path: Path) -> None:
        """Write it whole, or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(self.data(), indent=1) + "\n", encoding="utf-8")
        part.replace(path)

    def begin(self, setting: Setting, cases: dict[int, CaseLine]) -> None:
        """Say what comes is measured on. Raises ValueError where other things are in it."""
        if self.setting is not None and not self.setting.same(setting):
            raise ValueError("it was measured on another workload, engine or seed, or on more servers or fewer")
        for repeat, case in cases.items():
            if asdict(self.cases.setdefault(repeat, case)) != asdict(case):
                raise ValueError(f"it has repeat {repeat} with other agents")
        if self.setting is None:
            self.setting = setting

    def has(self, arm: str, repeat: int) -> bool:
        """Whether that run is there, and counts: one that was disturbed is to be run again."""
        return any((run.arm, run.repeat) == (arm, repeat) and run.counts for run in self.runs)

    def add(self, run: Run) -> None:
        """Keep a run, in place of one that was disturbed."""
        self.runs = [other for other in self.runs if (other.arm, other.repeat) != (run.arm, run.repeat)]
        self.runs.append(run)


_RECORD = TypeAdapter(Record)
