"""The figures of runs side by side, for the terminal and for pages. Needs no Ray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["markdown", "rows"]


def rows(record: Mapping[str, Any]) -> dict[str, str]:
    """One run's figures, by what they are."""
    settings, balance, cpu = record["settings"], record["balance"], record["shard_cpu"]
    steps_s = record["steps"] / record["elapsed_s"] / settings["engines"]
    return {
        "agents that finished": f"{record['finished']:,} of {settings['agents']:,}",
        "left behind at a controller": f"{record['left']}",
        "steps, tried ones too": f"{record['steps']:,} in {record['elapsed_s']:.1f} s",
        "engines ended in the midst of it": f"{record['killed']} of {settings['engines']}",
        "agents that changed their engine": f"{record['moved']:,}",
        "agents of an engine, of the mean": f"{balance['least']:.2f}..{balance['most']:.2f}",
        "a step alone, p50 / p99": f"{record['alone_ms']['p50']:.2f} / {record['alone_ms']['p99']:.2f} ms",
        "wait for a seat, p50 / p99": f"{record['wait_ms']['p50']:.1f} / {record['wait_ms']['p99']:.1f} ms",
        "a shard's share of a core": f"{cpu['mean']:.1%} ({cpu['least']:.1%}..{cpu['most']:.1%})",
        "the same for each step, reading its engine included": f"{cpu['mean'] / steps_s * 1e3:.1f} ms",
        "the directory's": f"{record['directory_cpu']:.1%}",
    }


def markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """A record as a table."""
    head = ["", *(f"{record['settings']['engines']} engines" for record in records)]
    figures = [rows(record) for record in records]
    out = [f"| {' | '.join(head)} |", f"|---|{'---:|' * len(records)}"]
    out += [f"| {' | '.join([name, *(each[name] for each in figures)])} |" for name in figures[0]]
    first, about = records[0]["settings"], records[0]["machine"]
    made_of = (
        f"preset `{first['preset']}`, clock {first['speedup']:g}x; agents of {first['steps']} steps in "
        f"{first['workers']} processes, {first['nodes']} nodes"
    )
    out += [
        "",
        f"- Embedded engines ({made_of}), all on {about['cores']} cores of {about['cpu']}, busy all the time.",
        "- Agents are placed by what an engine's agents hold: where they are further along, fewer come.",
        f"- Ray {about['ray']}, Python {about['python']}.",
    ]
    return "\n".join(out) + "\n"
