"""Which engine to run on: the real one, started here; the emulator; or one that runs already."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.engines.emulated import EMULATED_NAME, emulated
from benchmarks.engines.engine import Engine, connect
from benchmarks.engines.sglang_cpu.install import ensure_model, python_of
from benchmarks.engines.sglang_cpu.server import sglang_cpu
from benchmarks.engines.wire import EngineError
from concur_agents.emulator import PRESETS

__all__ = ["HOME", "REAL", "EngineChoice"]

REAL = "sglang"
HOME = Path(".cache/sglang_cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """One engine, not started yet.

    Raises:
        ValueError: it is none of those there are.
    """

    name: str = REAL
    """``sglang``, ``emulator``, or the URL of an SGLang server."""
    venv: Path | None = None
    """Environment that has SGLang; None for the benchmark's own."""
    home: Path = HOME
    """Folder for the benchmark's own environment, model and logs."""
    speedup: float = 1.0
    """Of the emulator."""

    def __post_init__(self) -> None:
        if self.name not in (REAL, EMULATED_NAME) and not self.name.startswith(("http://", "https://")):
            raise ValueError(f"engine must be {REAL}, {EMULATED_NAME} or an http(s) URL, got {self.name!r}")
        if not 0 < self.speedup < float("inf"):
            raise ValueError(f"speedup must be above 0 and finite, got {self.speedup}")

    @property
    def needs_install(self) -> bool:
        """Whether the benchmark's own environment has to be there."""
        return self.name == REAL and self.venv is None

    @contextlib.asynccontextmanager
    async def open(self, flags: Sequence[str] = ()) -> AsyncIterator[Engine]:
        """Start or find it; what was started here has ended when the block is left.

        Args:
            flags: more of them for a server that is started here.

        Raises:
            EngineError: it cannot be started or found, or there are flags and nothing that takes them.
        """
        if flags and self.name != REAL:
            raise EngineError(f"{' '.join(flags)} cannot be given to {self.name}: it is not started here")
        if self.name == EMULATED_NAME:
            preset = PRESETS["cpu-sglang"]
            scheduling = {"max_total_tokens": 16_000, "context_length": 8192, "decode_log_interval": 1}
            async with emulated(scheduling, preset.cost, speedup=self.speedup) as engine:
                yield replace(engine, about={"preset": "cpu-sglang", "speedup": self.speedup})
        elif self.name == REAL:
            python = python_of(self.venv or self.home / "venv").absolute()
            if not python.exists():
                raise EngineError(f"there is no {python}: name an environment with SGLang, or leave out --venv")
            model, log = ensure_model(self.home).absolute(), self.home / "server.log"
            async with sglang_cpu(python, model, log, flags) as engine:
                yield engine
        else:
            yield await connect(self.name)
