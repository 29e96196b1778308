"""``python -m benchmarks.chaos run`` and ``replay``: one line a run, and how to repeat those that failed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from benchmarks import interrupts
from benchmarks.chaos.kinds import Kind, draw, kind_of
from benchmarks.engines import warden

__all__ = ["app", "main"]

FOLDER = Path("runs/chaos")
RUN_S = 300.0
"""Seconds after which a run is ended; its own limits are below."""
_POLL_S = 0.05

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Random runs of the gateway and of a shared controller: processes die and freeze, connections break.",
)
_Kind = Annotated[Kind | None, typer.Option(help="Of all runs; else a seed's own: they take turns.")]
_Keep = Annotated[Path, typer.Option(help="Folder for the logs of runs that failed.")]


@app.command()
def run(
    *,
    runs: Annotated[int, typer.Option(min=1, help="So many seeds.")] = 100,
    seed: Annotated[int, typer.Option(help="The first of them.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    kind: _Kind = None,
    keep: _Keep = FOLDER,
) -> None:
    """Run seed after seed. Ends with 1 if one failed."""
    _finish(range(seed, seed + runs), kind, jobs, keep)


@app.command()
def replay(
    seeds: Annotated[list[int], typer.Argument(help="Seeds of runs that failed.")],
    *,
    kind: _Kind = None,
    keep: _Keep = FOLDER,
) -> None:
    """Run the same plans again. Ends with 1 if one failed."""
    _finish(seeds, kind, 1, keep)


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


def _finish(seeds: Sequence[int], kind: Kind | None, jobs: int, keep: Path) -> None:
    try:
        failed = interrupts.run(_all(seeds, kind, jobs, keep))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(interrupts.INTERRUPTED) from None
    typer.echo(f"{len(seeds) - len(failed)} of {len(seeds)} runs passed", nl=not failed)
    if failed:
        typer.echo(f"; replay: {_replay(kind, failed)}")
        raise typer.Exit(1)


def _replay(kind: Kind | None, seeds: Sequence[int]) -> str:
    options = "" if kind is None else f"--kind {kind} "
    return f"python -m benchmarks.chaos replay {options}{' '.join(map(str, seeds))}"


async def _all(seeds: Sequence[int], kind: Kind | None, jobs: int, keep: Path) -> list[int]:
    """The seeds that failed."""
    at_a_time = asyncio.Semaphore(jobs)
    failed: list[int] = []

    async def one(seed: int) -> None:
        async with at_a_time:
            began = time.monotonic()
            is_a = kind or kind_of(seed)
            folder = keep / f"{is_a}-{seed}"
            result = await _one(is_a, seed, folder)
        if result.failures:
            failed.append(seed)
        _show(is_a, seed, result, time.monotonic() - began, folder)

    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(one(seed))
    return sorted(failed)


@dataclass(frozen=True, slots=True)
class _Result:
    failures: Sequence[str]
    steps: int = 0


async def _one(kind: Kind, seed: int, folder: Path) -> _Result:
    """One run in a process session that ends with it, or with us, however we end."""
    _renew(folder)
    with (folder / "result.json").open("wb") as out, (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - quick, and unlike asyncio's not cancelled half-way
            [
                *(sys.executable, "-I", warden.__file__, "0"),
                *(sys.executable, "-m", "benchmarks.chaos.one", kind, str(seed), str(folder)),
            ],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=log,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(RUN_S):
            while process.poll() is None:  # noqa: ASYNC110 - processes set no Event
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return _Result([f"the run did not end within {RUN_S:g} s"])
    finally:
        if process.stdin is not None:
            process.stdin.close()
        warden.kill_all(process.pid)
        process.wait()
    try:
        result = json.loads((folder / "result.json").read_text())
    except ValueError:
        return _Result([f"the run broke off:\n{(folder / 'run.log').read_text()[-2000:]}"])
    return _Result(result["failures"], result["steps"])


def _renew(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _show(kind: Kind, seed: int, result: _Result, seconds: float, folder: Path) -> None:
    plan = draw(kind, seed)
    faults = [str(fault) for fault in plan.faults]
    faults += [step.fault for steps in plan.steps() for step in steps if step.fault]
    verdict = "FAILED" if result.failures else "ok"
    typer.echo(
        f"seed {seed:<5} {kind:7} {verdict:6} {seconds:5.1f} s  {len(plan.steps()):2} agents,"
        f" {result.steps:3} steps, {plan.law:7}  {', '.join(faults)}"
    )
    if not result.failures:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()
        return
    for failure in result.failures:
        typer.echo("    " + failure.replace("\n", "\n    "))
    typer.echo(f"    logs: {folder}; again: {_replay(kind, [seed])}")
