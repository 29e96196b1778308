"""``python -m benchmarks.gateway``: what the gateway costs, what its client library does, and whether it leaks.

Figures are of this machine, with load, proxy and stub engine on the same cores: compare rows of one run, not runs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from benchmarks import interrupts
from benchmarks.engines.wire import EngineError
from benchmarks.gateway.clients import CONNECTIONS, LIBRARIES, compare, installed
from benchmarks.gateway.identity import AT_ONCE, play, read_sessions
from benchmarks.gateway.load import LoadError
from benchmarks.gateway.measure import BENCHMARK, Settings, measure
from benchmarks.gateway.soak import IDS, PREFIX, SoakSettings, soak
from benchmarks.gateway.table import clients as clients_table
from benchmarks.gateway.table import markdown, soaks
from benchmarks.swebench.records import RecordError, read_json, write_json

__all__ = ["main"]

_Result = TypeVar("_Result")
Record = Annotated[Path | None, typer.Option("--json", help="File for the record; naming no machine.")]
app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


@app.command()
def run(
    *,
    file: Record = None,
    repeats: Annotated[int, typer.Option(min=1, help="Times each row is measured, in turns.")] = 3,
    seconds: Annotated[float, typer.Option(min=1, help="Of each load: one connection, and 64.")] = 5,
    streams: Annotated[int, typer.Option(min=0, help="Streams at once; 0 for none.")] = 1000,
    libraries: Annotated[bool, typer.Option(help="Also compare client libraries.")] = True,
) -> None:
    """Added latency, requests a second and streams: direct, nginx, the gateway twice, and the stand-in."""
    console = Console()

    async def work(folder: Path) -> dict[str, Any]:
        record = await measure(
            Settings(repeats=repeats, seconds=seconds, streams=streams),
            folder,
            lambda line: console.print(line, highlight=False, markup=False),
        )
        return record | ({"clients": await compare(repeats, seconds, folder)} if libraries else {})

    record = _done(work)
    if file is not None:
        kept = _read(file).get("soak")
        _write(file, record | ({"soak": kept} if kept else {}))
    console.print()
    _show(console, markdown(record))


@app.command()
def clients(
    *,
    repeats: Annotated[int, typer.Option(min=1, help="Times each library is measured, in turns.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each.")] = 5,
    file: Record = None,
) -> None:
    """Requests a second of HTTP client libraries, against the stub, from one event loop."""
    console = Console()
    missing = [name for name in LIBRARIES if name not in installed()]
    record = _done(lambda folder: compare(repeats, seconds, folder))
    if file is not None:
        _write(file, _read(file) | {"benchmark": BENCHMARK, "clients": record})
    _show(console, "\n".join(clients_table(record, {"connections": CONNECTIONS})))
    if missing:
        console.print(f"- Not installed: {', '.join(missing)}.", highlight=False)


@app.command("soak")
def soak_command(
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="That are stood for.")] = 60,
    speedup: Annotated[float, typer.Option(min=0.1, help="How much faster than that it goes.")] = 20,
    agents_per_minute: Annotated[float, typer.Option(min=1, help="That arrive; each makes 3 requests.")] = 334,
    kinds: Annotated[str, typer.Option(help="Who says its agent's id: ids, prefix or both.")] = f"{IDS},{PREFIX}",
    file: Record = None,
) -> None:
    """Short agents that nobody ends: memory and open files of the gateway, at first and at last."""
    console = Console()
    names = [each.strip() for each in kinds.split(",")]
    if unknown := [name for name in names if name not in (IDS, PREFIX)]:
        _fail(ValueError(f"unknown kind {unknown[0]!r}: choose from {IDS},{PREFIX}"), 2)
    settings = SoakSettings(minutes=minutes, speedup=speedup, agents_per_minute=agents_per_minute)

    async def work(folder: Path) -> dict[str, Any]:
        return {name: await soak(name, settings, folder) for name in names}

    record = _done(work)
    if file is not None:
        _write(file, _read(file) | {"benchmark": BENCHMARK, "soak": record})
    _show(console, "\n".join(soaks(record)))


@app.command()
def identity(
    recorded: Annotated[Path, typer.Argument(help="Sessions: .jsonl, .jsonl.gz, or a folder of trajectories.")],
    *,
    seed: Annotated[int, typer.Option(help="Of the order.")] = 0,
) -> None:
    """Recorded conversations, told apart by what they say alone. Ends with 1 if one was mistaken for another."""
    try:
        told = play(read_sessions(recorded), seed)
    except (OSError, ValueError) as error:
        _fail(error, 2)
    _show(
        Console(),
        f"{told.sessions} sessions of {told.requests:,} requests, {AT_ONCE} at once: {told.agents} agents; "
        f"{told.mistaken} requests taken for another session's, {told.split} for a new agent's",
    )
    raise typer.Exit(1 if told.mistaken else 0)


@app.command()
def report(file: Annotated[Path, typer.Argument(help="A record.")]) -> None:
    """The record's tables again."""
    record = _read(file)
    if "arms" not in record:
        _fail(ValueError(f"{file} holds no measurement: python -m benchmarks.gateway run --json {file}"), 2)
    _show(Console(), markdown(record))


def _done(work: Callable[[Path], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run it with a folder of its own, which is gone afterwards, as is every process that it started."""
    with tempfile.TemporaryDirectory(prefix="concur-gateway-") as folder:
        place = Path(folder)
        place.chmod(0o755)  # nginx's workers are another user's
        try:
            return interrupts.run(work(place))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise typer.Exit(interrupts.INTERRUPTED) from None
        except (EngineError, LoadError, FileNotFoundError, RuntimeError) as error:
            _fail(error, 1)


def _read(file: Path) -> dict[str, Any]:
    """What the file holds already; nothing where there is none."""
    if not file.exists():
        return {}
    try:
        found: dict[str, Any] = read_json(file)
    except (RecordError, json.JSONDecodeError) as error:
        _fail(error, 2)
    if found.get("benchmark") != BENCHMARK:
        _fail(ValueError(f"{file} is no record of this benchmark"), 2)
    return found


def _write(file: Path, record: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, record)


def _show(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _fail(error: Exception, code: int) -> NoReturn:
    Console(stderr=True).print(f"[bold red]error: [/]{escape(str(error))}", soft_wrap=True, highlight=False)
    raise typer.Exit(code)
