"""``python -m benchmarks.frameworks run``: the same batch in each framework, with and without Concur, in turns.

One repeat is one run of ``benchmarks.swebench`` in each framework's own environment, one after the other: first
uncontrolled, then the other arms, or in another order in the next repeat. So each ratio is of arms that ran within the
same minutes, and what changes on the machine changes for all frameworks alike.
"""

from __future__ import annotations

import contextlib
import datetime
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from benchmarks.frameworks.environments import LINES, ROOT, InstallError, Line, ensure
from benchmarks.frameworks.record import merged
from benchmarks.frameworks.table import markdown
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import RecordError, RunFolder, read_json, write_json

__all__ = ["main"]

T = TypeVar("T")

HOME = Path(".cache/frameworks")
INTERRUPTED = 130
GRACE_S = 20.0
"""A run that was interrupted ends within a few seconds; one that was not told so is, after this long."""
KEYS = ",".join(line.key for line in LINES)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The same agents in LangGraph and both lines of AgentScope: what Concur gains in each.",
)


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    *,
    repeats: Annotated[int, typer.Option(min=1, help="Times each arm runs in each framework, interleaved.")] = 1,
    arms: Annotated[str, typer.Option(help="As for benchmarks.swebench.")] = ",".join(RunConfig().arms),
    frameworks: Annotated[str, typer.Option(help="Which, in order.")] = KEYS,
    out: Annotated[Path | None, typer.Option(help="Run folder; by default a new one under runs/.")] = None,
    record: Annotated[Path | None, typer.Option(help="Also write the record here, naming no machine.")] = None,
) -> None:
    """Measure; other options (--agents, --speedup, --seed, ...) are passed on to ``benchmarks.swebench run``."""
    console = Console()
    try:
        names = [arm.name for arm in parse_arms(arms)]
        lines = _lines(frameworks)
        pythons = {}
        for line in lines:
            with console.status(f"Preparing an environment with {line.title} (installs it the first time)"):
                pythons[line.key] = ensure(line, HOME)
    except (ValueError, InstallError) as error:
        _fail(error, 2)
    folder = out or Path("runs") / f"frameworks-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}"
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        _fail(ValueError(f"{folder} is not empty: choose another --out"), 2)
    code = 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to end as with Ctrl-C, and the run with us
    try:
        for repeat in range(1, repeats + 1):
            for line in _turned(lines, repeat):
                options = ["--framework", line.framework, "--arms", ",".join(_turned(names, repeat)), *context.args]
                _run(console, line, repeat, folder, [str(pythons[line.key]), *_command(options)])
    except KeyboardInterrupt:
        console.print("[yellow]Interrupted.[/] What there is of whole repeats:")
        code = INTERRUPTED
    _close(console, folder, record)
    raise typer.Exit(code)


@app.command()
def report(
    run_dir: Annotated[Path, typer.Argument(help="A run's folder.")],
    record: Annotated[Path | None, typer.Option(help="Also write the record here, naming no machine.")] = None,
) -> None:
    """Make record and table again from a run's folders."""
    _close(Console(), run_dir, record)


def _command(options: Sequence[str]) -> list[str]:
    return ["-m", "benchmarks.swebench", "run", "--repeats", "1", *options]


def _run(console: Console, line: Line, repeat: int, folder: Path, command: list[str]) -> None:
    """One framework's arms, once. Leaves its folder and what it printed; says in a line how it went."""
    place = folder / f"{line.key}-{repeat}"
    log = folder / f"{place.name}.log"
    with (
        console.status(f"Repeat {repeat}: {line.title}"),
        log.open("w") as stream,
        subprocess.Popen([*command, "--out", str(place.resolve())], cwd=ROOT, stdout=stream, stderr=stream) as process,
    ):
        try:
            code = process.wait()
        except KeyboardInterrupt:
            try:
                process.wait(GRACE_S)  # a Ctrl-C reaches it too: it ends its engine and sandboxes, then itself
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
            raise
    if code:
        end = log.read_text(errors="replace").strip().splitlines()[-3:]
        _fail(RuntimeError("\n".join([f"{line.title} ended with {code}; see {log}", *end])), 1)
    figures = read_json(place / "summary.json")["arms"]
    times = ", ".join(f"{name} {arm['makespan_s']:.1f} s" for name, arm in figures.items())
    console.print(f"repeat {repeat}, {line.title}: {times}", highlight=False)


def _close(console: Console, folder: Path, record: Path | None) -> None:
    """Merge what there is, and show it."""
    try:
        data = merged({line: _runs(folder, line) for line in LINES})
    except (ValueError, RecordError) as error:
        _fail(error, 1)
    for path in filter(None, (folder / "frameworks.json", record)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, data)
    console.print()
    console.print(markdown(data), markup=False, highlight=False, soft_wrap=True)


def _runs(folder: Path, line: Line) -> dict[int, RunFolder]:
    """The line's runs that got to their end, by repeat."""
    found = {}
    for path in folder.glob(f"{line.key}-*"):
        with contextlib.suppress(ValueError):  # a log beside a folder
            repeat = int(path.name.removeprefix(f"{line.key}-"))
            if (path / "summary.json").exists():
                found[repeat] = RunFolder.open(path)
    return dict(sorted(found.items()))


def _lines(names: str) -> list[Line]:
    by_key = {line.key: line for line in LINES}
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in chosen if name not in by_key]:
        raise ValueError(f"unknown framework {unknown[0]!r}: choose from {KEYS}")
    if not chosen:
        raise ValueError(f"no framework given: choose from {KEYS}")
    return [by_key[name] for name in chosen]


def _turned(items: Sequence[T], repeat: int) -> list[T]:
    """Each goes first in turn: a machine that warms up favours nobody."""
    shift = (repeat - 1) % len(items)
    return [*items[shift:], *items[:shift]]


def _fail(error: Exception, code: int) -> NoReturn:
    Console(stderr=True).print(f"[bold red]error: [/]{escape(str(error))}", soft_wrap=True, highlight=False)
    raise typer.Exit(code)
