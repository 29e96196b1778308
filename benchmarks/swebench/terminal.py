"""How a benchmark's program meets its user: what it refuses, where it writes, what it says of itself."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.edits import EditError
from benchmarks.swebench.fetch import FetchError
from benchmarks.swebench.records import RecordError
from benchmarks.swebench.sandbox import SandboxUnavailable

__all__ = ["REFUSALS", "CacheOption", "RecordOption", "about_run", "complain", "fail", "log_to", "new_folder"]

REFUSALS = (
    ValueError,
    RecordError,
    SandboxUnavailable,
    FetchError,
    EditError,
    OSError,
    importlib.metadata.PackageNotFoundError,
)
"""What a user can put right; each message says how. (A SpecError is a ValueError, and an OSError names its folder.)"""

RecordOption = Annotated[Path | None, typer.Option(help="Also write the summary here, naming no machine.")]
CacheOption = Annotated[Path, typer.Option(help="Where archives and workspaces are kept.")]


def fail(error: Exception) -> NoReturn:
    """Say what is wrong, and exit with 2. Raises typer.Exit."""
    complain(error)
    raise typer.Exit(2)


def complain(error: Exception) -> None:
    """Say what is wrong, in one line."""
    message = Text.assemble(("error: ", "bold red"), str(error))
    Console(stderr=True).print(message, soft_wrap=True)


def new_folder(benchmark: str) -> Path:
    """Where a run goes that was told no other folder."""
    return Path("runs") / f"{benchmark}-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}"


def about_run(
    benchmark: str,
    config: Mapping[str, Any],
    plans: Sequence[AgentPlan],
    versions: Mapping[str, str],
    **more: object,
) -> dict[str, Any]:
    """What a reader of the figures has to know; no name of this machine, nor a path on it."""
    return {
        "benchmark": benchmark,
        "config": dict(config),
        "tasks": sorted({plan.task.task_id for plan in plans}),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        **more,
        "versions": dict(versions),
    }


class _LogFile(logging.FileHandler):
    """Says nothing where it cannot be written: on a full disk, records cannot either, and that is said."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, if there is a file to be had: opening one is no part of what is handled below."""
        with contextlib.suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as logging has it
        """Let it go."""


def log_to(path: Path, loggers: Iterable[str]) -> None:
    """Keep what Concur and the framework log with the run: a late reading must not break into a progress display."""
    handler = _LogFile(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in loggers:
        logger = logging.getLogger(name)
        for replaced in logger.handlers:
            replaced.close()
        logger.handlers[:] = [handler]
        logger.propagate = False
