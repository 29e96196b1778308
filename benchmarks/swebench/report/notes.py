"""What has to be said beside the figures: what ran, on what, and what may have spoiled them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.swebench.config import EMBEDDED, FRAMEWORKS, LAUNCH

__all__ = ["BUSY_MACHINE", "notes", "own_shares", "paced_by_this_machine"]

BUSY_CORE = 0.8
"""Share of one core: an event loop above it makes its agents wait for each other."""
BUSY_MACHINE = 0.9
"""Share of all cores: above it harness, commands, engine and whatever else runs wait for each other."""


def notes(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each with a style of rich's."""
    config, arms = summary["config"], summary["arms"]
    if not arms:
        yield "No arm has begun: there is nothing to report.", "yellow"
        return
    yield _workload(summary), "dim"
    yield _engine(summary), "dim"
    if costs := _costs(summary):
        yield costs, "dim"
    if config["repeats"] > 1:
        yield f"Medians of {config['repeats']} interleaved repeats; speed-up: median, and lowest..highest.", "dim"
    for name, arm in arms.items():
        if arm["failed"]:
            agents = "1 agent" if arm["failed"] == 1 else f"{arm['failed']} agents"
            yield f"{name}: {agents} failed{_kinds(arm)}; the records say why.", "yellow"
    for said in paced_by_this_machine(arms):
        yield said, "yellow"
    if not summary["complete"]:
        yield "The run was interrupted: interrupted arms show what there is, and nothing is compared to them.", "yellow"
    if any(arm.get("resumed") for arm in arms.values()):
        yield (
            "Resumed arms went on after an interruption: who ended before did not run again, and no time compares.",
            "yellow",
        )
    if summary["same_resolved"] is False:
        yield "The arms did not resolve the same tasks.", "yellow"
    if config.get("replies") == "model":
        yield (
            "The model decided what each agent did: no two arms did the same work, and times differ for it.",
            "yellow",
        )


def _costs(summary: Mapping[str, Any]) -> str | None:
    """What the process of the agents took of the machine; None where nobody noted it."""
    cores = summary.get("cpus")
    shares = [
        f"{name} {', '.join(f'{share:.1%} {whose}' for whose, share in own.items())}"
        for name, arm in summary["arms"].items()
        if cores and (own := own_shares(arm, cores))
    ]
    return f"Of this machine's {cores} cores, beside the commands: {'; '.join(shares)}." if shares else None


def own_shares(arm: Mapping[str, Any], cores: int) -> dict[str, float]:
    """Shares of all cores that the process of the agents took, by whose they are; empty where nobody noted them."""
    total, makespan_s = arm.get("harness_cpu_s"), arm["makespan_s"]
    if not total or not makespan_s:
        return {}
    framework, concur = arm.get("framework_cpu_s"), arm.get("concur_cpu_s")
    if framework is None or concur is None:  # an older run
        return {"harness with frameworks": total / makespan_s / cores}
    parts = {"harness": max(0.0, total - framework - concur), "Concur": concur, "agents' framework": framework}
    return {whose: seconds / makespan_s / cores for whose, seconds in parts.items()}


def _kinds(arm: Mapping[str, Any]) -> str:
    """The errors of the repeat that most agents failed in, with how many of each."""
    worst = max(arm.get("repeats") or [{}], key=lambda run: sum((run.get("failures") or {}).values()))
    kinds = ", ".join(f"{count} {kind}" for kind, count in (worst.get("failures") or {}).items())
    return f" ({kinds})" if kinds else ""


def paced_by_this_machine(arms: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """In which arms something else than the engine may have set the pace, and what."""
    found: dict[str, list[str]] = {}
    for name, arm in arms.items():
        if busy := _busy(arm):
            found.setdefault(busy, []).append(name)
    return [
        f"{', '.join(names)}: {busy}, and may have set the pace instead of the engine." for busy, names in found.items()
    ]


def _busy(arm: Mapping[str, Any]) -> str | None:
    """What of this machine had no room to spare; None when it all had, or that is unknown."""
    own = (arm["harness_cpu_s"] or 0.0) / (arm["makespan_s"] or float("inf"))
    if own > BUSY_CORE:
        return f"the process of the agents kept {own:.0%} of a core busy"
    if (arm["machine_busy"] or 0.0) > BUSY_MACHINE:
        return f"this machine's cores were {arm['machine_busy']:.0%} busy"
    return None


def _workload(summary: Mapping[str, Any]) -> str:
    arms, config = summary["arms"], summary["config"]
    first = arms.get("uncontrolled") or next(iter(arms.values()))
    name = config.get("framework", "langgraph")
    framework = FRAMEWORKS.get(name, name)  # a benchmark of one framework alone gives its own name
    text = (
        f"{first['agents']} {framework} agents on {len(summary['tasks'])} tasks, {first['steps']} generations, "
        f"{first['prompt_tokens']:,} prompt tokens, seed {config['seed']}."
    )
    if first.get("capacity_tokens"):
        share = first["peak_context_tokens"] / first["capacity_tokens"]
        text += f" At the peak their contexts would fill the pool {share:.1f} times."
    return text


def _engine(summary: Mapping[str, Any]) -> str:
    config = summary["config"]
    if config["engine"] == LAUNCH:
        return f"Engine: {config['server']['kind']}, started by this run. Makespan in wall seconds."
    if config["engine"] != EMBEDDED:
        return "Engine: one that was running already. Makespan in wall seconds."
    return (
        f"Engine: emulator, preset {config['preset']}, pool of {config['pool_tokens']:,} tokens, its clock "
        f"{config['speedup']:g}x as fast as the wall clock. Makespan in wall seconds; commands really run, at theirs."
    )
