"""A server that a run starts for itself, as its configuration says it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from benchmarks.engines.kinds import KINDS, find_kind
from benchmarks.engines.launch import Launch

__all__ = ["Server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Which server, with which model and flags.

    Raises:
        ValueError: a field that cannot be; names it and its value.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    kind: str = "sglang"
    """``sglang`` or ``vllm``."""
    model: str
    """A name on the hub, or a folder."""
    flags: tuple[str, ...] = ()
    """As on its command line. Host, port and what Concur needs come on top."""
    nodes: int = 1
    """Machines that it spans. Only a server on this machine alone can be started from here."""
    start_s: float = 1800.0
    """Seconds until it must be healthy. Above 0."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"server must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if not self.model:
            raise ValueError("model must name a model, or a folder that has one")
        if self.nodes < 1:
            raise ValueError(f"nodes must be at least 1, not {self.nodes}")
        if not 0 < self.start_s < float("inf"):
            raise ValueError(f"start_s must be above 0, not {self.start_s}")

    @property
    def launch(self) -> Launch:
        """What starts it."""
        return Launch(kind=find_kind(self.kind), model=self.model, flags=self.flags, start_s=self.start_s)

    def commands(self) -> tuple[str, ...]:
        """What to type on each of its machines to start it by hand; HEAD is the first one's address."""
        kind = find_kind(self.kind)
        words = ["python", "-m", kind.module, kind.model_flag, self.model, *self.launch.arguments()]
        words += ["--host", "0.0.0.0", "--port", "30000"]  # noqa: S104 - the others are other machines
        line = shlex.join(words)
        if self.nodes == 1:
            return (line,)
        return tuple(
            f"{line} --nnodes {self.nodes} --node-rank {rank} --dist-init-addr HEAD:20000" for rank in range(self.nodes)
        )
