"""``python -m benchmarks.lab paper``: run what is missing, print the tables, draw the figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from benchmarks.lab.cells import Record
from benchmarks.lab.paper.cells import paper_code
from benchmarks.lab.paper.figures import draw
from benchmarks.lab.paper.page import filled, provenance
from benchmarks.lab.paper.plan import FULL, SMALL, Scale
from benchmarks.lab.paper.run import missing, run_all
from benchmarks.lab.paper.sheets import sheets
from benchmarks.lab.paper.store import Store
from benchmarks.lab.paper.summary import Summary
from benchmarks.lab.tables import render

__all__ = ["app"]

RESULTS = Path(__file__).resolve().parents[2] / "results" / "lab_paper.json"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT)."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def paper(
    *,
    json: Annotated[
        Path | None,
        typer.Option(help="File of figures; gone on with where it is there. By default the one kept in benchmarks."),
    ] = None,
    figures: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("runs/lab-paper"),
    page: Annotated[Path | None, typer.Option(help="Write the tables into this page too, between its marks.")] = None,
    redo: Annotated[
        list[str] | None, typer.Option(help="Run this arm's cells again: budget, concur, ... or all. Repeatable.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Cells that run at a time.")] = 2,
    small: Annotated[
        bool, typer.Option("--small", help="A few short agents: it runs, no figure means anything.")
    ] = False,
    run: Annotated[bool, typer.Option(help="Run what is missing; without, show what there is.")] = True,
) -> None:
    """Print Tables 1, 2 and 3 of the paper and draw its Figures 3, 5 and 6, our values beside its own."""
    scale = SMALL if small else FULL
    path = json or (figures / "small.json" if small else RESULTS)
    console, progress = Console(), Console(stderr=True)
    try:
        if processes < 1:
            raise ValueError(f"processes must be at least 1, got {processes}")
        store = _run(path, scale, redo or [], processes, progress) if run else Store(path)
        summary = Summary(store, scale)
        if page is not None:
            page.write_text(filled(page.read_text(encoding="utf-8"), summary), encoding="utf-8")
        drawn = draw(summary, figures)
    except (ValueError, OSError) as error:
        _fail(error)
    except KeyboardInterrupt:
        message = f"[yellow]Interrupted.[/] What there is is in {path}; the same command without --redo goes on."
        progress.print(message, highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    console.print(render(sheets(summary)))
    for line in ["", *provenance(summary), f"Pictures: {', '.join(map(str, drawn))}"]:
        console.print(Text(line), soft_wrap=True)
    if any(record.error is not None for record in summary.records):
        raise typer.Exit(1)


def _run(path: Path, scale: Scale, redo: list[str], processes: int, console: Console) -> Store:
    with Store.open(path) as store:
        for arm in redo:
            if not store.forget(arm):
                console.print(f"{path} has no cell of {arm!r}", highlight=False, soft_wrap=True)
        cells, traces = missing(store, scale)
        if cells or traces:
            console.print(f"{len(cells)} cells to run, of {len(scale.cells())}; {len(traces)} traces", highlight=False)
        run_all(store, scale, paper_code(), processes, _teller(console, len(cells)))
        return store


def _teller(console: Console, total: int) -> Callable[[Record], None]:
    began, done = time.perf_counter(), 0

    def tell(record: Record) -> None:
        nonlocal done
        done += 1
        found = f"{record.makespan_s:.0f} s" if record.makespan_s is not None else f"failed: {record.error}"
        cell = f"{record.workload}, {record.engine}, {record.agents} agents, {record.arm}, seed {record.seed}"
        console.print(
            Text(f"{done}/{total}, {time.perf_counter() - began:.0f} s: {cell}: {found}"),
            highlight=False,
            soft_wrap=True,
        )

    return tell


def _fail(error: Exception) -> NoReturn:
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
    raise typer.Exit(2)
