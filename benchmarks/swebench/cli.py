"""``python -m benchmarks.swebench``: run the benchmark, and look at what a run left."""

from __future__ import annotations

import asyncio
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from benchmarks.engines.wire import EngineError
from benchmarks.interrupts import INTERRUPTED
from benchmarks.interrupts import run as run_interruptibly
from benchmarks.machine import describe
from benchmarks.swebench.agents import AgentPlan, Framework, find_framework, versions
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.listing import list_engines, list_presets, list_tasks
from benchmarks.swebench.planning import load_plans
from benchmarks.swebench.presets import Preset, get_preset
from benchmarks.swebench.progress import open_progress
from benchmarks.swebench.records import RecordError, RunFolder
from benchmarks.swebench.report import report as show_report
from benchmarks.swebench.report import write_page, write_public
from benchmarks.swebench.runner import run_arms
from benchmarks.swebench.sandbox import SandboxError
from benchmarks.swebench.server import Server
from benchmarks.swebench.tasks import CACHE
from benchmarks.swebench.terminal import (
    REFUSALS,
    CacheOption,
    RecordOption,
    about_run,
    complain,
    fail,
    log_to,
    new_folder,
)

__all__ = ["main"]

NAME = "swebench"

PythonOption = Annotated[
    Path | None,
    typer.Option(envvar="CONCUR_SERVER_PYTHON", help="Interpreter of the environment that has the server to launch."),
]

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
    preset: Annotated[str, typer.Option(help="What is not given below, by name: see presets.")] = "laptop",
    agents: Annotated[int | None, typer.Option(help="Agents in the batch.")] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            help="Arms, in order: uncontrolled, fixed:N, budget (the default law), concur (the paper's), config:FILE, "
            "client-requests:N, requests:N (the engine's cap), hicache[:ARM], proxy:FILE or proxy:thunderagent."
        ),
    ] = None,
    framework: Annotated[str | None, typer.Option(help="Whose agents: langgraph or agentscope.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="embedded, launch (starts --server), or the URL of a running engine.")
    ] = None,
    server: Annotated[str | None, typer.Option(help="What launch starts: sglang, vllm or sglang-cpu.")] = None,
    model: Annotated[str | None, typer.Option(help="Its model: a name on the hub, or a folder.")] = None,
    server_flags: Annotated[str | None, typer.Option(help="Its flags, as one text: '--tp 8'.")] = None,
    server_python: PythonOption = None,
    seed: Annotated[int | None, typer.Option(help="The same seed is the same work.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Times each arm runs, interleaved.")] = None,
    launch_rate: Annotated[float | None, typer.Option(help="Agents started a second; 0: all at once.")] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Task ids, or all; by default those with quick tests. Or rows of SWE-bench's form: a file, lite, "
            "verified, full, gym, smith or owner/data-set, and after it the ids of some."
        ),
    ] = None,
    recordings: Annotated[
        Path | None, typer.Option(help="Recorded agents to play again in place of tasks: a file, or a folder of them.")
    ] = None,
    replies: Annotated[str | None, typer.Option(help="scripted, or model: the model's own.")] = None,
    lengths: Annotated[str | None, typer.Option(help="Of scripted agents: short, or full as in real runs.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Generations after which an agent is stopped.")] = None,
    max_output_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a reply, where the model decides; below its context.")
    ] = None,
    sandbox: Annotated[
        str | None, typer.Option(help="Where commands run: bubblewrap (the default), podman or docker.")
    ] = None,
    emulates: Annotated[str | None, typer.Option(help="Cost model of the embedded engine.")] = None,
    speedup: Annotated[float | None, typer.Option(help="Embedded engine: its seconds per second.")] = None,
    pool_tokens: Annotated[int | None, typer.Option(help="Embedded engine: KV pool.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; by default a new one under runs/.")] = None,
    record: RecordOption = None,
    cache: CacheOption = CACHE,
) -> None:
    """Run the same batch of agents through each arm, and print the table."""
    console = Console()
    try:
        given: dict[str, Any] = {
            "agents": agents,
            "arms": None if arms is None else tuple(arm.name for arm in parse_arms(arms)),
            "framework": framework,
            "engine": engine,
            "server": _server(get_preset(preset), server, model, server_flags),
            "seed": seed,
            "repeats": repeats,
            "launch_rate": launch_rate,
            "tasks": None if tasks is None else _names(tasks),
            "recordings": None if recordings is None else str(recordings),
            "replies": replies,
            "lengths": lengths,
            "max_steps": max_steps,
            "max_output_tokens": max_output_tokens,
            "sandbox": sandbox,
            "preset": emulates,
            "speedup": speedup,
            "pool_tokens": pool_tokens,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        config = replace(get_preset(preset).config, **changes)
        chosen = find_framework(config.framework)
        plans = load_plans(console, config, cache)
        about = about_run(NAME, config.to_json(), plans, versions(chosen), machine=describe())
        folder = RunFolder.create(out or new_folder(NAME), about)
    except REFUSALS as error:
        fail(error)
    _finish(console, config, folder, plans, chosen, server_python, record)


@app.command()
def resume(
    run_dir: Annotated[Path, typer.Argument(help="A run's folder.")],
    *,
    server_python: PythonOption = None,
    record: RecordOption = None,
    cache: CacheOption = CACHE,
) -> None:
    """Go on with a run that was interrupted, by whatever: who has ended does not run again."""
    console = Console()
    try:
        folder = RunFolder.open(run_dir)
        about = folder.about()
        config = RunConfig.from_json(about["config"])
        chosen = find_framework(config.framework)
        plans = load_plans(console, config, cache)
        if (now := sorted({plan.task.task_id for plan in plans})) != about["tasks"]:
            raise RecordError(f"{run_dir} is of other tasks than there are now: {', '.join(now)}")
    except KeyError as error:
        fail(RecordError(f"{run_dir}/run.json has no {error}"))
    except REFUSALS as error:
        fail(error)
    _finish(console, config, folder, plans, chosen, server_python, record)


def _names(tasks: str) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in tasks.split(","))))
    if not names:
        raise ValueError(f"tasks must name at least one, or be left out, not {tasks!r}")
    return names


