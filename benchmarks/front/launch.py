"""A front in a process of its own, as an engine like any other."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.process import free_port, serve
from benchmarks.engines.wire import EngineError, call
from benchmarks.front.prompts import CHARACTERS

__all__ = ["open_front"]

START_S = 60.0
STOP_S = 5.0


@contextlib.asynccontextmanager
async def open_front(
    engine: Engine,
    log: Path,
    *,
    characters: int = CHARACTERS,
    through: str | None = None,
    port: int | None = None,
) -> AsyncIterator[Engine]:
    """The engine as it looks from before its front, which has ended when the block is left.

    Args:
        engine: SGLang, or an emulator.
        log: file for what the front prints.
        characters: of a chat's text in one token.
        through: of a proxy between front and engine, see :func:`~benchmarks.front.app.create_app`.
        port: to listen on; None for any free one.

    Raises:
        EngineError: it cannot be started, or is not before an engine that says what it is.
    """
    port = free_port() if port is None else port
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "benchmarks.front", "--engine", engine.url, "--port", str(port)]
    command += ["--characters", str(characters)]
    if through is not None:
        command += ["--through", through]
    async with serve(
        command, environment=os.environ, log=log, ready=lambda: _ready(url), start_s=START_S, stop_s=STOP_S
    ) as server:

        def check() -> None:
            engine.check()
            server.check()

        about = {**engine.about, "characters_per_token": characters}
        seen = await connect(url)
        yield replace(engine, url=seen.url, model=seen.model, about=about, check=check)


def _ready(url: str) -> bool:
    try:
        return call("GET", f"{url}/v1/models", timeout_s=5.0)[0] == 200
    except EngineError:
        return False
