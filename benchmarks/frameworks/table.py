"""The record as a Markdown table, with what it was measured on, and whether the frameworks agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.swebench.config import EMBEDDED
from benchmarks.swebench.report import BUSY_MACHINE

__all__ = ["SAME", "markdown"]

SAME = 0.05
"""Ratios of two frameworks that are no further apart count as the same."""


def markdown(record: Mapping[str, Any]) -> str:
    """Table and notes, without a newline at the end."""
    return "\n".join(_lines(record))


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield "| framework | arm | makespan s | speed-up | hit rate | mean prompt | resolved | lost |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for framework in record["frameworks"].values():
        for name, arm in framework["arms"].items():
            yield (
                f"| {framework['title']} | `{name}` | {arm['makespan_s']:.1f} | {_ratio(arm['ratio'])} "
                f"| {arm['hit_rate']:.0%} | {arm['mean_prompt_tokens']:,.0f} | {arm['resolved']} of {arm['agents']} "
                f"| {arm['lost']} |"
            )
    yield ""
    for name, apart in record["ratios_apart"].items():
        agree = "within" if apart <= SAME else "**not** within"
        yield f"- `{name}`: the frameworks' speed-ups are {agree} {SAME:.0%} of each other ({apart:.1%} apart)."
    yield f"- {_work(record)}"
    yield f"- {_engine(record)}"
    yield f"- {_versions(record)}"
    firsts = [
        (framework["title"], next(iter(framework["arms"].values()))) for framework in record["frameworks"].values()
    ]
    cpu = ", ".join(f"{title} {arm['cpu_ms_per_step']:.0f}" for title, arm in firsts)
    yield f"- CPU of the agents' process, in milliseconds a step: {cpu}."
    if busy := sorted({title for title, arm in _arms(record) if arm["machine_busy"] > BUSY_MACHINE}):
        yield (
            f"- **Doubtful**: this machine's cores were over {BUSY_MACHINE:.0%} busy ({', '.join(busy)}), and may have "
            "set the pace instead of the engine."
        )
    repeats = "One repeat" if record["repeats"] == 1 else f"Medians of {record['repeats']} repeats"
    yield (
        f"- {repeats}, in which the frameworks took turns; speed-up within each run of a framework: median "
        "(lowest..highest)."
    )


def _arms(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for framework in record["frameworks"].values():
        yield from ((framework["title"], arm) for arm in framework["arms"].values())


def _ratio(spread: Mapping[str, float] | None) -> str:
    return "?" if spread is None else f"{spread['median']:.2f} ({spread['min']:.2f}..{spread['max']:.2f})"


def _work(record: Mapping[str, Any]) -> str:
    arm = next(iter(next(iter(record["frameworks"].values()))["arms"].values()))
    return (
        f"The same {arm['agents']} agents in each: {len(record['tasks'])} tasks built from PyPI, {arm['steps']} "
        f"generations, bash in bubblewrap sandboxes, replies scripted (seed {record['config']['seed']}). A task's mean "
        f"prompt is at most {record['prompts_apart']:.1%} longer in one framework than in another."
    )


def _engine(record: Mapping[str, Any]) -> str:
    config = record["config"]
    if config["engine"] != EMBEDDED:
        return "Engine: one that was running already. Makespan in wall seconds."
    return (
        f"Embedded engine, preset `{config['preset']}`, clock {config['speedup']:g}x, pool {config['pool_tokens']:,} "
        f"tokens. Makespan in wall seconds on {record['cpus']} cores."
    )


def _versions(record: Mapping[str, Any]) -> str:
    shown = []
    for framework in record["frameworks"].values():
        versions = framework["versions"]
        names = [name for name in versions if name != "python" and not name.startswith("concur-agents")]
        shown.append(f"{framework['title']}: " + ", ".join(f"{name} {versions[name]}" for name in names))
    return "; ".join(shown) + "."
