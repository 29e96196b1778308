"""A server that a run starts for itself, as its configuration says it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict

from benchmarks.engines.choice import HOME
from benchmarks.engines.kinds import KINDS, SGLANG, Kind, Needs, find_kind, listed
from benchmarks.engines.launch import Launch
from benchmarks.engines.sglang_cpu.install import ensure_installed, ensure_model, python_of
from benchmarks.engines.sglang_cpu.server import launch_of

__all__ = ["SGLANG_CPU", "Server"]

SGLANG_CPU = "sglang-cpu"
"""SGLang on a CPU as ``benchmarks/engines/sglang_cpu`` has it: it needs neither a model nor flags."""
HICACHE_SHIMS = Path(__file__).parents[1] / "front" / "hicache_cpu"
HICACHE = {
    # Kernels copy between the tiers, unless told otherwise; they are CUDA's.
    "--hicache-io-backend": "direct",
    "--hicache-mem-layout": "layer_first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Which server, with which model and flags.

    Raises:
        ValueError: a field that cannot be; names it and its value.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    kind: str = "sglang"
    """``sglang``, ``vllm``, or :data:`SGLANG_CPU`."""
    model: str
    """A name on the hub, or a folder."""
    flags: tuple[str, ...] = ()
    """As on its command line. Host, port and what Concur needs come on top."""
    nodes: int = 1
    """Machines that it spans. Only a server on this machine alone can be started from here."""
    start_s: float = 1800.0
    """Seconds until it must be healthy. Above 0."""

    def __post_init__(self) -> None:
        if self.kind not in (*KINDS, SGLANG_CPU):
            raise ValueError(f"server must be one of {', '.join((*KINDS, SGLANG_CPU))}, not {self.kind!r}")
        if self.kind == SGLANG_CPU and self.nodes > 1:
            raise ValueError(f"nodes must be 1 with {SGLANG_CPU}, not {self.nodes}")
        if not self.model:
            raise ValueError("model must name a model, or a folder that has one")
        if self.nodes < 1:
            raise ValueError(f"nodes must be at least 1, not {self.nodes}")
        if not 0 < self.start_s < float("inf"):
            raise ValueError(f"start_s must be above 0, not {self.start_s}")

    @property
    def launch(self) -> Launch:
        """What starts it."""
        if self.kind == SGLANG_CPU:
            launch = launch_of(python_of(HOME / "venv").absolute(), (HOME / "model").absolute())
            return replace(launch, flags=(*launch.flags, *self.flags))
        return Launch(kind=find_kind(self.kind), model=self.model, flags=self.flags, start_s=self.start_s)

    def launch_for(self, needs: Needs, python: Path | None) -> tuple[Launch, tuple[str, ...]]:
        """What starts it for an arm, and the flags that this takes besides.

        Args:
            needs: of the arm.
            python: interpreter of the environment that has it; None for the benchmark's own.

        Raises:
            EngineError: it cannot be told.
        """
        launch = self.launch
        flags = launch.kind.flags(needs)
        if self.kind != SGLANG_CPU:
            return replace(launch, python=python), flags
        if python is not None:
            launch = replace(launch, python=python)
        if needs.host_cache is not None:
            path = f"{HICACHE_SHIMS}:{launch.environment['PYTHONPATH']}"
            launch = replace(launch, environment={**launch.environment, "PYTHONPATH": path})
            flags = (*flags, *listed(HICACHE))
        return launch, flags

    def install(self, say: Callable[[str], None]) -> None:
        """See that what is started from here is there, where that is ours to do.

        Args:
            say: told what takes long.

        Raises:
            EngineError: it could not be installed.
        """
        if self.kind == SGLANG_CPU:
            ensure_installed(HOME, say)
            ensure_model(HOME)

    def commands(self) -> tuple[str, ...]:
        """What to type on each of its machines to start it by hand; HEAD is the first one's address."""
        kind: Kind = SGLANG if self.kind == SGLANG_CPU else find_kind(self.kind)
        words = ["python", "-m", kind.module, kind.model_flag, self.launch.model, *self.launch.arguments()]
        words += ["--host", "0.0.0.0", "--port", "30000"]  # noqa: S104 - the others are other machines
        line = shlex.join(words)
        if self.nodes == 1:
            return (line,)
        return tuple(
            f"{line} --nnodes {self.nodes} --node-rank {rank} --dist-init-addr HEAD:20000" for rank in range(self.nodes)
        )
