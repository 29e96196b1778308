"""``python -m benchmarks.lab``: run the grid, go on with it, and show what came out."""

from __future__ import annotations

import importlib
import inspect
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.lab import report as reporting
from benchmarks.lab import tables
from benchmarks.lab.arms import ARMS
from benchmarks.lab.cells import code_hash, file_hash, find_workload
from benchmarks.lab.engines import ENGINES, get_engine
from benchmarks.lab.grid import Chain, all_arms, applies, expand_arms, finished, plan_grid, run_grid
from benchmarks.lab.pool import Pool
from benchmarks.lab.progress import Estimate, show_progress
from benchmarks.lab.records import RecordError, RecordFile, read_records
from benchmarks.lab.workloads import WORKLOADS, Workload, get_workload
from benchmarks.swebench import arms as shared

__all__ = ["app", "main"]

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT)."""

SUBCOMMANDS = {
    "bounds": "benchmarks.lab.rebound",
    "paper": "benchmarks.lab.paper.cli",
    "dynamo": "benchmarks.lab.dynamo.cli",
    "picture": "benchmarks.lab.picture.cli",
    "scale": "benchmarks.lab.scale",
}
"""Modules whose ``app`` is a command of its own, where the module is there."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Laws, their peers and references, on many workloads and engines, in virtual time.",
)


