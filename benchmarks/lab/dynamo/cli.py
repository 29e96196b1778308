"""``python -m benchmarks.lab dynamo``: install Dynamo's replay, run both, and write the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from benchmarks.lab.dynamo import install as setup
from benchmarks.lab.dynamo.grid import Cell, compare_all
from benchmarks.lab.dynamo.table import filled

__all__ = ["app", "dumps"]

README = Path(__file__).with_name("README.md")
RESULTS = Path(__file__).resolve().parents[2] / "results" / "lab_dynamo.json"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The emulator beside Dynamo's offline replay, a simulator that nobody here wrote.",
)


@app.command()
def install() -> None:
    """Make an environment with Dynamo under .cache/dynamo: some 10 seconds and 200 MB, once."""
    console = Console(stderr=True)
    try:
        console.print(f"Dynamo's interpreter: {setup.install()}", highlight=False, soft_wrap=True)
    except setup.DynamoError as error:
        _fail(console, error)


@app.command()
def compare(
    *,
    json_: Annotated[Path, typer.Option("--json", help="Record to write.")] = RESULTS,
    engine: Annotated[str | None, typer.Option(help="Only this engine of the lab.")] = None,
    workload: Annotated[str | None, typer.Option(help="Only this workload.")] = None,
) -> None:
    """Run every cell on both sides, one at a time: some 10 minutes."""
    console = Console(stderr=True)
    python = setup.installed()
    if python is None:
        _fail(console, "Dynamo is not installed: python -m benchmarks.lab dynamo install")

    def chosen(cell: Cell) -> bool:
        return engine in (None, cell.engine) and workload in (None, cell.workload)

    def tell(cell: Cell, record: dict[str, Any]) -> None:
        console.print(
            f"{cell.engine} {cell.workload} {record['pool_tokens']} cap {cell.cap}: "
            f"{record['makespan_s']:.1f} s, Dynamo {record['dynamo_makespan_s']:.1f} s",
            highlight=False,
            soft_wrap=True,
        )

    try:
        record = compare_all(chosen, python, tell)
    except (ValueError, setup.DynamoError) as error:
        _fail(console, error)
    json_.parent.mkdir(parents=True, exist_ok=True)
    json_.write_text(dumps(record), encoding="utf-8")


@app.command()
def report() -> None:
    """Write the table of the kept record into the README beside this file."""
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    README.write_text(filled(README.read_text(encoding="utf-8"), record), encoding="utf-8")


def dumps(record: Mapping[str, Any]) -> str:
    """The record with a cell a line, so that a difference between two of them is one of cells."""
    versions, *groups = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    lines = [group.replace("[{", "[\n  {").replace("}, {", "},\n  {").replace("}]", "}\n ]") for group in groups]
    return "{\n " + ",\n ".join((versions, *lines)) + "\n}\n"


def _fail(console: Console, problem: object) -> NoReturn:
    console.print(f"[red]{problem}[/]", highlight=False, soft_wrap=True)
    raise typer.Exit(2)
