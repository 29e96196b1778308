"""A run as Markdown, from its record: what README and docs show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.swebench.config import EMBEDDED, FRAMEWORKS
from benchmarks.swebench.report.notes import own_shares, paced_by_this_machine

__all__ = ["markdown"]


def markdown(summary: Mapping[str, Any]) -> str:
    """The Markdown of one record."""
    return "\n".join((*_rows(summary["arms"]), "", *(f"- {line}" for line in _lines(summary)))) + "\n"


def _rows(arms: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| arm | makespan s | speed-up | hit rate | recomputed tokens | resolved | lost |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, arm in arms.items():
        yield (
            f"| `{name}` | {arm['makespan_s']:.1f} | {_speedup(arm['speedup'])} | {arm['hit_rate']:.0%} "
            f"| {arm['recomputed_tokens']:,} | {arm['resolved']} of {arm['agents']} | {arm['lost']} |"
        )


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    config, arms = summary["config"], summary["arms"]
    first = arms.get("uncontrolled") or next(iter(arms.values()))
    framework = FRAMEWORKS[config.get("framework", "langgraph")]
    share = first["peak_context_tokens"] / first["capacity_tokens"]
    yield (
        f"{first['agents']} {framework} agents with a bash tool in {config.get('sandbox', 'bubblewrap')} sandboxes, "
        f"{len(summary['tasks'])} tasks built from PyPI, {first['steps']} generations; replies scripted "
        f"(seed {config['seed']}), commands and tests real."
    )
    yield (
        f"{_engine(config, first)}; at the peak the contexts would fill it {share:.1f} times. Makespan in wall seconds "
        f"on {summary['cpus']} cores."
    )
    yield from _scale(config)
    if config["repeats"] > 1:
        repeats = f"{config['repeats']} interleaved repeats"
        yield f"Medians of {repeats}; speed-up within each repeat: median (lowest..highest)."
    else:
        yield "One repeat: no spread is known."
    yield from _cores(arms, summary["cpus"])
    yield from (f"{line[0].upper()}{line[1:]}" for line in paced_by_this_machine(arms))


def _engine(config: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    if config["engine"] == EMBEDDED:
        return (
            f"Embedded engine, preset `{config['preset']}`, clock {config['speedup']:g}x, pool "
            f"{config['pool_tokens']:,} tokens"
        )
    return f"{first['repeats'][0]['engine']} on a CPU, pool {first['capacity_tokens']:,} tokens"


def _scale(config: Mapping[str, Any]) -> Iterator[str]:
    """What makes it last minutes and not hours."""
    if config["lengths"] != "short":
        return
    short = "Replies and contexts are about a fifth as long as in the real SWE-bench runs they are modelled on, so that"
    if characters := config.get("characters_per_token"):
        yield (
            f"{short} the whole takes minutes; and a token stands for {characters} characters, so that they fill this "
            "pool as real ones fill a card's. The engine computes and caches what it is sent, and says noise: a front "
            "(`benchmarks/front`) puts the script's words in its place."
        )
        return
    yield (
        f"{short} the whole takes minutes; tasks with slow tests or long fixes are left out (`--tasks all` takes them "
        "in). Lengths, pool and clock were chosen so that the engine, not this machine, sets the pace; other choices, "
        "such as long replies or a faster clock, show less or nothing."
    )


def _cores(arms: Mapping[str, Mapping[str, Any]], cores: int) -> Iterator[str]:
    """What the process of the agents took of the machine, where the record tells whose it was."""
    shares = [own for arm in arms.values() if len(own := own_shares(arm, cores)) > 1]
    if not shares:
        return
    parts = (
        f"{whose} {min(own[whose] for own in shares):.1%} to {max(own[whose] for own in shares):.1%}"
        for whose in shares[0]
    )
    yield f"Of the {cores} cores, beside the agents' commands: {', '.join(parts)}."


def _speedup(spread: Mapping[str, float] | None) -> str:
    return "?" if spread is None else f"{spread['median']:.2f} ({spread['min']:.2f}..{spread['max']:.2f})"
