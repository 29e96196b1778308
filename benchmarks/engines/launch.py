"""Starting a server: with its flags, until it is healthy, and ended with everything that it started."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.kinds import SGLANG, Kind, listed
from benchmarks.engines.process import free_port, serve
from benchmarks.engines.wire import EngineError, call

__all__ = ["Launch", "launched"]

OURS = ("PYTHON", "VIRTUAL_")
"""Variables of the benchmark's own environment, which mean nothing in the server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A server to start."""

    kind: Kind = SGLANG
    model: str
    """A folder, or a name on the hub."""
    flags: Sequence[str] = ()
    """Of the server, as on its command line."""
    python: Path | None = None
    """Interpreter of the environment that has the server; None for the benchmark's own."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables set for the server."""
    start_s: float = 1800.0
    """Seconds until it must be healthy: weights of 600 GB from a network disk take a quarter of an hour."""
    hermetic: bool = False
    """Whether variables that the user has set for such servers (``SGLANG_...``) are kept from this one."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Goes into the record."""

    def command(self, more: Sequence[str] = ()) -> list[str]:
        """Its command line, but for host and port. Raises EngineError where the interpreter is missing."""
        python = Path(sys.executable) if self.python is None else self.python
        if not python.exists():
            raise EngineError(f"there is no {python}: name an environment that has {self.kind.title}")
        return [str(python), "-m", self.kind.module, self.kind.model_flag, self.model, *self.arguments(more)]

    def arguments(self, more: Sequence[str] = ()) -> list[str]:
        """Its flags, those that Concur needs, and ``more``."""
        given = {flag.partition("=")[0] for flag in self.flags}
        needed = {flag: value for flag, value in self.kind.needed.items() if flag not in given}
        return [*listed(needed), *self.flags, *more]


@contextlib.asynccontextmanager
async def launched(launch: Launch, more: Sequence[str] = (), *, log: Path) -> AsyncIterator[Engine]:
    """A server of its own, on a free port of the loopback interface.

    Args:
        launch: what to start.
        more: flags beside its own.
        log: file for what the server prints; begun anew.

    Raises:
        EngineError: it cannot be started, is not healthy in time, or does not describe itself; with the end of its log.
    """
    port = free_port()
    command = launch.command(["--host", "127.0.0.1", "--port", str(port), *more])
    url = f"http://127.0.0.1:{port}"
    async with serve(
        command,
        environment=_environment(launch),
        log=log,
        ready=lambda: _ready(url),
        start_s=launch.start_s,
    ) as server:
        engine = await connect(url)
        about = {**engine.about, "flags": launch.arguments(more), **launch.about}
        yield replace(engine, about=about, session=server.sid, check=server.check)


def _environment(launch: Launch) -> dict[str, str]:
    prefixes = () if launch.python is None else OURS
    if launch.hermetic:
        prefixes = (*prefixes, f"{launch.kind.name.upper()}_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    path = kept.get("PATH", os.defpath)
    if launch.python is not None:  # servers look for their own tools there
        path = f"{launch.python.parent}{os.pathsep}{path}"
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", **launch.kind.environment, **launch.environment}


def _ready(url: str) -> bool:
    """SGLang's ``/health`` generates a token, so it says that all of the server works, not just its front."""
    try:
        return call("GET", f"{url}/health", timeout_s=30.0)[0] == 200
    except EngineError:
        return False
