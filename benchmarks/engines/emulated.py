"""The emulator as an engine: in a thread of this process, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.process import free_port, serve
from benchmarks.engines.wire import EngineError, call
from concur_agents.emulator import CostModel, Emulator, EngineConfig, ServiceConfig

__all__ = ["EMULATED_NAME", "embedded", "emulated", "register"]

EMULATED_NAME = "emulator"
START_S = 60.0
"""It is up in one or two seconds; the rest is for a machine that is busy with something else."""
STOP_S = 5.0


@contextlib.asynccontextmanager
async def emulated(scheduling: Mapping[str, Any], cost: CostModel, *, speedup: float = 1.0) -> AsyncIterator[Engine]:
    """The emulator, in a thread of this process.

    Args:
        scheduling: values of :data:`~benchmarks.engines.engine.SCHEDULING`; what is missing or None stays at its
            default.
        cost: seconds of its forward passes.
        speedup: engine seconds per wall second. > 0.

    Raises:
        ValueError: a value that the emulator refuses.
    """
    known = {name: value for name, value in scheduling.items() if value is not None}
    config = ServiceConfig(engine=EngineConfig(**known), cost=cost, model="words", speedup=speedup)
    with Emulator(config) as emulator:
        yield await connect(emulator.url, name=EMULATED_NAME, speedup=speedup)


@contextlib.asynccontextmanager
async def embedded(
    *, preset: str, pool_tokens: int, speedup: float, log: Path, more: Sequence[str] = ()
) -> AsyncIterator[Engine]:
    """The emulator in a process of its own, which has ended when the block is left.

    Args:
        preset: its cost model, by name.
        pool_tokens: its KV pool.
        speedup: engine seconds per wall second. > 0.
        log: file for what it prints.
        more: flags of ``concur emulate`` besides.

    Raises:
        EngineError: it cannot be started, or has ended in the middle of the block's work.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "concur_agents.cli", "emulate", "--port", str(port), "--preset", preset]
    command += ["--speedup", f"{speedup:g}", "--max-total-tokens", str(pool_tokens), *more]
    async with serve(
        command, environment=os.environ, log=log, ready=lambda: _ready(url), start_s=START_S, stop_s=STOP_S
    ) as server:
        engine = await connect(url, name=EMULATED_NAME, speedup=speedup)
        try:
            yield replace(engine, session=server.sid, check=server.check)
        except EngineError:
            server.check()  # if it has ended, that is the reason
            raise


async def register(
    engine: Engine, session_id: str, replies: Sequence[Mapping[str, Any]], *, match: str | None = None
) -> bool:
    """Have the session's generations answered with ``replies``, in order.

    ``match`` finds the session of requests that name none, by a text in their first user message. Returns False when
    the engine plays no scripts: only the emulator does. Raises EngineError.
    """
    body = {"session_id": session_id, "replies": list(replies), "match": match}
    status, text = await asyncio.to_thread(call, "POST", f"{engine.url}/emulator/scripts", body)
    if status == 404:
        return False
    if status != 200:
        raise EngineError(f"{engine.url}/emulator/scripts answered {status}: {text[:300]}")
    return True


def _ready(url: str) -> bool:
    try:
        return call("GET", f"{url}/health", timeout_s=5.0)[0] == 200
    except EngineError:
        return False
