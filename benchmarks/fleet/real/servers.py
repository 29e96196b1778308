"""The servers: real SGLang on this CPU, each with a pool of its own, or emulators."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from benchmarks.engines.choice import REAL
from benchmarks.engines.emulated import EMULATED_NAME, embedded
from benchmarks.engines.engine import Engine
from benchmarks.engines.sglang_cpu.install import ensure_installed, ensure_model, python_of
from benchmarks.engines.sglang_cpu.server import sglang_cpu
from benchmarks.engines.wire import EngineError

__all__ = ["KINDS", "opened"]

KINDS = (REAL, EMULATED_NAME)
POOL_TOKENS = 16_000
"""Of an emulator: as the real one's."""


@contextlib.asynccontextmanager
async def opened(
    kind: str,
    count: int,
    *,
    home: Path,
    venv: Path | None = None,
    speedup: float = 1.0,
    say: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[list[Engine]]:
    """So many servers, ended with all their processes when the block is left.

    A real one has one thread for its forward passes (see ``benchmarks/engines/sglang_cpu/server.py``), so two of them
    have a core each on a machine with two.

    Args:
        kind: one of :data:`KINDS`.
        count: servers.
        home: folder for environment, model and logs.
        venv: environment that has SGLang; installed under ``home`` where there is none.
        speedup: engine seconds per second, of emulators.
        say: told what takes long.

    Raises:
        ValueError: an unknown kind.
        EngineError: one cannot be started.
    """
    if kind not in KINDS:
        raise ValueError(f"engine must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind == REAL and venv is None:
        ensure_installed(home, say)
    engines: list[Engine] = []
    opening: AbstractAsyncContextManager[Engine]
    async with contextlib.AsyncExitStack() as stack:
        for number in range(1, count + 1):
            log = home / f"server-{number}.log"
            say(f"starting server {number} of {count}")
            if kind == EMULATED_NAME:
                opening = embedded(preset="cpu-sglang", pool_tokens=POOL_TOKENS, speedup=speedup, log=log)
            else:
                python = python_of(venv or home / "venv").absolute()
                if not python.exists():
                    raise EngineError(f"there is no {python}: name an environment with SGLang, or leave out --venv")
                opening = sglang_cpu(python, ensure_model(home).absolute(), log)
            engines.append(await stack.enter_async_context(opening))
        yield engines
