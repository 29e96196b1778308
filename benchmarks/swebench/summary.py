"""The figures of a run, from its records alone; so they can be made again at any time.

Tokens are those the replies reported (``usage``), not the engine's own counters. Where an arm ran several times its
figures are medians, ratios are taken within a repeat (the arms of one repeat ran under the same conditions), and lost
and resolved are the worst of all repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import AgentRecord, RunFolder

__all__ = ["ArmFigures", "Spread", "figures_of", "peak_context", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """One arm in one repeat."""

    makespan_s: float | None
    """Wall seconds from the start of the batch to the end of its last agent; None when no agent ended."""
    hit_rate: float | None
    """Share of all prompt tokens that replies reported as cached. 0..1."""
    recomputed_tokens: int | None
    """Tokens that were in an agent's context already and had to be prefilled again."""
    agents: int
    """Agents in the batch."""
    lost: int
    """Agents without a record of their end, or ended because of Concur."""
    resolved: int
    """Agents whose task's tests pass."""
    failed: int
    """Agents that ended with an error."""
    cancelled: int
    """Agents that were ended from outside, as by Ctrl-C."""
    steps: int
    prompt_tokens: int
    cached_tokens: int | None
    """Of the prompt tokens, as far as replies reported."""
    output_tokens: int
    wait_s: float
    """Waiting for seats, all agents added up."""
    generation_s: float
    """From a request to its reply, all agents added up: in the engine, and in a proxy before it."""
    tool_s: float
    """In tools, all agents added up."""
    peak_context_tokens: int
    """Most tokens that agents begun and not ended had in context at one moment: what a pool would have to hold."""
    complete: bool
    """Whether the arm got to its end; when not, its figures are of what there is."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Agents that ended with an error, by its type."""
    resumed: bool = False
    """Whether it was interrupted and went on later: then its makespan compares with nothing."""
    capacity_tokens: int | None = None
    """The engine's KV pool."""
    harness_cpu_s: float | None = None
    """CPU seconds of the process that runs the agents: harness, frameworks and Concur."""
    framework_cpu_s: float | None = None
    """Of these, the agents' framework's and its clients'."""
    concur_cpu_s: float | None = None
    """And Concur's."""
    engine_cpu_s: float | None = None
    """CPU seconds of the embedded engine's process."""
    machine_busy: float | None = None
    """Share of all cores' time that was busy, whoever with. 0..1."""
    latency: Mapping[str, float] | None = None
    """Engine seconds of all requests together: ``queue_s``, ``prefill_s``, ``decode_s``."""
    engine: str | None = None
    """Its name and version."""
    engine_flags: Sequence[str] | None = None
    """Of a server that was started for the arm."""


_CLOSING = (
    *("capacity_tokens", "harness_cpu_s", "framework_cpu_s", "concur_cpu_s", "engine_cpu_s", "machine_busy"),
    *("latency", "engine", "engine_flags"),
)
_OF_A_RUN = frozenset({"latency", "engine", "engine_flags", "failures"})
"""What has no median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A ratio over the repeats."""

    median: float
    min: float
    max: float


def figures_of(records: Sequence[AgentRecord], *, expected: int, closing: Mapping[str, Any] | None) -> ArmFigures:
    """The figures of one arm.

    Args:
        records: of the agents that ended.
        expected: agents in the batch.
        closing: what the arm noted at its end; None when it did not get there.
    """
    steps = [step for record in records for step in record.steps]
    reported = [
        (step.cached_tokens, step.prompt_tokens)
        for step in steps
        if step.cached_tokens is not None and step.prompt_tokens is not None
    ]
    asked = sum(prompt for _, prompt in reported)
    recomputed = [tokens for record in records if (tokens := record.recomputed_tokens) is not None]
    return ArmFigures(
        makespan_s=max((record.ended_s for record in records), default=None),
        hit_rate=sum(cached for cached, _ in reported) / asked if asked else None,
        recomputed_tokens=sum(recomputed) if recomputed else None,
        agents=expected,
        lost=max(0, expected - len(records)) + sum(record.by_concur for record in records),
        resolved=sum(record.resolved is True for record in records),
        failed=sum(record.outcome == "failed" for record in records),
        failures=_failures(records),
        cancelled=sum(record.outcome == "cancelled" for record in records),
        steps=len(steps),
        prompt_tokens=sum(step.prompt_tokens or 0 for step in steps),
        cached_tokens=sum(cached for cached, _ in reported) if reported else None,
        output_tokens=sum(step.output_tokens or 0 for step in steps),
        wait_s=sum(record.wait_s for record in records),
        generation_s=sum(step.generation_s or 0.0 for step in steps),
        tool_s=sum(step.tool_s or 0.0 for step in steps),
        peak_context_tokens=peak_context(records),
        complete=closing is not None and closing.get("judged", True),
        resumed=bool((closing or {}).get("resumed")),
        **{name: (closing or {}).get(name) for name in _CLOSING},
    )