def main() -> NoReturn:
    """The program."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to end is as Ctrl-C
    logging.getLogger("concur_agents").setLevel(logging.ERROR)
    _mount()
    sys.exit(app())


@app.command()
def run(
    *,
    json: Annotated[Path, typer.Option(help="File of records, one line a cell; gone on with where it is there.")],
    workloads: Annotated[str, typer.Option(help="all, or names with commas; '' for only those of --trace.")] = "all",
    engines: Annotated[str, typer.Option(help="all, or names with commas.")] = "all",
    arms: Annotated[
        str, typer.Option(help="all, or arms with commas; fixed:sweep and requests:sweep try caps.")
    ] = "all",
    seeds: Annotated[int, typer.Option(help="So many seeds, from 0. The same seed is the same work.")] = 5,
    agents: Annotated[int | None, typer.Option(help="Agents in each batch; by default each workload's own.")] = None,
    trace: Annotated[list[Path] | None, typer.Option(help="Add a workload of your own recorded sessions.")] = None,
    processes: Annotated[int, typer.Option(help="Cells that run at a time.")] = 2,
    prune: Annotated[bool, typer.Option(help="Stop a sweep after two caps over 20% worse than its best.")] = True,
    force_resume: Annotated[bool, typer.Option(help="Go on with a file that other code began.")] = False,
) -> None:
    """Run every cell that the file does not have yet. Ends with 1 if a cell failed."""
    console = Console()
    failures = 0
    try:
        _at_least_one(seeds=seeds, processes=processes, **({} if agents is None else {"agents": agents}))
        works = _workloads(workloads, trace or [])
        sizes = {work.name: (work.agents if agents is None else agents, path) for work, path in works}
        named, kinds = _engines(engines), expand_arms(arms)
        for arm, engine in ((arm, engine) for engine in named for arm in kinds if not applies(arm, engine)):
            console.print(f"{engine} has no {arm}: left out", highlight=False)
        chains = plan_grid(sizes, named, kinds, seeds, prune=prune, applies=applies)
        code = code_hash()
        with console.status("Looking at the workloads"):  # one seed tells how many steps the others have, nearly
            steps = {work.name: sum(len(plan.steps) for plan in work.batch(0, agents).plans) for work, _ in works}
        with RecordFile.open(json) as file, closing(Pool(processes, code)) as pool:
            _check_same(file, code, chains, force=force_resume)
            estimate = Estimate(steps, file.records.values())
            with show_progress(console, chains, finished(file), estimate, processes) as tell:
                run_grid(chains, file, pool, tell)
            failures = sum(record.error is not None for record in file.records.values())
    except (ValueError, OSError) as error:
        _fail(error)
    except KeyboardInterrupt:
        message = f"[yellow]Interrupted.[/] What there is is in {json}; the same command goes on."
        console.print(message, highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    if failures:
        message = f"[yellow]Cells that failed: {failures}.[/] Their lines in {json} say why."
        console.print(message, highlight=False, soft_wrap=True)
        raise typer.Exit(1)


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="A file that `run` wrote.")],
    *,
    ours: Annotated[str, typer.Option(help="The arm that the others are compared with.")] = "budget",
    baseline: Annotated[
        list[str] | None, typer.Option(help="Compare with this one only: an arm, 'best fixed cap', ... Repeatable.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="For a page, not for a terminal.")] = False,
    brief: Annotated[bool, typer.Option("--brief", help="Of a sweep show only the best.")] = False,
) -> None:
    """Show every cell, the ratios of one arm to all others, and their means over the workloads."""
    try:
        records = read_records(file)
        if not records:
            raise RecordError(f"{file}: no cell is in it yet")
        sheets = tables.sheets(reporting.Report(records, ours=ours, only=baseline or None), brief=brief)
    except (ValueError, OSError) as error:
        _fail(error)
    if markdown:
        sys.stdout.write(tables.markdown(sheets))
    else:
        Console().print(tables.render(sheets))


@app.command("workloads")
def list_workloads() -> None:
    """List the workloads."""
    _list("workload", [(work.name, f"{work.about} ({work.agents} agents)") for work in WORKLOADS.values()])


@app.command("engines")
def list_engines() -> None:
    """List the engines."""
    _list("engine", [(name, f"pool of {engine.config.max_total_tokens:,} tokens") for name, engine in ENGINES.items()])


@app.command("arms")
def list_arms() -> None:
    """List the arms."""
    shown = {name.partition(":")[0]: name for name in all_arms()}
    kinds = [*shown, *(kind for kind in sorted(ARMS) if kind not in shown)]
    _list("arm", [(shown.get(kind, f"{kind}:..."), _about_arm(kind)) for kind in kinds])


def _about_arm(kind: str) -> str:
    """The first line of what its maker says of it."""
    make = shared.ARMS.get(kind, ARMS[kind])
    text = inspect.getdoc(make) if inspect.isfunction(make) else None
    return (text or "").partition("\n")[0]


def _workloads(names: str, traces: Sequence[Path]) -> list[tuple[Workload, str | None]]:
    found: list[tuple[Workload, str | None]] = [
        (get_workload(name), None) for part in _split(names) for name in (WORKLOADS if part == "all" else [part])
    ]
    found += [(find_workload("", str(path)), str(path)) for path in traces]
    if not found:
        raise ValueError(f"workloads must name at least one of {', '.join(WORKLOADS)}, or all")
    _no_twice("workload", [work.name for work, _ in found])
    return found


def _engines(names: str) -> list[str]:
    found = [name for part in _split(names) for name in (ENGINES if part == "all" else [get_engine(part).name])]
    if not found:
        raise ValueError(f"engines must name at least one of {', '.join(ENGINES)}, or all")
    _no_twice("engine", found)
    return found


def _check_same(file: RecordFile, code: str, chains: Sequence[Chain], *, force: bool) -> None:
    """Refuse to mix figures of two versions of the code, or of two files under one workload's name."""
    other = sorted({record.code for record in file.records.values()} - {code})
    if other and not force:
        raise RecordError(
            f"{file.path}: it has cells that other code ran ({', '.join(other)}; this is {code}), and its figures "
            "may be others. Give another --json, or keep them with --force-resume"
        )
    for cell in {chain.cells[0].workload: chain.cells[0] for chain in chains if chain.cells}.values():
        now = None if cell.trace is None else file_hash(cell.trace)
        if any(record.workload == cell.workload and record.trace != now for record in file.records.values()):
            raise RecordError(
                f"{file.path}: its workload {cell.workload!r} was read from another recording, or from this one "
                "before it changed. Give another --json"
            )


def _split(names: str) -> list[str]:
    return [name for name in (name.strip() for name in names.split(",")) if name]


def _no_twice(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{what} {name!r} is given twice")


def _at_least_one(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def _list(heading: str, rows: Sequence[tuple[str, str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    table.add_column(heading, no_wrap=True)
    table.add_column("")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def _mount() -> None:
    for name, module in SUBCOMMANDS.items():
        parent = module.rpartition(".")[0]
        if find_spec(parent) is not None and find_spec(module) is not None:
            mounted: typer.Typer = importlib.import_module(module).app
            commands = mounted.registered_commands
            alone = len(commands) == 1 and mounted.registered_callback is None and not mounted.registered_groups
            if alone and commands[0].callback is not None:
                app.command(name)(commands[0].callback)  # not: name, and then the name of its only command
            else:
                app.add_typer(mounted, name=name)


def _fail(error: Exception) -> NoReturn:
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
    raise typer.Exit(2)
