"""``python -m benchmarks.ray``: N embedded engines and M agents on Ray.

Everything is on one machine, engines and agents too, so that only shares and ratios mean anything. What an engine does
is the emulator's. It needs the integration: ``pip install -e integrations/concur-agents-ray``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import interrupts
from benchmarks.ray.measure import Settings, measure
from benchmarks.ray.table import rows

__all__ = ["main"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


@app.command()
def run(
    *,
    engines: Annotated[int, typer.Option(min=1, help="Embedded engines, a shard for each.")] = 2,
    agents: Annotated[int, typer.Option(min=1)] = 40,
    steps: Annotated[int, typer.Option(min=1, help="Of each agent.")] = 4,
    workers: Annotated[int, typer.Option(min=1, help="Processes the agents are spread over.")] = 2,
    nodes: Annotated[int, typer.Option(min=1, help="Of Ray's cluster, all on this machine.")] = 2,
    law: Annotated[str, typer.Option(help="As in a configuration.")] = "budget",
    preset: Annotated[str, typer.Option(help="Of the emulator.")] = "laptop",
    speedup: Annotated[float, typer.Option(min=0.1, help="Engine seconds per second.")] = 20,
    prompt: Annotated[int, typer.Option(min=1, help="Tokens an agent begins with, about.")] = 300,
    grows: Annotated[int, typer.Option(min=0, help="Tokens a tool adds, about.")] = 100,
    tool_s: Annotated[float, typer.Option(min=0, help="Longest tool.")] = 0.5,
    kill: Annotated[int, typer.Option(min=0, help="Engines to end once a third of the agents have ended.")] = 0,
    limit_s: Annotated[float, typer.Option(min=1, help="For the batch.")] = 600,
    file: Annotated[
        Path | None, typer.Option("--json", help="File for records; one of the same settings is replaced.")
    ] = None,
) -> None:
    """Run a batch, and say whether it ended, how it was spread, and what the controllers cost."""
    if kill >= engines:
        raise typer.BadParameter(f"kill must leave an engine of {engines}, got {kill}")
    interrupts.end_as_interrupted()
    console = Console()
    settings = Settings(
        engines=engines,
        agents=agents,
        steps=steps,
        workers=workers,
        nodes=nodes,
        law=law,
        preset=preset,
        speedup=speedup,
        prompt=prompt,
        grows=grows,
        tool_s=tool_s,
        kill=kill,
        limit_s=limit_s,
    )
    record = measure(settings, lambda line: console.print(line, highlight=False, markup=False))
    console.print(_table(record))
    if file is not None:
        known = json.loads(file.read_text()) if file.exists() else []
        others = [each for each in known if each["settings"] != record["settings"]]
        records = sorted([*others, record], key=lambda each: int(each["settings"]["engines"]))
        file.write_text(json.dumps(records, indent=1) + "\n")
    if record["finished"] < agents or record["left"]:
        raise typer.Exit(1)


def _table(record: dict[str, Any]) -> Table:
    table = Table("", "", show_header=False)
    for name, value in rows(record).items():
        table.add_row(name, value)
    return table
