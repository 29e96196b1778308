"""The other pictures: makespans, where time went (the paper's Figure 3), caps (its Figure 6), agents (its Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.swebench.records import AgentRecord, RunFolder
from benchmarks.swebench.report.statistics import interval
from benchmarks.swebench.report.theme import Theme, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PARTS", "draw_agents", "draw_caps", "draw_makespans", "draw_parts", "parts"]

OURS = "budget"
MOST_ROWS = 64
"""Agents in a chart of agents: of more, evenly spread ones."""

PARTS = ("waits", "queue", "prefill", "recomputed", "decode", "tool")
"""Of an agent's time, in the order in which a step goes through them."""
_LABELS = {
    "waits": "waits for its turn",
    "queue": "engine's queue",
    "prefill": "prefill",
    "recomputed": "prefill again of what was there",
    "decode": "decode",
    "tool": "tools",
}


def parts(run: Mapping[str, Any], speedup: float, *, proxied: bool = False) -> dict[str, float] | None:
    """Wall seconds that agents spent in each of :data:`PARTS`, all added up; None where the engine did not tell.

    Args:
        run: figures of one arm in one repeat.
        speedup: engine seconds in a wall second.
        proxied: a proxy decides who may go on: agents wait in it for their turn, and the engine never sees that.
    """
    latency, prompt, cached = run.get("latency"), run["prompt_tokens"], run.get("cached_tokens")
    if not latency or cached is None or run["recomputed_tokens"] is None:
        return None
    again = run["recomputed_tokens"] / max(1, prompt - cached)
    prefill = latency["prefill_s"] / speedup
    engine = sum(latency[name] for name in ("queue_s", "prefill_s", "decode_s")) / speedup
    held_back = max(0.0, run.get("generation_s", 0.0) - engine) if proxied else 0.0
    return {
        "waits": run["wait_s"] + held_back,
        "queue": latency["queue_s"] / speedup,
        "prefill": prefill * (1 - again),
        "recomputed": prefill * again,
        "decode": latency["decode_s"] / speedup,
        "tool": run["tool_s"],
    }


def draw_makespans(summary: Mapping[str, Any], theme: Theme) -> Figure | None:
    """A bar an arm, with the mean's 95% interval; None when no arm has ended."""
    arms = [(name, _makespans(arm)) for name, arm in summary["arms"].items()]
    arms = [(name, seconds) for name, seconds in arms if seconds]
    if not arms:
        return None
    figure = new_figure(7.6, 0.7 + 0.42 * len(arms))
    axes = figure.subplots()
    for row, (name, seconds) in enumerate(arms):
        found = interval(seconds)
        assert found is not None  # noqa: S101 - there are seconds
        axes.barh(row, found.mean, height=0.62, color=theme.ours if name == OURS else theme.bar)
        if found.low is not None and found.high is not None:
            axes.plot([max(0.0, found.low), found.high], [row, row], color=theme.ink, linewidth=1.2)
        axes.plot(seconds, [row] * len(seconds), ".", color=theme.ink, markersize=4)
        end = max(found.high or 0.0, *seconds)
        label = f"{found.mean:.1f} s"
        axes.annotate(label, (end, row), xytext=(6, 0), textcoords="offset points", va="center", color=theme.ink)
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.set_yticks(range(len(arms)), [name for name, _ in arms], color=theme.ink)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("makespan in wall seconds: mean, 95% interval, and each repeat")
    return figure


def draw_parts(summary: Mapping[str, Any], theme: Theme) -> Figure | None:
    """Where agents' time went in each arm's first repeat; None when no engine told."""
    config = summary["config"]
    speedup = config["speedup"] if config["engine"] == "embedded" else 1.0
    arms = [
        (name, found)
        for name, arm in summary["arms"].items()
        if (found := parts(arm["repeats"][0], speedup, proxied=name.startswith("proxy:")))
    ]
    if not arms:
        return None
    figure = new_figure(7.6, 1.1 + 0.42 * len(arms))
    axes = figure.subplots()
    for row, (_, found) in enumerate(arms):
        begin = 0.0
        for part in PARTS:
            axes.barh(
                row,
                found[part],
                left=begin,
                height=0.62,
                color=getattr(theme, part),
                label=_LABELS[part] if row == 0 else None,
            )
            begin += found[part]
    axes.set_yticks(range(len(arms)), [name for name, _ in arms], color=theme.ink)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("wall seconds of all agents together")
    figure.legend(loc="outside upper left", ncols=3, fontsize=8)
    return figure


