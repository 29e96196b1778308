"""``python -m benchmarks.mini_swe_agent``: run the benchmark, and look again at what a run left."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from benchmarks.engines.wire import EngineError
from benchmarks.interrupts import INTERRUPTED
from benchmarks.interrupts import run as run_interruptibly
from benchmarks.mini_swe_agent.runner import KINDS, RunnerError, run_arms
from benchmarks.mini_swe_agent.table import gateways
from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.config import EMBEDDED, LAUNCH, RunConfig
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.records import RecordError, RunFolder, write_json
from benchmarks.swebench.report import render, write_public
from benchmarks.swebench.sandbox import SandboxError, check_available
from benchmarks.swebench.server import SGLANG_CPU, Server
from benchmarks.swebench.summary import summarise
from benchmarks.swebench.tasks import CACHE, load_tasks
from benchmarks.swebench.terminal import REFUSALS, CacheOption, RecordOption, about_run, complain, fail, new_folder

__all__ = ["main"]

CHARACTERS = 16
"""Of ``launch``: 64 agents' contexts then fill its pool of 16,000 tokens some seven times."""
DEFAULTS = RunConfig(arms=("uncontrolled", "budget"))
PACKAGES = ("concur-agents", "concur-agents-mini-swe-agent", "mini-swe-agent", "litellm", "openai", "datasets")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="mini-swe-agent's own batch runner (mini-extra swebench), with and without Concur.",
)


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


@app.command()
def run(
    *,
    agents: Annotated[int, typer.Option(help="Instances in the batch, and workers of the runner.")] = DEFAULTS.agents,
    arms: Annotated[
        str,
        typer.Option(
            help="Arms, in order: uncontrolled, budget, fixed:N, concur[:alpha=2,...], gateway[:one of these]."
        ),
    ] = ",".join(DEFAULTS.arms),
    engine: Annotated[
        str, typer.Option(help="embedded, launch (real SGLang on a CPU), or the URL of a running engine.")
    ] = EMBEDDED,
    characters: Annotated[
        int | None,
        typer.Option(
            help="Of text in one token that the engine gets, while the words are the script's; a multiple of 4. "
            f"By default {CHARACTERS} with launch; with a URL none: the model reads and answers for itself."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed is the same work.")] = DEFAULTS.seed,
    repeats: Annotated[int, typer.Option(help="Times each arm runs, interleaved.")] = DEFAULTS.repeats,
    preset: Annotated[str, typer.Option(help="Cost model of the embedded engine.")] = DEFAULTS.preset,
    speedup: Annotated[float, typer.Option(help="Embedded engine: its seconds per second.")] = DEFAULTS.speedup,
    pool_tokens: Annotated[int, typer.Option(help="Embedded engine: KV pool.")] = DEFAULTS.pool_tokens,
    tick: Annotated[
        float | None, typer.Option(help="Seconds between Concur's readings; by default an engine second.")
    ] = None,
    limit: Annotated[float, typer.Option(help="Seconds until an arm is given up.")] = 1800.0,
    out: Annotated[Path | None, typer.Option(help="Run folder; by default a new one under runs/.")] = None,
    record: RecordOption = None,
    cache: CacheOption = CACHE,
) -> None:
    """Run the same batch through each arm, and print the table."""
    console = Console()
    try:
        if characters is None:
            characters = CHARACTERS if engine == LAUNCH else 0
        config = RunConfig(
            agents=agents,
            arms=tuple(arm.name for arm in parse_arms(arms, KINDS)),
            engine=engine,
            server=Server(kind=SGLANG_CPU, model="words") if engine == LAUNCH else None,
            characters_per_token=characters,
            replies="scripted" if engine == EMBEDDED or characters else "model",
            seed=seed,
            repeats=repeats,
            preset=preset,
            speedup=speedup,
            pool_tokens=pool_tokens,
        )
        check_available()
        with console.status("Preparing the tasks (the first time some 7 MB are fetched)"):
            plans = plan_agents(config, load_tasks(cache))
        folder = RunFolder.create(out or new_folder("mini-swe-agent"), _about(config, plans, tick))
    except REFUSALS as error:
        fail(error)
    code = 0
    try:
        with console.status(f"{agents} instances, {len(config.arms)} arms, {repeats} times; log: {folder.path}"):
            run_interruptibly(run_arms(config, plans, folder, tick_s=tick or config.tick_s, limit_s=limit))
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = INTERRUPTED
    except (EngineError, SandboxError, RunnerError) as error:
        complain(error)
        code = 1
    summary = _report(folder, console)
    if record is not None and not code:
        write_public(summary, record)
    raise typer.Exit(code)


@app.command()
def report(run_dir: Annotated[Path, typer.Argument(help="A run's folder.")]) -> None:
    """Make the table again from a run's records."""
    try:
        _report(RunFolder.open(run_dir), Console())
    except (ValueError, RecordError) as error:
        fail(error)


def _report(folder: RunFolder, console: Console) -> Mapping[str, Any]:
    summary = summarise(folder)
    summary["config"] = {**summary["config"], "framework": "mini-swe-agent"}
    for name, arm in summary["arms"].items():
        closings = [folder.arm(name, repeat).closing() or {} for repeat in range(1, summary["config"]["repeats"] + 1)]
        arm["gateway"] = [closing["gateway"] for closing in closings if "gateway" in closing] or None
    write_json(folder.path / "summary.json", summary)
    console.print(render(summary), *gateways(summary), sep="\n")
    return summary


def _about(config: RunConfig, plans: tuple[AgentPlan, ...], tick: float | None) -> dict[str, Any]:
    """What a reader of the figures has to know."""
    return about_run(
        "mini_swe_agent",
        {name: value for name, value in config.to_json().items() if name != "framework"},
        plans,
        {
            "python": platform.python_version(),
            **{package: importlib.metadata.version(package) for package in PACKAGES},
        },
        tick_s=tick or config.tick_s,
    )
