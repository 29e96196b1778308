"""The engine a run talks to: the emulator, a server that is started for the run, or one that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from benchmarks.engines.emulated import embedded
from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.kinds import Needs
from benchmarks.engines.launch import launched
from benchmarks.engines.process import Server, free_port
from benchmarks.engines.wire import EngineError
from benchmarks.front.launch import open_front
from benchmarks.swebench.config import LAUNCH, RunConfig
from benchmarks.swebench.proxy import ProxyNeeds

__all__ = ["open_engine"]

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def open_engine(
    config: RunConfig, log: Path, needs: Needs | None = None, *, python: Path | None = None
) -> AsyncIterator[Engine]:
    """The run's engine, as agents and Concur see it. What is started here has ended when the block is left.

    Args:
        config: which engine, and whether it has a front.
        log: file for what an engine that is started here prints; what stands before it has files beside that.
        needs: how it must be started, and what before it; None for as it is.
        python: interpreter of the environment that has the server to launch; None for the one in use.

    Raises:
        EngineError: it cannot be started or reached, or not in the way that is needed.
    """
    needs = needs or Needs()
    proxy = needs.proxy if isinstance(needs, ProxyNeeds) else None
    async with contextlib.AsyncExitStack() as stack:
        engine = await stack.enter_async_context(_engine(config, log, needs, python))
        port = free_port() if proxy is None or proxy.behind_front else proxy.port
        if config.characters_per_token:
            behind = proxy is not None and proxy.behind_front
            front = open_front(
                engine,
                log.with_name("front.log"),
                characters=config.characters_per_token,
                through=f"http://127.0.0.1:{port}" if behind else None,
                port=proxy.port if proxy is not None and behind else None,
            )
            engine = await stack.enter_async_context(front)
        elif proxy is not None and proxy.behind_front:
            raise EngineError("this proxy takes token ids, so it needs a front: set characters_per_token")
        if proxy is not None:
            server = await stack.enter_async_context(proxy.started(engine.url, port, log.with_name("proxy.log")))
            engine = _checking(engine, server)
        yield engine


@contextlib.asynccontextmanager
async def _engine(config: RunConfig, log: Path, needs: Needs, python: Path | None) -> AsyncIterator[Engine]:
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
        await asyncio.to_thread(config.server.install, _log.warning)
        launch, flags = config.server.launch_for(needs, python)
        async with launched(launch, flags, log=log) as engine:
            yield engine
    else:
        if needs.max_running_requests is not None or needs.host_cache is not None:
            raise EngineError(f"{config.engine} runs already, so no arm can have it started in another way")
        yield await connect(config.engine)


def _checking(engine: Engine, server: Server) -> Engine:
    """The engine, which counts as gone when the server before it has ended."""

    def check() -> None:
        engine.check()
        server.check()

    return replace(engine, check=check)


def _emulated_flags(needs: Needs) -> list[str]:
    flags: list[str] = []
    if needs.max_running_requests is not None:
        flags += ["--max-running-requests", str(needs.max_running_requests)]
    if needs.host_cache is not None:
        flags += ["--host-cache", f"{needs.host_cache:g}"]
    return flags
