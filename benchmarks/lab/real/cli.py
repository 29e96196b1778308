"""``python -m benchmarks.lab.real``: the lab's batches and arms on a real engine, beside what the lab says of them."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from benchmarks.engines.choice import HOME, REAL
from benchmarks.engines.wire import EngineError
from benchmarks.interrupts import INTERRUPTED, end_as_interrupted
from benchmarks.interrupts import run as run_interruptibly
from benchmarks.lab.arms import parse_arms
from benchmarks.lab.real.backends import get_backend
from benchmarks.lab.real.bench import Bench, Settings
from benchmarks.lab.real.cases import CASES, get_cases
from benchmarks.lab.real.predict import emulator_of, fitted, predict
from benchmarks.lab.real.report import markdown
from benchmarks.lab.real.store import Run, Store
from concur_agents.emulator import CostModel

__all__ = ["app", "main"]

WORKLOADS = "swe,react-10,judge"  # distill is bound by decoding: caps can only lose there
ARMS = "uncontrolled,fixed:20,fixed:24,fixed:28,fixed:36,concur,budget,thunder"

FileOption = Annotated[Path, typer.Option("--json", help="JSON lines: what is there is not run again.")]
WorkloadsOption = Annotated[str, typer.Option(help=f"Of {', '.join(CASES)}.")]
ArmsOption = Annotated[str, typer.Option(help="The lab's arms.")]
AgentsOption = Annotated[int | None, typer.Option(min=1, help="Agents, in place of each workload's own number.")]
SeedOption = Annotated[int, typer.Option(help="The same seed is the same work.")]

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
def run(
    *,
    json: FileOption,
    workloads: WorkloadsOption = WORKLOADS,
    arms: ArmsOption = ARMS,
    repeats: Annotated[int, typer.Option(min=1, help="Times each arm runs, interleaved.")] = 3,
    agents: AgentsOption = None,
    seed: SeedOption = 0,
    engine: Annotated[str, typer.Option(help="sglang (installed and started here), vllm or emulator.")] = REAL,
    url: Annotated[str | None, typer.Option(help="A server of that kind that runs already.")] = None,
    venv: Annotated[
        Path | None, typer.Option(envvar="CONCUR_SGLANG_VENV", help="Environment that has the server.")
    ] = None,
    home: Annotated[Path, typer.Option(help="Folder for environment, model and the server's log.")] = HOME,
    speedup: Annotated[float, typer.Option(help="Emulator: engine seconds per second.")] = 1.0,
    calibrate: Annotated[bool, typer.Option(help="Fit the emulator to the engine, and predict every arm.")] = True,
) -> None:
    """Run every arm on every workload, then say what the lab would have said. Goes on where it was interrupted."""
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True, markup=False)

    def work() -> None:
        settings = Settings(
            cases=get_cases(_names(workloads)),
            arms=parse_arms(arms),
            repeats=repeats,
            seed=seed,
            agents=agents,
            calibrate=calibrate,
        )
        store = Store.load(json)
        backend = get_backend(engine, url=url, venv=venv, home=home, speedup=speedup, say=say)
        run_interruptibly(Bench(backend, settings, store, say).run())
        if store.sweeps:
            _predict(store, say)

    _guard(console, work, json)


@app.command(name="predict")
def predict_again(json: FileOption, arms: ArmsOption = "") -> None:
    """Predict every arm that was run, and those in ``--arms``, with the calibrations in the file."""
    console = Console()
    _guard(console, lambda: _predict(Store.load(json), lambda text: console.print(text, highlight=False), arms), json)


@app.command()
def report(json: FileOption) -> None:
    """Print the file as Markdown."""
    _guard(Console(), lambda: None, json)


def _predict(store: Store, say: Callable[[str], None], arms: str = "") -> None:
    """Predict with the store's own calibrations. Raises ValueError where it has none."""
    head = store.head
    if head is None or not store.sweeps:
        raise ValueError(f"{store.path} has no calibration to predict with")
    scheduling = head.engine["scheduling"]
    engine = emulator_of(head.engine["kind"], scheduling, CostModel(**fitted(store.sweeps, scheduling).cost))
    found: list[Run] = []
    for (workload, repeat), line in store.cases.items():
        runs = [run.arm for run in store.runs if (run.workload, run.repeat) == (workload, repeat)]
        names = list(dict.fromkeys([*runs, *(arm.name for arm in (parse_arms(arms) if arms else ()))]))
        batch = get_cases([workload])[0].batch(head.seed, line.agents, repeat=repeat)
        say(f"predicting {workload}, repeat {repeat}: {len(names)} arms")
        found += [
            predict(workload, batch, engine, arm, seed=head.seed, tick_s=head.tick_s, repeat=repeat)
            for arm in (parse_arms(",".join(names)) if names else ())
        ]
    store.predicted(found)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _guard(console: Console, work: Callable[[], None], path: Path) -> None:
    """Do the work; say what went wrong; report what there is, however it ended."""
    code = 0
    try:
        work()
        store = Store.load(path)
        if store.head is None:
            raise ValueError(f"{path} has nothing measured in it")
        sys.stdout.write(markdown(store))
    except (EngineError, OSError, ValueError) as error:
        console.print(f"error: {error}", style="bold red", highlight=False, soft_wrap=True, markup=False)
        code = 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print(f"interrupted: what was measured is in {path}; the same command goes on", style="yellow")
        code = INTERRUPTED
    if code:
        raise typer.Exit(code)
