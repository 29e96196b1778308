"""``python -m benchmarks.swebench``: run the benchmark, and look at what a run left."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
import shlex
import signal
import sys
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.engines.kinds import KINDS, listed
from benchmarks.engines.wire import EngineError
from benchmarks.machine import describe
from benchmarks.swebench.agents import AgentPlan, Framework, find_framework, versions
from benchmarks.swebench.arms import HOST_CACHE, parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.edits import EditError, hunks_of
from benchmarks.swebench.fetch import FetchError
from benchmarks.swebench.presets import PRESETS, Preset, get_preset
from benchmarks.swebench.progress import open_progress
from benchmarks.swebench.records import RecordError, RunFolder
from benchmarks.swebench.report import report as show_report
from benchmarks.swebench.report import write_page, write_public
from benchmarks.swebench.rows import read_rows
from benchmarks.swebench.runner import plan_agents, run_arms
from benchmarks.swebench.sandbox import BUBBLEWRAP, SandboxError, SandboxUnavailable, check_available, check_kind
from benchmarks.swebench.server import SGLANG_CPU, Server
from benchmarks.swebench.tasks import CACHE, load_recorded, load_rows, load_tasks, split_source

__all__ = ["main"]

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT)."""
REFUSALS = (ValueError, RecordError, SandboxUnavailable, FetchError, EditError, OSError)
"""What a user can put right; each message says how. (A SpecError is a ValueError, and an OSError names its folder.)"""

PythonOption = Annotated[
    Path | None,
    typer.Option(envvar="CONCUR_SERVER_PYTHON", help="Interpreter of the environment that has the server to launch."),
]
RecordOption = Annotated[Path | None, typer.Option(help="Also write the summary here, naming no machine.")]
CacheOption = Annotated[Path, typer.Option(help="Where archives and workspaces are kept.")]

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
            "verified, full, gym or owner/data-set, and after it the ids of some."
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
        plans = _plans(console, config, cache)
        folder = RunFolder.create(out or _new_folder(), _about(config, plans, chosen))
    except REFUSALS as error:
        _fail(error)
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
        plans = _plans(console, config, cache)
        if (now := sorted({plan.task.task_id for plan in plans})) != about["tasks"]:
            raise RecordError(f"{run_dir} is of other tasks than there are now: {', '.join(now)}")
    except KeyError as error:
        _fail(RecordError(f"{run_dir}/run.json has no {error}"))
    except REFUSALS as error:
        _fail(error)
    _finish(console, config, folder, plans, chosen, server_python, record)


def _plans(console: Console, config: RunConfig, cache: Path) -> tuple[AgentPlan, ...]:
    if config.recordings:
        recorded = load_recorded(Path(config.recordings))
        if len(recorded) < config.agents:
            raise ValueError(
                f"agents must be at most {len(recorded)}, as many as {config.recordings} has, not {config.agents}: "
                "the same one twice would find its twin's prompts cached"
            )
        return plan_agents(config, recorded)
    source, names = split_source(config.tasks)
    if source is not None and config.sandbox == BUBBLEWRAP:
        raise ValueError(
            f"the tasks of {source} run in containers of their own images: add --sandbox docker or --sandbox podman"
        )
    if config.sandbox == BUBBLEWRAP:
        check_available()
    else:
        check_kind(config.sandbox)
    if source is not None:
        with console.status(f"Reading {source}"):
            return _with_work(config, plan_agents(config, load_rows(source, names)))
    with console.status("Preparing the tasks (the first time some 7 MB are fetched)"):
        return plan_agents(config, load_tasks(cache))


def _names(tasks: str) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in tasks.split(","))))
    if not names:
        raise ValueError(f"tasks must name at least one, or be left out, not {tasks!r}")
    return names


def _with_work(config: RunConfig, plans: tuple[AgentPlan, ...]) -> tuple[AgentPlan, ...]:
    """The plans, if there is something for scripts to do. Raises ValueError."""
    lacking = [
        plan.task.task_id for plan in plans if config.replies == "scripted" and not any(hunks_of(plan.task.patch))
    ]
    if lacking:
        raise ValueError(f"{lacking[0]} has no patch for a scripted agent to make: let the model work, --replies model")
    return plans


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


