"""What a run leaves: one JSON file with every figure and what it was measured on, and no name of a machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

__all__ = ["AgentRecord", "BatchRecord", "FitRecord", "Record", "RunRecord", "WindowRecord"]

_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """One agent in one run. Times are engine seconds from the run's start."""

    agent_id: str
    steps: int
    """Generations that were answered."""
    ended_s: float
    wait_s: float
    """Waiting for a seat, over its whole life."""
    prompt_tokens: int
    cached_tokens: int | None
    """None when no reply told."""
    output_tokens: int
    recomputed_tokens: int | None
    """Tokens that were in its context before a step and were not cached any more; None as above."""
    error: str | None = None
    """What ended it before its time; None when it completed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRecord:
    """One change of the window, and what it was decided on."""

    at_s: float
    window: float | None
    """Agents; None is no limit."""
    reason: str
    pinned_usage: float | None = None
    occupied_usage: float | None = None
    hit_rate: float | None = None
    reuse: float | None = None
    seated: int | None = None
    waiting: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """What one run of the batch came to."""

    makespan_s: float
    agents: tuple[AgentRecord, ...]
    window: tuple[WindowRecord, ...] = ()
    readings: int = 0
    """Times the controller read the engine."""
    missed: int = 0
    """How many of them failed."""

    @property
    def lost(self) -> int:
        """Agents that did not complete."""
        return sum(agent.error is not None for agent in self.agents)

    @property
    def prompt_tokens(self) -> int:
        """Of all agents."""
        return sum(agent.prompt_tokens for agent in self.agents)

    @property
    def output_tokens(self) -> int:
        """Of all agents."""
        return sum(agent.output_tokens for agent in self.agents)

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens that were cached; None when no reply told. 0..1."""
        told = [agent for agent in self.agents if agent.cached_tokens is not None]
        asked = sum(agent.prompt_tokens for agent in told)
        return sum(agent.cached_tokens or 0 for agent in told) / asked if asked else None

    @property
    def recomputed_tokens(self) -> int | None:
        """Of all agents; None when no reply told."""
        told = [agent.recomputed_tokens for agent in self.agents if agent.recomputed_tokens is not None]
        return sum(told) if told else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One arm in one repeat."""

    arm: str
    repeat: int
    """From 1."""
    batch: BatchRecord
    others_cpu: float | None = None
    """Share of all cores that programs other than benchmark and engine used meanwhile; None when unknown. 0..1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRecord:
    """A cost model fitted to the engine, and how well it fits."""

    cost: dict[str, Any]
    """Fields of the emulator's ``CostModel``."""
    scheduling: dict[str, Any]
    """Of the engine it was fitted to."""
    prefill_error: float
    """Median of abs(fitted - measured) / measured over the prefill points."""
    decode_error: float
    """The same over the decode points."""
    points: tuple[dict[str, Any], ...] = ()
    """What was measured, and what the model says instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The whole benchmark."""

    __pydantic_config__: ClassVar = _STRICT

    started: str
    """UTC, ISO 8601."""
    engine: dict[str, Any]
    machine: dict[str, Any]
    workload: dict[str, Any]
    """The ``Workload``'s fields, and what its agents come to."""
    tick_s: float
    arms: tuple[str, ...]
    repeats: int
    runs: tuple[RunRecord, ...] = ()
    fit: FitRecord | None = None
    predicted: tuple[RunRecord, ...] = ()
    """The same arms on the emulator with the fitted cost model."""
    prediction: dict[str, Any] = field(default_factory=dict)
    """How the emulator ran: its speed-up."""

    @property
    def complete(self) -> bool:
        """Whether every arm ran as often as it should."""
        return len(self.runs) == len(self.arms) * self.repeats

    def of(self, arm: str) -> tuple[RunRecord, ...]:
        """The runs of one arm, by repeat."""
        return tuple(run for run in self.runs if run.arm == arm)

    def with_run(self, run: RunRecord) -> Record:
        """A record with one more run."""
        return replace(self, runs=(*self.runs, run))

    def save(self, path: Path) -> None:
        """Write the file as a whole: whoever reads it meanwhile sees the old one or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(_rounded(asdict(self)), indent=1) + "\n", encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what :meth:`save` wrote.

        Raises:
            ValueError: it is no such file; says what is wrong with it.
            OSError: it cannot be read.
        """
        try:
            return _RECORD.validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ValueError(f"{path} is no record of this benchmark: {place}: {first['msg']}") from None


_RECORD = TypeAdapter(Record)


def _rounded(value: Any) -> Any:
    """Six significant digits: more says nothing, and makes the file hard to read."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
