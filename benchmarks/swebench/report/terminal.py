"""What a person reads at the end: a table, and under it what it was measured on and what to be wary of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from benchmarks.swebench.config import EMBEDDED, FRAMEWORKS, LAUNCH
from benchmarks.swebench.records import RecordError, RunFolder, write_json
from benchmarks.swebench.report.overtime import draw_over_time
from benchmarks.swebench.report.page import write_page
from benchmarks.swebench.report.theme import as_png
from benchmarks.swebench.summary import summarise

__all__ = ["public_summary", "render", "report"]

BUSY_CORE = 0.8
"""Share of one core: an event loop above it makes its agents wait for each other."""
BUSY_MACHINE = 0.9
"""Share of all cores: above it harness, commands, engine and whatever else runs wait for each other."""


def report(folder: RunFolder, console: Console) -> dict[str, Any]:
    """Make summary, picture and page from the records, print the table, and return the summary.

    Raises:
        RecordError: a record is none, or something cannot be written; the table is printed if it can be.
    """
    summary = summarise(folder)
    picture = as_png(lambda theme: draw_over_time(folder, summary, theme))
    console.print(render(summary))
    write_json(folder.path / "summary.json", summary)
    if picture is not None:
        try:
            (folder.path / "timeline.png").write_bytes(picture)
            write_page([(folder, summary)], folder.path / "report.html")
        except OSError as error:
            raise RecordError(f"cannot write picture and page to {folder.path}: {error.strerror or error}") from error
        console.print(f"[dim]Records, picture and page: {folder.path}/ (timeline.png, report.html)[/]", highlight=False)
    return summary


def public_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The summary without what names a machine, an engine's URL and folders: it may be kept in the project."""
    config = dict(summary["config"])
    if config["engine"] not in (EMBEDDED, LAUNCH):
        config["engine"] = "url"
    if config.get("recordings"):
        config["recordings"] = Path(config["recordings"]).name
    config["tasks"] = [Path(name).name if Path(name).is_absolute() else name for name in config["tasks"]]
    return {**summary, "config": config}


def render(summary: Mapping[str, Any]) -> Group:
    """The table and its notes."""
    table = Table(box=None, pad_edge=False, header_style="bold")  # 80 columns hold it
    table.add_column("arm", overflow="fold")
    for heading in ("makespan", "speed-up", "hit rate", "recomputed\ntokens", "resolved", "agents", "lost"):
        table.add_column(heading, justify="right", vertical="top")
    for name, arm in summary["arms"].items():
        table.add_row(*_row(name, arm))
    return Group("", table, "", *(Text(note, style=style) for note, style in _notes(summary)))


def _row(name: str, arm: Mapping[str, Any]) -> list[str]:
    lost = str(arm["lost"]) if not arm["lost"] else f"[bold red]{arm['lost']}[/]"
    return [
        name + _state(arm),
        _format(arm["makespan_s"], "{:.1f} s"),
        _spread(arm["speedup"]),
        _format(arm["hit_rate"], "{:.1%}"),
        _format(arm["recomputed_tokens"], "{:,}"),
        str(arm["resolved"]),
        str(arm["agents"]),
        lost,
    ]


def _state(arm: Mapping[str, Any]) -> str:
    if not arm["complete"]:
        return "\n[yellow](interrupted)[/]"
    return "\n[yellow](resumed)[/]" if arm.get("resumed") else ""


def _format(value: float | None, form: str) -> str:
    return "?" if value is None else form.format(value)


def _spread(speedup: Mapping[str, float] | None) -> str:
    if speedup is None:
        return "-"  # nothing to compare with
    if speedup["min"] == speedup["max"]:
        return f"{speedup['median']:.2f}x"
    return f"{speedup['median']:.2f}x\n{speedup['min']:.2f}..{speedup['max']:.2f}"


def _notes(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
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
            yield f"{name}: {arm['failed']} agents failed{_kinds(arm)}; their records say why.", "yellow"
        if busy := _busy(arm):
            yield f"{name}: {busy}, and may have set the pace instead of the engine.", "yellow"
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
    """What the harness itself took of the machine; None where nobody noted it."""
    cores = summary.get("cpus")
    shares = [
        f"{name} {arm['harness_cpu_s'] / arm['makespan_s'] / cores:.1%}"
        for name, arm in summary["arms"].items()
        if cores and arm.get("harness_cpu_s") and arm["makespan_s"]
    ]
    if not shares:
        return None
    took = f"The harness (agents and Concur, not their commands) took of this machine's {cores} cores: "
    return f"{took}{', '.join(shares)}."


def _kinds(arm: Mapping[str, Any]) -> str:
    """The errors of the repeat that most agents failed in, with how many of each."""
    worst = max(arm.get("repeats") or [{}], key=lambda run: sum((run.get("failures") or {}).values()))
    kinds = ", ".join(f"{count} {kind}" for kind, count in (worst.get("failures") or {}).items())
    return f" ({kinds})" if kinds else ""


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


def write_public(summary: Mapping[str, Any], path: Path) -> None:
    """Write :func:`public_summary` to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, public_summary(summary))
