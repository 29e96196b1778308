"""The engines that batches run on: real SGLang and real vLLM, started here or found at a URL, and the emulator."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lab.arms.base import Arm
from benchmarks.lab.engines import Engine as LabEngine
from benchmarks.lab.real.client import Client, SGLangClient, VLLMClient
from benchmarks.real.calibrate import Calibrated
from benchmarks.real.choice import HOME, REAL, EngineChoice
from benchmarks.real.engine import EMULATED_NAME, Engine
from benchmarks.real.sglang_cpu.install import ensure_installed, ensure_model, python_of
from benchmarks.real.vllm_cpu.probe import VLLMProbe
from benchmarks.real.vllm_cpu.server import connect_vllm, vllm_cpu
from benchmarks.real.wire import EngineError
from concur_agents.engines import VLLM, EngineReader, SGLang

__all__ = ["KINDS", "VLLM_NAME", "Backend", "get_backend", "server_flags"]

VLLM_NAME = "vllm"
KINDS = (REAL, VLLM_NAME, EMULATED_NAME)

_CAP = {REAL: "--max-running-requests", VLLM_NAME: "--max-num-seqs"}
"""The flag for the most requests that run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to an engine."""

    kind: str
    open: Callable[[Sequence[str]], AbstractAsyncContextManager[Engine]]
    """Starts or finds it, with more flags; raises EngineError."""
    client: Callable[[Engine], Client]
    reader: Callable[[str], EngineReader]
    cap_flag: str | None
    """Flag for the most requests that run at once; None where the server is not started here."""
    probe: Callable[[Engine], Calibrated] = lambda engine: engine
    """What its passes are timed by."""


def get_backend(
    kind: str,
    *,
    url: str | None = None,
    venv: Path | None = None,
    home: Path = HOME,
    speedup: float = 1.0,
    say: Callable[[str], None] = lambda _: None,
) -> Backend:
    """An engine by kind.

    Args:
        kind: one of :data:`KINDS`.
        url: of a server that runs already; None to start one.
        venv: environment that has the server; SGLang's is installed where there is none.
        home: folder for that environment, the model and the server's log.
        speedup: engine seconds per second, of the emulator.
        say: told what takes long.

    Raises:
        ValueError: an unknown kind, or vLLM without URL and environment.
        EngineError: the installation failed.
    """
    if kind not in KINDS:
        raise ValueError(f"engine must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind == VLLM_NAME:
        return Backend(
            kind=kind,
            open=_vllm(url, venv, home),
            client=lambda engine: VLLMClient(engine.url, engine.model, engine.flush),
            reader=VLLM,
            cap_flag=None if url else _CAP[kind],
            probe=VLLMProbe,
        )
    choice = EngineChoice(name=url or kind, venv=venv, home=home, speedup=speedup)
    if choice.needs_install:
        ensure_installed(home, say)
    return Backend(
        kind=kind,
        open=choice.open,
        client=lambda engine: SGLangClient(engine.url, engine.model, engine.flush),
        reader=SGLang,
        cap_flag=_CAP.get(choice.name),
    )


def server_flags(arm: Arm, engine: LabEngine, cap_flag: str | None) -> tuple[str, ...]:
    """What a server must be told so that it is the arm's engine; nothing for most arms.

    Args:
        arm: may change the engine.
        engine: as it is without the arm.
        cap_flag: see :class:`Backend`.

    Raises:
        EngineError: the server cannot be told.
    """
    wanted = arm.flags(engine)
    if wanted == engine:
        return ()
    most = wanted.config.max_running_requests
    if wanted != engine.with_config(max_running_requests=most):
        raise EngineError(f"arm {arm.name} changes more of the engine than a real server is told here")
    if cap_flag is None:
        raise EngineError(f"arm {arm.name} needs another flag, and the server is not started here")
    return (cap_flag, str(most))


def _vllm(url: str | None, venv: Path | None, home: Path) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    if url is None and venv is None:
        raise ValueError("vllm needs --url of a server that runs, or --venv of an environment that has it")

    @contextlib.asynccontextmanager
    async def opened(flags: Sequence[str]) -> AsyncIterator[Engine]:
        if url is not None:
            if flags:
                raise EngineError(f"{' '.join(flags)} cannot be given to {url}: it is not started here")
            yield await connect_vllm(url)
            return
        python = python_of(venv or home).absolute()
        if not python.exists():
            raise EngineError(f"there is no {python}: name an environment with vLLM")
        model, log = ensure_model(home).absolute(), home / "vllm.log"
        async with vllm_cpu(python, model, log, flags) as engine:
            yield engine

    return opened
