"""``python -m benchmarks.front.dynamo``: Dynamo's frontend, its ThunderAgent router and a worker, as one program.

The smallest set-up in which the router runs: files for discovery, TCP for requests, ZeroMQ for events, so neither etcd
nor NATS; a worker that sends what is routed to a server that runs (``worker.py``). Everything ends with the first part.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from benchmarks.engines.sglang_cpu.model import write_model
from benchmarks.front.dynamo.install import ensure_installed

__all__ = ["environment", "main", "parts", "together"]

WORKER = Path(__file__).with_name("worker.py")
WORKER_ENDPOINT = "dynamo.backend.generate"
BLOCK = 16
"""Tokens in a block of the router's, as Dynamo's own scripts for this router have it."""
HIDDEN = "internal"
"""The worker's model, which clients do not ask for."""
STOP_S = 5.0

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


@app.command()
def run(
    *,
    engine: Annotated[str, typer.Option(help="URL that token ids are sent to (POST /generate).")],
    port: Annotated[int, typer.Option(help="Of Dynamo's HTTP frontend.")],
    model: Annotated[str, typer.Option(help="What clients call the model.")] = "words",
    options: Annotated[
        str, typer.Option(help="More flags of the router: '--pause-threshold 0.9 --scheduler-interval-seconds 1'.")
    ] = "",
) -> None:
    """Start them all, and run until told to end, or until one of them does."""
    python = ensure_installed()
    with tempfile.TemporaryDirectory(prefix="dynamo-") as scratch:
        folder = Path(scratch) / "model"
        write_model(folder)
        commands = parts(python, engine=engine, port=port, folder=folder, model=model, options=options.split())
        code = asyncio.run(together(commands, environment(Path(scratch))))
    raise typer.Exit(code)


def parts(
    python: Path, *, engine: str, port: int, folder: Path, model: str, options: Sequence[str] = ()
) -> list[list[str]]:
    """The command lines: worker, router, frontend."""
    router = ["--endpoint", WORKER_ENDPOINT, "--model-name", model, "--model-path", str(folder)]
    router += ["--router-block-size", str(BLOCK), "--no-router-kv-events", *options]
    frontend = ["--http-host", "127.0.0.1", "--http-port", str(port), "--router-mode", "round-robin"]
    return [
        [str(python), str(WORKER), engine, WORKER_ENDPOINT, str(folder), HIDDEN, str(BLOCK)],
        [str(python), "-m", "dynamo.thunderagent_router", *router],
        [str(python), "-m", "dynamo.frontend", *frontend],
    ]


def environment(scratch: Path) -> dict[str, str]:
    """Theirs: what would configure Dynamo from outside is not for a benchmark, and nothing of a run stays behind."""
    strange = ("DYN_", "PYTHON", "VIRTUAL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    ours = {
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_FILE_KV": str(scratch / "discovery"),
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_TCP_RPC_HOST": "127.0.0.1",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_SELF_HOST_METADATA": "0",
        "HOME": str(scratch),
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
    }
    return kept | ours


async def together(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> int:
    """Run them until one ends, or until told to end; then end the others. 1 where one ended by itself."""
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    started: list[asyncio.subprocess.Process] = []
    try:
        for command in commands:
            process = await asyncio.create_subprocess_exec(*command, env=dict(environment))
            started.append(process)
        waits = [asyncio.ensure_future(wait) for wait in (told.wait(), *(process.wait() for process in started))]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return 0 if told.is_set() else 1
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in started:
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()


if __name__ == "__main__":
    main()