def draw_caps(summary: Mapping[str, Any], theme: Theme) -> Figure | None:
    """Makespan by fixed cap, and the laws that choose it themselves as lines; None with fewer than two caps."""
    caps = sorted(
        (int(name.removeprefix("fixed:")), found.mean)
        for name, arm in summary["arms"].items()
        if name.startswith("fixed:") and (found := interval(_makespans(arm)))
    )
    if len(caps) < 2:
        return None
    figure = new_figure(7.6, 3.2)
    axes = figure.subplots()
    axes.plot(*zip(*caps, strict=True), "o-", color=theme.faint, label="fixed cap")
    colours = {"uncontrolled": theme.recomputed, OURS: theme.ours, "concur": theme.hit}
    for name, colour in colours.items():
        found = interval(_makespans(summary["arms"][name])) if name in summary["arms"] else None
        if found is not None:
            axes.axhline(found.mean, color=colour, linewidth=1.4, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks([cap for cap, _ in caps], [str(cap) for cap, _ in caps])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("agents at a time")
    axes.set_ylabel("makespan, wall seconds")
    axes.legend(fontsize=8)
    return figure


def draw_agents(folder: RunFolder, name: str, end: float, theme: Theme) -> Figure | None:
    """An arm's agents in its first repeat, a row each, in the order in which they began; None when there is none.

    Args:
        folder: the run.
        name: of the arm.
        end: seconds to show, so that arms can be laid beside each other.
        theme: colours.
    """
    every = sorted(folder.arm(name, 1).agents(), key=_began)
    if not every:
        return None
    step = -(-len(every) // MOST_ROWS)
    shown = every[::step]
    figure = new_figure(7.6, 0.9 + 0.085 * len(shown))
    axes = figure.subplots()
    for row, record in enumerate(shown):
        _agent(axes, row, record, theme)
    for part, label in (("waits", "waits for its turn"), ("decode", "in the engine"), ("tool", "in a tool")):
        axes.barh(0, 0, color=getattr(theme, part), label=label)
    axes.set_ylim(len(shown), -1)
    axes.set_xlim(0, end * 1.01)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("wall seconds")
    axes.set_title(name, loc="left", fontweight="bold", fontsize=10)
    figure.legend(loc="outside upper right", ncols=3, fontsize=8)
    return figure


@dataclass(frozen=True, slots=True)
class _Span:
    begin: float
    seconds: float


def _agent(axes: Axes, row: int, record: AgentRecord, theme: Theme) -> None:
    spans: dict[str, list[_Span]] = {"waits": [], "decode": [], "tool": []}
    for step in record.steps:
        at = step.started_s
        for part, seconds in (("waits", step.wait_s), ("decode", step.generation_s), ("tool", step.tool_s)):
            if seconds:
                spans[part].append(_Span(at, seconds))
            at += seconds or 0.0
    for part, found in spans.items():
        where = [(span.begin, span.seconds) for span in found]
        axes.broken_barh(where, (row - 0.4, 0.8), color=getattr(theme, part), linewidth=0)


def _began(record: AgentRecord) -> tuple[float, str]:
    first = record.steps[0] if record.steps else None
    return (first.started_s + (first.wait_s or 0.0) if first else record.ended_s, record.agent_id)


def _makespans(arm: Mapping[str, Any]) -> Sequence[float]:
    """Of the repeats that got to their end at once."""
    return [
        run["makespan_s"]
        for run in arm["repeats"]
        if run["complete"] and not run.get("resumed") and run["makespan_s"] is not None
    ]
