"""What a person reads at the end: a table, and under it what it was measured on and what to be wary of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from benchmarks.swebench.config import EMBEDDED, LAUNCH
from benchmarks.swebench.records import RecordError, RunFolder, write_json
from benchmarks.swebench.report.notes import notes
from benchmarks.swebench.report.page import write_page
from benchmarks.swebench.summary import summarise

__all__ = ["public_summary", "render", "report"]


def report(folder: RunFolder, console: Console) -> dict[str, Any]:
    """Make summary, pictures and page from the records, print the table, and return the summary.

    Raises:
        RecordError: a record is none, or something cannot be written; the table is printed if it can be.
    """
    summary = summarise(folder)
    console.print(render(summary))
    write_json(folder.path / "summary.json", summary)
    try:
        pictures = write_page([(folder, summary)], folder.path / "report.html")
        (folder.path / "pictures").mkdir(exist_ok=True)
        for picture in pictures:
            (folder.path / "pictures" / f"{picture.name}.png").write_bytes(picture.as_png())
    except OSError as error:
        raise RecordError(f"cannot write pictures and page to {folder.path}: {error.strerror or error}") from error
    console.print(f"[dim]Records, pictures and page: {folder.path}/ (report.html)[/]", highlight=False)
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
    return Group("", table, "", *(Text(note, style=style) for note, style in notes(summary)))


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


def write_public(summary: Mapping[str, Any], path: Path) -> None:
    """Write :func:`public_summary` to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, public_summary(summary))
