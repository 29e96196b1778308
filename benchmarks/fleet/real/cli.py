"""``python -m benchmarks.fleet.real``: one batch on two real servers, behind a load balancer and behind the gateway."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from benchmarks.engines.choice import HOME, REAL
from benchmarks.engines.wire import EngineError
from benchmarks.fleet.real.bench import Bench
from benchmarks.fleet.real.fronts import FRONTS, get_fronts
from benchmarks.fleet.real.record import Record
from benchmarks.fleet.real.servers import opened
from benchmarks.fleet.real.table import markdown
from benchmarks.interrupts import INTERRUPTED, end_as_interrupted
from benchmarks.interrupts import run as run_interruptibly
from benchmarks.lab.real.cases import CASES, get_cases

__all__ = ["app", "main"]

FileOption = Annotated[Path, typer.Option("--json", help="What is there and was not disturbed is not run again.")]

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)


def main() -> NoReturn:
    """The program."""
    end_as_interrupted()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)


@app.command()
def run(
    *,
    json: FileOption,
    arms: Annotated[str, typer.Option(help="What stands before the servers; commas between.")] = ",".join(FRONTS),
    workload: Annotated[str, typer.Option(help=f"One of {', '.join(CASES)}.")] = "swe",
    agents: Annotated[int | None, typer.Option(min=1, help="By default the workload's own number a server.")] = None,
    servers: Annotated[int, typer.Option(min=2, help="Each with a pool of 16,000 tokens.")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Times each arm runs, interleaved, with other agents.")] = 2,
    seed: Annotated[int, typer.Option(help="The same seed is the same work.")] = 0,
    engine: Annotated[str, typer.Option(help="sglang (installed and started here) or emulator.")] = REAL,
    venv: Annotated[
        Path | None, typer.Option(envvar="CONCUR_SGLANG_VENV", help="Environment that has the server.")
    ] = None,
    home: Annotated[Path, typer.Option(help="Folder for environment, model and logs.")] = HOME,
    speedup: Annotated[float, typer.Option(help="Emulator: engine seconds per second.")] = 1.0,
) -> None:
    """Run every arm with every repeat's agents. Goes on where it was interrupted."""
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True, markup=False)

    async def measure() -> None:
        (case,), fronts = get_cases([workload]), get_fronts([name.strip() for name in arms.split(",") if name.strip()])
        async with opened(engine, servers, home=home, venv=venv, speedup=speedup, say=say) as engines:
            bench = Bench(
                engines=engines,
                case=case,
                fronts=fronts,
                repeats=repeats,
                agents=case.agents * servers if agents is None else agents,
                seed=seed,
                path=json,
                folder=home / "fleet",
                say=say,
            )
            await bench.run()

    _guard(console, lambda: run_interruptibly(measure()), json)


@app.command()
def report(json: FileOption) -> None:
    """Print the file as Markdown."""
    _guard(Console(), lambda: None, json)


def _guard(console: Console, work: Callable[[], None], path: Path) -> None:
    """Do the work; say what went wrong; report what there is."""
    code = 0
    try:
        work()
        record = Record.load(path)
        if not record.runs:
            raise ValueError(f"{path} has nothing measured in it")
        sys.stdout.write(markdown(record.data()))
    except (EngineError, OSError, ValueError) as error:
        console.print(f"error: {error}", style="bold red", highlight=False, soft_wrap=True, markup=False)
        code = 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print(f"interrupted: what was measured is in {path}; the same command goes on", style="yellow")
        code = INTERRUPTED
    if code:
        raise typer.Exit(code)