def _server(preset: Preset, kind: str | None, model: str | None, flags: str | None) -> Server | None:
    """What launch starts, if it is not the preset's own: that one with what was given."""
    given = {"kind": kind, "model": model, "flags": None if flags is None else tuple(shlex.split(flags))}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    base = preset.config.server
    if not changes:
        return None
    if base is None:
        return Server(**{"model": "", **changes})
    return replace(base, **changes)


@app.command()
def report(
    run_dirs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    html: Annotated[Path | None, typer.Option(help="Also write one page of all of them here.")] = None,
) -> None:
    """Make tables, summaries, pictures and pages again from the records of runs."""
    try:
        folders = [RunFolder.open(path) for path in run_dirs]
        summaries = [show_report(folder, Console()) for folder in folders]
        if html is not None:
            write_page(list(zip(folders, summaries, strict=True)), html)
    except (ValueError, RecordError, OSError) as error:
        fail(error)


app.command("presets")(list_presets)
app.command("engines")(list_engines)
app.command("tasks")(list_tasks)


def _finish(
    console: Console,
    config: RunConfig,
    folder: RunFolder,
    plans: tuple[AgentPlan, ...],
    framework: Framework,
    python: Path | None,
    record: Path | None,
) -> None:
    """Run to the end, or to where it is interrupted; show what there is, and exit."""
    summary = None
    try:
        with folder.alone():
            code = _run(console, config, folder, plans, framework, python)
            try:
                if code and folder.is_empty():
                    console.print("No agent has ended.")
                else:
                    summary = show_report(folder, console)
            except (RecordError, OSError) as error:
                complain(error)
                code = code or 1
    except (RecordError, OSError) as error:
        fail(error)
    if code:
        console.print(f"[dim]To go on: python -m benchmarks.swebench resume {folder.path}[/]", highlight=False)
    if record is not None and summary is not None:
        try:
            write_public(summary, record)
        except (RecordError, OSError) as error:
            fail(error)
    if code:
        raise typer.Exit(code)


def _run(
    console: Console,
    config: RunConfig,
    folder: RunFolder,
    plans: tuple[AgentPlan, ...],
    framework: Framework,
    python: Path | None,
) -> int:
    log_to(folder.path / "concur.log", ("concur_agents", "benchmarks", *framework.LOGGERS))
    try:
        with open_progress(console, config.agents, _runs_left(config, folder)) as progress:
            run_interruptibly(run_arms(config, plans, folder, progress, python=python))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("[yellow]Interrupted.[/] What there is:")
        return INTERRUPTED
    except (EngineError, SandboxError, RecordError, OSError) as error:  # the last: a disk so full that no log can begin
        complain(error)
        return 1
    return 0


def _runs_left(config: RunConfig, folder: RunFolder) -> int:
    runs = (folder.arm(arm, repeat) for arm in config.arms for repeat in range(1, config.repeats + 1))
    return sum(run.closing() is None for run in runs)
