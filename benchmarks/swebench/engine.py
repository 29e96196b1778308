"""The engine a run talks to: the emulator, a server that is started for the run, or one that runs already."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from benchmarks.engines.emulated import embedded
from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.kinds import Needs
from benchmarks.engines.launch import launched
from benchmarks.engines.wire import EngineError
from benchmarks.swebench.config import LAUNCH, RunConfig

__all__ = ["open_engine"]


@contextlib.asynccontextmanager
async def open_engine(
    config: RunConfig, log: Path, needs: Needs | None = None, *, python: Path | None = None
) -> AsyncIterator[Engine]:
    """The run's engine. One that is started here has ended when the block is left.

    Args:
        config: which engine.
        log: file for what an engine that is started here prints.
        needs: how it must be started; None for as it is.
        python: interpreter of the environment that has the server to launch; None for the one in use.

    Raises:
        EngineError: it cannot be started or reached, or not in the way that is needed.
    """
    needs = needs or Needs()
    if config.embedded:
        async with embedded(
            preset=config.preset,
            pool_tokens=config.pool_tokens,
            speedup=config.speedup,
            log=log,
            more=_emulated_flags(needs),
        ) as engine:
            yield engine
    elif config.engine == LAUNCH and config.server is not None:
        launch = replace(config.server.launch, python=python)
        async with launched(launch, launch.kind.flags(needs), log=log) as engine:
            yield engine
    else:
        if needs != Needs():
            raise EngineError(f"{config.engine} runs already, so no arm can have it started in another way")
        yield await connect(config.engine)


def _emulated_flags(needs: Needs) -> list[str]:
    flags: list[str] = []
    if needs.max_running_requests is not None:
        flags += ["--max-running-requests", str(needs.max_running_requests)]
    if needs.host_cache is not None:
        flags += ["--host-cache", f"{needs.host_cache:g}"]
    return flags
