"""The engines that batches run on: real SGLang and real vLLM, started here or found at a URL, and the emulator."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines.choice import HOME, REAL, EngineChoice
from benchmarks.engines.emulated import EMULATED_NAME
from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.kinds import SGLANG, VLLM_KIND, Kind, Needs
from benchmarks.engines.sglang_cpu.install import ensure_installed, ensure_model, python_of
from benchmarks.engines.vllm_cpu.server import vllm_cpu
from benchmarks.engines.wire import EngineError
from benchmarks.lab.arms.base import Arm
from benchmarks.lab.engines import Engine as LabEngine
from benchmarks.lab.real.client import Client, SGLangClient, VLLMClient
from benchmarks.real.calibrate import Calibrated
from benchmarks.real.vllm_probe import VLLMProbe

__all__ = ["KINDS", "VLLM_NAME", "Backend", "get_backend", "server_flags"]

VLLM_NAME = "vllm"
KINDS = (REAL, VLLM_NAME, EMULATED_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to an engine."""

    kind: str
    open: Callable[[Sequence[str]], AbstractAsyncContextManager[Engine]]
    """Starts or finds it, with more flags; raises EngineError."""
    client: Callable[[Engine], Client]
    starts: Kind | None
    """What is started here; None where it runs already, so that no arm can have flags of its own."""
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
            starts=None if url else VLLM_KIND,
            probe=VLLMProbe,
        )
    choice = EngineChoice(name=url or kind, venv=venv, home=home, speedup=speedup)
    if choice.needs_install:
        ensure_installed(home, say)
    return Backend(
        kind=kind,
        open=choice.open,
        client=lambda engine: SGLangClient(engine.url, engine.model, engine.flush),
        starts=SGLANG if choice.name == REAL else None,
    )


def server_flags(arm: Arm, engine: LabEngine, starts: Kind | None) -> tuple[str, ...]:
    """What a server must be told so that it is the arm's engine; nothing for most arms.

    Args:
        arm: may change the engine.
        engine: as it is without the arm.
        starts: see :class:`Backend`.

    Raises:
        EngineError: the server cannot be told.
    """
    wanted = arm.flags(engine)
    if wanted == engine:
        return ()
    most, tier = wanted.config.max_running_requests, getattr(wanted.config, "hicache", None)
    told = {"max_running_requests": most} | ({} if tier is None else {"hicache": tier})
    if wanted != engine.with_config(**told):
        raise EngineError(f"arm {arm.name} changes more of the engine than a real server is told here")
    if starts is None:
        raise EngineError(f"arm {arm.name} needs another flag, and the server is not started here")
    capped = most if most != engine.config.max_running_requests else None
    return starts.flags(Needs(max_running_requests=capped, host_cache=None if tier is None else tier.ratio))


def _vllm(url: str | None, venv: Path | None, home: Path) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    if url is None and venv is None:
        raise ValueError("vllm needs --url of a server that runs, or --venv of an environment that has it")

    @contextlib.asynccontextmanager
    async def opened(flags: Sequence[str]) -> AsyncIterator[Engine]:
        if url is not None:
            if flags:
                raise EngineError(f"{' '.join(flags)} cannot be given to {url}: it is not started here")
            engine = await connect(url)
            if engine.capacity_tokens is None:
                raise EngineError(f"{url}/metrics does not tell the pool's size: give it --num-gpu-blocks-override")
            yield engine
            return
        python = python_of(venv or home).absolute()
        if not python.exists():
            raise EngineError(f"there is no {python}: name an environment with vLLM")
        model, log = ensure_model(home).absolute(), home / "vllm.log"
        async with vllm_cpu(python, model, log, flags) as engine:
            yield engine

    return opened
