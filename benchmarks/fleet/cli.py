"""``python -m benchmarks.fleet``: two engines, of which one dies in the middle of a batch, and one that joins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.fleet.cells import Figures, measure
from benchmarks.fleet.table import columns, lines

__all__ = ["app", "run"]

_WORKLOADS = ("react-10", "swe")


def run(
    *,
    workloads: Annotated[str, typer.Option(help="Of the lab; commas between.")] = ",".join(_WORKLOADS),
    engine: Annotated[str, typer.Option(help="Of the lab; two of these.")] = "qwen3-32b-tp2",
    seeds: Annotated[int, typer.Option(min=1, help="Batches of each workload.")] = 1,
    agents: Annotated[int | None, typer.Option(min=2, help="In place of the workload's own number.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Record to write.")] = None,
) -> None:
    """Run the batches in virtual time, some 20 s of wall-clock time each, and print how they came out."""
    console = Console()
    rows: list[Figures] = []
    try:
        for workload in workloads.split(","):
            rows += [measure(workload.strip(), engine, seed, agents) for seed in range(seeds)]
    except ValueError as problem:
        Console(stderr=True).print(f"benchmarks.fleet: {problem}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from problem
    console.print(_table(rows))
    if json_ is not None:
        json_.parent.mkdir(parents=True, exist_ok=True)
        json_.write_text(json.dumps([row.record() for row in rows], indent=1) + "\n", encoding="utf-8")


def _table(rows: list[Figures]) -> Table:
    table = Table(title="Two engines; then one dies and another one joins", title_justify="left")
    table.add_column("")
    records = [row.record() for row in rows]
    for name in columns(records):
        table.add_column(name, justify="right")
    for what, figures in lines(records):
        table.add_row(what, *figures)
    return table


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(run)
