"""``python -m benchmarks.real``: real SGLang on this machine's CPU, with and without Concur."""

from __future__ import annotations

import asyncio
import datetime
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from benchmarks.engines.choice import HOME, REAL, EngineChoice
from benchmarks.engines.sglang_cpu.install import ensure_installed
from benchmarks.engines.wire import EngineError
from benchmarks.interrupts import INTERRUPTED, end_as_interrupted
from benchmarks.interrupts import run as _run
from benchmarks.real.bench import Bench, new_record
from benchmarks.real.record import Record
from benchmarks.real.table import markdown, render
from benchmarks.real.workload import Workload
from benchmarks.swebench.arms import LAW_ARMS, parse_arms

__all__ = ["app", "main"]

SPEEDUP = 4.0
"""Of the emulator: three repeats of all arms then take some five minutes, and what a step costs the agents' own
process, two or three milliseconds, is not felt yet."""

EngineOption = Annotated[
    str, typer.Option(help="sglang (installed and started here), emulator, or the URL of a running SGLang.")
]
VenvOption = Annotated[
    Path | None,
    typer.Option(envvar="CONCUR_SGLANG_VENV", help="Environment that has SGLang; by default the benchmark makes one."),
]
HomeOption = Annotated[Path, typer.Option(help="Folder for that environment, the model and the server's log.")]
SpeedupOption = Annotated[float, typer.Option(help="Emulator: engine seconds per second.")]
RecordArgument = Annotated[Path, typer.Argument(help="A record that `run` wrote.")]

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)


def main() -> NoReturn:
    """The program."""
    logging.getLogger("concur_agents").setLevel(logging.ERROR)  # failed readings are counted, and told in the end
    end_as_interrupted()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)


@app.command()
def install(home: HomeOption = HOME) -> None:
    """Install SGLang for CPU into an environment of its own, if it is not there yet."""
    console = Console()
    _guard(console, lambda: ensure_installed(home, console.print))


@app.command()
def run(
    *,
    engine: EngineOption = REAL,
    venv: VenvOption = None,
    home: HomeOption = HOME,
    arms: Annotated[
        str, typer.Option(help="Arms, in order: uncontrolled, fixed:N, concur[:alpha=2,...].")
    ] = "uncontrolled,fixed:8,concur",
    repeats: Annotated[int, typer.Option(min=1, help="Times each arm runs, interleaved.")] = 3,
    seed: Annotated[int, typer.Option(help="The same seed is the same work.")] = 0,
    agents: Annotated[int, typer.Option(help="Agents in the batch.")] = 24,
    speedup: SpeedupOption = SPEEDUP,
    predict: Annotated[bool, typer.Option(help="Fit the emulator to the engine, and compare what it says.")] = True,
    record: Annotated[Path | None, typer.Option(help="Record to write; by default a new one in runs/.")] = None,
) -> None:
    """Run every arm on the engine, and on the emulator fitted to it."""
    console = Console()
    begun: list[Bench] = []

    def work() -> None:
        workload, parsed = Workload(agents=agents, seed=seed), parse_arms(arms, LAW_ARMS)
        choice = EngineChoice(name=engine, venv=venv, home=home, speedup=speedup)
        if choice.needs_install:
            ensure_installed(home, console.print)

        async def measure() -> None:
            async with choice.open() as running:
                bench = Bench(new_record(running, workload, parsed, repeats), record or _new_path(), console)
                begun.append(bench)
                await bench.run(running, fit=predict)

        _run(measure())
        if predict:
            _run(begun[0].predict(speedup))

    _guard(console, work, begun)


@app.command()
def fit(
    record: RecordArgument,
    *,
    engine: EngineOption = REAL,
    venv: VenvOption = None,
    home: HomeOption = HOME,
    speedup: SpeedupOption = SPEEDUP,
) -> None:
    """Calibrate on the engine again, and put the fitted cost model into the record."""
    console = Console()

    def work() -> None:
        choice = EngineChoice(name=engine, venv=venv, home=home, speedup=speedup)
        found = Record.load(record)
        if choice.needs_install:
            ensure_installed(home, console.print)

        async def measure() -> None:
            async with choice.open() as running:
                await Bench(found, record, console).fit(running)

        _run(measure())

    _guard(console, work)


@app.command()
def predict(record: RecordArgument, *, speedup: SpeedupOption = SPEEDUP) -> None:
    """Run the record's arms on the emulator with the record's cost model, and compare."""
    console = Console()
    begun: list[Bench] = []

    def work() -> None:
        begun.append(Bench(Record.load(record), record, console))
        _run(begun[0].predict(speedup))

    _guard(console, work, begun)


@app.command()
def report(record: RecordArgument) -> None:
    """Print the record as a Markdown table."""
    _guard(Console(), lambda: sys.stdout.write(markdown(Record.load(record))))


def _guard(console: Console, work: Callable[[], Any], begun: Sequence[Bench] = ()) -> None:
    """Do the work; say what went wrong; show the record that was begun, however it ended."""
    code = 0
    try:
        work()
    except (EngineError, OSError, ValueError) as error:
        console.print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        code = 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("[yellow]interrupted[/]")
        code = INTERRUPTED
    for bench in begun:
        console.print(render(bench.record))
        console.print(f"[dim]record: {bench.path}[/]", highlight=False)
    if code:
        raise typer.Exit(code)


def _new_path() -> Path:
    return Path("runs") / f"real-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}.json"