def _failures(records: Sequence[AgentRecord]) -> dict[str, int]:
    kinds = Counter((record.error or "?").partition(":")[0] for record in records if record.outcome == "failed")
    return dict(sorted(kinds.items()))


def peak_context(records: Sequence[AgentRecord]) -> int:
    """Largest sum, over time, of the contexts of agents that had begun generating and not ended."""
    changes: list[tuple[float, int]] = []
    for record in records:
        context = 0
        for step in record.steps:
            if step.context_tokens is None:
                continue
            done = step.started_s + (step.wait_s or 0.0) + (step.generation_s or 0.0)
            changes.append((done, step.context_tokens - context))
            context = step.context_tokens
        changes.append((record.ended_s, -context))
    total = peak = 0
    for _, change in sorted(changes):
        total += change
        peak = max(peak, total)
    return peak


def summarise(folder: RunFolder) -> dict[str, Any]:
    """What goes into ``summary.json``: every arm's figures, and what they were measured on.

    Raises:
        RecordError: the folder or a file in it is not what a run writes.
        ValueError: its config is of another version.
    """
    about = folder.about()
    config = RunConfig.from_json(about["config"])
    runs = {name: _repeats(folder, config, name) for name in config.arms}
    baseline = runs.get("uncontrolled", {})
    return {
        "arms": {name: _merged(repeats, _speedups(repeats, baseline)) for name, repeats in runs.items() if repeats},
        "complete": all(
            len(repeats) == config.repeats and all(run.complete for run in repeats.values())
            for repeats in runs.values()
        ),
        "same_resolved": _same_resolved(folder, runs),
        **about,
    }


def _repeats(folder: RunFolder, config: RunConfig, name: str) -> dict[int, ArmFigures]:
    found = {}
    for repeat in range(1, config.repeats + 1):
        arm = folder.arm(name, repeat)
        if arm.path.exists():
            found[repeat] = figures_of(arm.agents(), expected=config.agents, closing=arm.closing())
    return found


def _speedups(repeats: Mapping[int, ArmFigures], baseline: Mapping[int, ArmFigures]) -> Spread | None:
    """Of an arm over the uncontrolled one in the same repeat; only runs that were complete at once compare."""
    ratios = [
        base.makespan_s / run.makespan_s
        for repeat, run in repeats.items()
        if (base := baseline.get(repeat)) and _compares(base) and _compares(run) and base.makespan_s and run.makespan_s
    ]
    return Spread(median=median(ratios), min=min(ratios), max=max(ratios)) if ratios else None


def _compares(run: ArmFigures) -> bool:
    return run.complete and not run.resumed


def _merged(repeats: Mapping[int, ArmFigures], speedup: Spread | None) -> dict[str, Any]:
    runs = list(repeats.values())
    worst = {"lost": max, "resolved": min, "complete": min, "resumed": max, "failed": max, "cancelled": max}
    merged: dict[str, Any] = {}
    for name in (name for name in asdict(runs[0]) if name not in _OF_A_RUN):
        values = [value for run in runs if (value := getattr(run, name)) is not None]
        whole = all(isinstance(value, int) for value in values)
        pick = worst.get(name, _median_int if whole else median)
        merged[name] = pick(values) if values else None
    merged["speedup"] = asdict(speedup) if speedup else None
    merged["repeats"] = [asdict(run) for run in runs]
    return merged


def _median_int(values: Sequence[int]) -> int:
    return round(median(values))


def _same_resolved(folder: RunFolder, runs: Mapping[str, Mapping[int, ArmFigures]]) -> bool | None:
    """Whether every complete run resolved the same agents' tasks; None when fewer than two can be compared."""
    resolved = [
        frozenset(record.agent_id for record in folder.arm(name, repeat).agents() if record.resolved)
        for name, repeats in runs.items()
        for repeat, run in repeats.items()
        if run.complete
    ]
    return len(set(resolved)) == 1 if len(resolved) > 1 else None