@app.command("presets")
def list_presets() -> None:
    """List the presets, with what must be started by hand and the paper's seconds where there are any."""
    console = Console(soft_wrap=True, highlight=False)
    for preset in PRESETS.values():
        console.print(Text.assemble((preset.name, "bold"), f"  {preset.about}"))
        console.print(f"  {preset.config.repeats} x {', '.join(preset.config.arms)}")
        if preset.paper:
            console.print("  paper: " + ", ".join(f"{arm} {seconds:g} s" for arm, seconds in preset.paper.items()))
        shown = preset.server or preset.config.server
        for line in () if shown is None else shown.commands():
            console.print(f"  $ {line}")


@app.command("engines")
def list_engines() -> None:
    """List the kinds of engines, and what each is told for an arm."""
    console = Console(soft_wrap=True, highlight=False)
    console.print(Text.assemble(("embedded", "bold"), "  the emulator, started anew for each arm"))
    console.print(Text.assemble(("URL", "bold"), "  an SGLang or vLLM server that runs already; it is asked which"))
    for kind in KINDS.values():
        console.print(Text.assemble((f"launch --server {kind.name}", "bold"), f"  python -m {kind.module}"))
        console.print(f"  always: {' '.join(listed(kind.needed))}")
        console.print(f"  requests:N  {kind.request_cap} N")
        if kind.host_cache is not None:
            console.print(f"  hicache  {' '.join(listed(kind.host_cache(HOST_CACHE)))}")
    console.print(
        Text.assemble(
            (f"launch --server {SGLANG_CPU}", "bold"), "  real SGLang on a CPU, installed at first use (9 minutes)"
        )
    )


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
        _fail(error)


@app.command("tasks")
def list_tasks(
    source: Annotated[
        str | None, typer.Option(help="Rows of SWE-bench's form instead: a file, lite, verified, full, gym, smith.")
    ] = None,
    cache: CacheOption = CACHE,
) -> None:
    """List the tasks that a run chooses from, or those of a data set with their container images."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    table.add_column("task", no_wrap=True)
    try:
        if source is None:
            table.add_column("report")
            for task in load_tasks(cache):
                table.add_row(task.task_id, task.problem.strip().splitlines()[0])
        else:
            for heading in ("tests to fix", "image"):
                table.add_column(heading, overflow="fold")
            for row in read_rows(source):
                table.add_row(row.instance_id, str(len(row.fail_to_pass)), row.image)
    except REFUSALS as error:
        _fail(error)
    Console().print(table)


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
                _complain(error)
                code = code or 1
    except (RecordError, OSError) as error:
        _fail(error)
    if code:
        console.print(f"[dim]To go on: python -m benchmarks.swebench resume {folder.path}[/]", highlight=False)
    if record is not None and summary is not None:
        write_public(summary, record)
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
    _log_to(folder.path / "concur.log", ("concur_agents", "benchmarks", *framework.LOGGERS))
    try:
        with open_progress(console, config.agents, _runs_left(config, folder)) as progress:
            asyncio.run(_interruptible(run_arms(config, plans, folder, progress, python=python)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("[yellow]Interrupted.[/] What there is:")
        return INTERRUPTED
    except (EngineError, SandboxError, RecordError, OSError) as error:  # the last: a disk so full that no log can begin
        _complain(error)
        return 1
    return 0


def _runs_left(config: RunConfig, folder: RunFolder) -> int:
    runs = (folder.arm(arm, repeat) for arm in config.arms for repeat in range(1, config.repeats + 1))
    return sum(run.closing() is None for run in runs)


class _LogFile(logging.FileHandler):
    """Says nothing where it cannot be written: on a full disk, records cannot either, and that is said."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, if there is a file to be had: opening one is no part of what is handled below."""
        with contextlib.suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as logging has it
        """Let it go."""


def _log_to(path: Path, loggers: Iterable[str]) -> None:
    """Keep what Concur and the framework log with the run: a late reading must not break into a progress display."""
    handler = _LogFile(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in loggers:
        logger = logging.getLogger(name)
        for replaced in logger.handlers:
            replaced.close()
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
        "machine": describe(),
        "versions": versions(framework),
    }
