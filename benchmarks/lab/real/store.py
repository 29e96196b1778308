"""What was measured and what was predicted: JSON lines, one object each, small enough to be kept in a repository."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

__all__ = ["CaseLine", "Head", "Run", "Store", "Sweep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What everything in the file was measured on."""

    started: str
    """UTC, ISO 8601."""
    engine: dict[str, Any]
    """Name with version, scheduling, flags and the model's shape."""
    machine: dict[str, Any]
    tick_s: float
    """Engine seconds between two ticks."""
    seed: int
    """Of the first repeat's batches; each repeat has other ones, with the next seed."""
    kind: Literal["head"] = "head"

    def same(self, other: Head) -> bool:
        """Whether runs of both may stand beside each other."""
        mine, others = ((head.engine, head.tick_s, head.seed) for head in (self, other))
        return mine == others


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseLine:
    """A workload as it was run in one repeat."""

    workload: str
    repeat: int
    """From 1."""
    scale: dict[str, float]
    """Fields of its ``Scale``."""
    agents: int
    steps: int
    prompt_tokens: int
    """Sum over all steps; so are the outputs."""
    output_tokens: int
    final_tokens: int
    """Sum of all agents' longest contexts."""
    tool_s: float
    """Sum of all seconds in tools."""
    kind: Literal["case"] = "case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One calibration of the engine."""

    prefill: tuple[tuple[tuple[tuple[int, int], ...], float], ...]
    """(New and cached tokens of each prompt, seconds) of single passes."""
    decode: tuple[tuple[int, int, int, float], ...]
    """(Sequences, steps, tokens held summed over the steps, seconds)."""
    kind: Literal["sweep"] = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One arm on one workload; on the emulator in virtual time if it is a prediction."""

    workload: str
    arm: str
    repeat: int
    """From 1. All arms of a repeat have the same batch."""
    makespan_s: float
    hit_rate: float
    """Of all prompt tokens, the share that was cached. 0..1."""
    recomputed_tokens: int
    """Had been in an agent's context, and were computed again."""
    lost: int
    """Agents that did not get through."""
    ended_s: tuple[float, ...] = ()
    """When each agent ended, in the batch's order."""
    others_cpu: float | None = None
    """Share of all cores that other programs used meanwhile; None when unknown. 0..1."""
    readings: int = 0
    """Times the engine's metrics were read, and how many of them failed."""
    missed: int = 0
    error: str | None = None
    """Of the first agent that was lost."""
    kind: Literal["run", "prediction"] = "run"


_Line = Annotated[Head | CaseLine | Sweep | Run, Field(discriminator="kind")]
_LINE: TypeAdapter[Head | CaseLine | Sweep | Run] = TypeAdapter(_Line)


@dataclass(slots=True)
class Store:
    """One file, and what is in it.

    Args:
        path: the file. Written anew as a whole after each change, so an interrupt loses one run at most.
    """

    path: Path
    head: Head | None = None
    cases: dict[tuple[str, int], CaseLine] = field(default_factory=dict)
    """By workload and repeat."""
    sweeps: list[Sweep] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    predictions: list[Run] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Store:
        """What the file has; an empty store where there is none yet.

        Raises:
            ValueError: a line is not of this benchmark; names it.
            OSError: it cannot be read.
        """
        store = cls(path)
        if not path.exists():
            return store
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                store._take(_LINE.validate_json(text))
            except ValidationError as error:
                raise ValueError(
                    f"{path}, line {number}, is not of this benchmark: {error.errors()[0]['msg']}"
                ) from None
        return store

    def begin(self, head: Head) -> None:
        """Say what comes is measured on. Raises ValueError where the file has other things in it."""
        if self.head is None:
            self.head = head
            self._save()
        elif not self.head.same(head):
            raise ValueError(f"{self.path} was measured on another engine, tick or seed: name another file")

    def begin_case(self, case: CaseLine) -> None:
        """Say what a workload is. Raises ValueError where the file has it with other lengths."""
        known = self.cases.get((case.workload, case.repeat))
        if known is None:
            self.cases[case.workload, case.repeat] = case
            self._save()
        elif _rounded(asdict(known)) != _rounded(asdict(case)):
            raise ValueError(f"{self.path} has {case.workload} with other lengths: name another file")

    def has(self, workload: str, arm: str, repeat: int) -> bool:
        """Whether that run is there."""
        return any((run.workload, run.arm, run.repeat) == (workload, arm, repeat) for run in self.runs)

    def add(self, line: Sweep | Run) -> None:
        """Keep a measurement."""
        self._take(line)
        self._save()

    def predicted(self, runs: Iterable[Run]) -> None:
        """Keep predictions, in place of those that are there."""
        self.predictions = list(runs)
        self._save()

    def _take(self, line: Head | CaseLine | Sweep | Run) -> None:
        if isinstance(line, Head):
            self.head = line
        elif isinstance(line, CaseLine):
            self.cases[line.workload, line.repeat] = line
        elif isinstance(line, Sweep):
            self.sweeps.append(line)
        else:
            (self.runs if line.kind == "run" else self.predictions).append(line)

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = [] if self.head is None else [self.head]
        lines: list[Head | CaseLine | Sweep | Run] = [
            *head,
            *self.cases.values(),
            *self.sweeps,
            *self.runs,
            *self.predictions,
        ]
        part = self.path.with_name(self.path.name + ".part")
        part.write_text(
            "".join(json.dumps(_rounded(asdict(line)), separators=(",", ":")) + "\n" for line in lines),
            encoding="utf-8",
        )
        part.replace(self.path)


def _rounded(value: Any) -> Any:
    """Five significant digits: more says nothing."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
