"""``python -m benchmarks.remote``: a table of what a step costs with a shared controller."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.remote.measure import Load, measure

__all__ = ["main", "markdown"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    *,
    agents: Annotated[int, typer.Option(min=1, help="Agents of all processes together.")] = 1000,
    processes: Annotated[int, typer.Option(min=1, help="Processes that they are spread over.")] = 4,
    pause: Annotated[float, typer.Option(min=0, help="Seconds between an agent's steps.")] = 10.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each measurement.")] = 10.0,
    save: Annotated[Path | None, typer.Option("--json", help="File for the record.")] = None,
) -> None:
    """Agents that step and wait, on one controller over HTTP on loopback, beside one agent alone.

    Nobody waits for a seat: what is measured is the cost of asking.
    """
    record = measure([Load(1, 1, 0.01), Load(agents, processes, pause)], seconds)
    if save is not None:
        save.write_text(json.dumps(record, indent=1) + "\n")
    table = Table()
    for title in ("agents", "processes", "steps/s", "p50 ms", "p99 ms", "controller CPU us/step", "worker CPU us/step"):
        table.add_column(title, justify="right")
    for row in record["rows"]:
        table.add_row(*_cells(row))
    Console().print(table)


def markdown(record: dict[str, Any]) -> str:
    """The table for a page."""
    lines = [
        "| agents | processes | steps/s | step p50 ms | step p99 ms | controller's CPU us a step | a worker's |",
        "|---:|---:|---:|---:|---:|---:|---:|",
        *("| " + " | ".join(_cells(row)) + " |" for row in record["rows"]),
    ]
    machine = record["machine"]
    lines += [
        "",
        f"- On loopback, everything on {machine['cores']} cores of {machine['cpu']}; Python {machine['python']}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


def _cells(row: dict[str, Any]) -> list[str]:
    times = [f"{row[name]:.2f}" for name in ("p50_ms", "p99_ms")]
    cpu = [f"{row[name]:,.0f}" for name in ("controller_us", "worker_us")]
    return [f"{row['agents']:,}", str(row["processes"]), f"{row['steps_per_s']:,.0f}", *times, *cpu]
