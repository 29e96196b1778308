"""``python -m benchmarks.swebench``: run the benchmark, and look at what a run left."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.swebench.agents import AgentPlan, Framework, find_framework, versions
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.edits import EditError
from benchmarks.swebench.engine import EngineError
from benchmarks.swebench.fetch import FetchError
from benchmarks.swebench.progress import open_progress
from benchmarks.swebench.records import RecordError, RunFolder
from benchmarks.swebench.report import report as show_report
from benchmarks.swebench.report import write_public
from benchmarks.swebench.runner import plan_agents, run_arms
from benchmarks.swebench.sandbox import SandboxError, SandboxUnavailable, check_available
from benchmarks.swebench.tasks import CACHE, load_tasks

__all__ = ["main"]

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT)."""
DEFAULTS = RunConfig()
REFUSALS = (ValueError, RecordError, SandboxUnavailable, FetchError, EditError)
"""What a user can put right; each message says how. (A SpecError is a ValueError.)"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="SWE-style tasks, really run: how much sooner a batch of agents finishes with Concur.",
)


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


@app.command()
def run(
    *,
    agents: Annotated[int, typer.Option(help="Agents in the batch.")] = DEFAULTS.agents,
    arms: Annotated[
        str,
        typer.Option(
            help="Arms, in order: uncontrolled, fixed:N, budget (the default law), concur (the paper's), config:FILE."
        ),
    ] = ",".join(DEFAULTS.arms),
    framework: Annotated[str, typer.Option(help="Whose agents: langgraph or agentscope.")] = DEFAULTS.framework,
    engine: Annotated[str, typer.Option(help="embedded, or the URL of a running engine.")] = DEFAULTS.engine,
    seed: Annotated[int, typer.Option(help="The same seed is the same work.")] = DEFAULTS.seed,
    repeats: Annotated[int, typer.Option(help="Times each arm runs, interleaved.")] = DEFAULTS.repeats,
    tasks: Annotated[str, typer.Option(help="Task ids, or all; by default those with quick tests.")] = "",
    replies: Annotated[str, typer.Option(help="scripted, or model: the model's own.")] = DEFAULTS.replies,
    preset: Annotated[str, typer.Option(help="Cost model of the embedded engine.")] = DEFAULTS.preset,
    speedup: Annotated[float, typer.Option(help="Embedded engine: its seconds per second.")] = DEFAULTS.speedup,
    pool_tokens: Annotated[int, typer.Option(help="Embedded engine: KV pool.")] = DEFAULTS.pool_tokens,
    out: Annotated[Path | None, typer.Option(help="Run folder; by default a new one under runs/.")] = None,
    record: Annotated[Path | None, typer.Option(help="Also write the summary here, naming no machine.")] = None,
    cache: Annotated[Path, typer.Option(help="Where archives and workspaces are kept.")] = CACHE,
) -> None:
    """Run the same batch of agents through each arm, and print the table."""
    console = Console()
    try:
        config = RunConfig(
            agents=agents,
            arms=tuple(arm.name for arm in parse_arms(arms)),
            framework=framework,
            engine=engine,
            seed=seed,
            repeats=repeats,
            tasks=tuple(filter(None, (name.strip() for name in tasks.split(",")))),
            replies=replies,
            preset=preset,
            speedup=speedup,
            pool_tokens=pool_tokens,
        )
        check_available()
        chosen = find_framework(framework)
        with console.status("Preparing the tasks (the first time some 4 MB are fetched)"):
            plans = plan_agents(config, load_tasks(cache))
        folder = RunFolder.create(out or _new_folder(), _about(config, plans, chosen))
    except REFUSALS as error:
        _fail(error)
    code = _finish(console, config, folder, plans, chosen)
    summary = show_report(folder, console)
    if record is not None:
        write_public(summary, record)
    if code:
        raise typer.Exit(code)


@app.command()
def report(run_dir: Annotated[Path, typer.Argument(help="A run's folder.")]) -> None:
    """Make table, summary and picture again from a run's records."""
    try:
        show_report(RunFolder.open(run_dir), Console())
    except (ValueError, RecordError) as error:
        _fail(error)


@app.command("tasks")
def list_tasks(cache: Annotated[Path, typer.Option(help="Where archives and workspaces are kept.")] = CACHE) -> None:
    """List the tasks."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    table.add_column("task", no_wrap=True)
    table.add_column("report")
    try:
        loaded = load_tasks(cache)
    except REFUSALS as error:
        _fail(error)
    for task in loaded:
        table.add_row(task.task_id, task.problem.strip().splitlines()[0])
    Console().print(table)


def _finish(
    console: Console, config: RunConfig, folder: RunFolder, plans: tuple[AgentPlan, ...], framework: Framework
) -> int:
    """Run to the end, or to where it is interrupted; return the exit code."""
    _log_to(folder.path / "concur.log", ("concur_agents", *framework.LOGGERS))
    try:
        with open_progress(console, config.agents) as progress:
            asyncio.run(_interruptible(run_arms(config, plans, folder, progress)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("[yellow]Interrupted.[/] What there is:")
        return INTERRUPTED
    except (EngineError, SandboxError) as error:
        _complain(error)
        return 1
    return 0


def _log_to(path: Path, loggers: Iterable[str]) -> None:
    """Keep what Concur and the framework log with the run: a late reading must not break into a progress display."""
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in loggers:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False


async def _interruptible(running: Coroutine[Any, Any, None]) -> None:
    """Have SIGTERM end the run as Ctrl-C does: with its records kept and its engine ended."""
    task = asyncio.ensure_future(running)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task


def _fail(error: Exception) -> NoReturn:
    _complain(error)
    raise typer.Exit(2)


def _complain(error: Exception) -> None:
    message = Text.assemble(("error: ", "bold red"), str(error))
    Console(stderr=True).print(message, soft_wrap=True)


def _new_folder() -> Path:
    return Path("runs") / f"swebench-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}"


def _about(config: RunConfig, plans: tuple[AgentPlan, ...], framework: Framework) -> dict[str, Any]:
    """What a reader of the figures has to know; no name of this machine, nor a path on it."""
    return {
        "benchmark": "swebench",
        "config": config.to_json(),
        "tasks": sorted({plan.task.task_id for plan in plans}),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "versions": versions(framework),
    }
