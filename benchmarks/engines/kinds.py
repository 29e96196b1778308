"""What SGLang and vLLM are started with, and told by: the one place that knows a server's flags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from benchmarks.engines.wire import EngineError
from concur_agents.engines import VLLM, EngineReader, SGLang

__all__ = ["KINDS", "SGLANG", "VLLM_KIND", "Kind", "Needs", "find_kind", "listed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """How an arm wants the engine to be started. Nothing said: as it is.

    Raises:
        ValueError: names the field and its value.
    """

    max_running_requests: int | None = None
    """Most requests that run at once: the engine's own request cap. >= 1."""
    host_cache: float | None = None
    """A second tier of the KV cache in host memory, as a multiple of the pool. Above 0."""

    def __post_init__(self) -> None:
        if self.max_running_requests is not None and self.max_running_requests < 1:
            raise ValueError(f"max_running_requests must be at least 1, not {self.max_running_requests}")
        if self.host_cache is not None and not 0 < self.host_cache < float("inf"):
            raise ValueError(f"host_cache must be above 0, not {self.host_cache}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One engine's server program."""

    name: str
    title: str
    module: str
    """Run with ``python -m``."""
    model_flag: str
    needed: Mapping[str, str | None]
    """Flags without which Concur sees too little. Those of a launch go before them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    flush_path: str
    """Where a POST empties the prefix cache."""
    reader: Callable[[str], EngineReader]
    request_cap: str
    """Flag for :attr:`Needs.max_running_requests`."""
    host_cache: Callable[[float], Mapping[str, str | None]] | None = None
    """Flags for :attr:`Needs.host_cache`; None where there are none."""

    def flags(self, needs: Needs) -> tuple[str, ...]:
        """What a server is told for an arm.

        Raises:
            EngineError: it cannot be told.
        """
        flags: dict[str, str | None] = {}
        if needs.max_running_requests is not None:
            flags[self.request_cap] = str(needs.max_running_requests)
        if needs.host_cache is not None:
            if self.host_cache is None:
                raise EngineError(f"{self.title} is not told here to keep KV in host memory: leave this arm out")
            flags.update(self.host_cache(needs.host_cache))
        return tuple(listed(flags))


def listed(flags: Mapping[str, str | None]) -> Iterator[str]:
    """Flags as a command line has them; None for those without a value."""
    for flag, value in flags.items():
        yield flag
        if value is not None:
            yield value


SGLANG = Kind(
    name="sglang",
    title="SGLang",
    module="sglang.launch_server",
    model_flag="--model-path",
    needed=MappingProxyType({"--enable-metrics": None, "--enable-cache-report": None}),
    flush_path="/flush_cache",
    reader=SGLang,
    request_cap="--max-running-requests",
    host_cache=lambda ratio: {"--enable-hierarchical-cache": None, "--hicache-ratio": f"{ratio:g}"},
)

VLLM_KIND = Kind(
    name="vllm",
    title="vLLM",
    module="vllm.entrypoints.openai.api_server",
    model_flag="--model",
    needed=MappingProxyType({"--enable-prefix-caching": None, "--enable-prompt-tokens-details": None}),
    environment=MappingProxyType({"VLLM_SERVER_DEV_MODE": "1"}),  # offers /reset_prefix_cache
    flush_path="/reset_prefix_cache",
    reader=VLLM,
    request_cap="--max-num-seqs",
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in (SGLANG, VLLM_KIND)})


def find_kind(name: str) -> Kind:
    """A kind by name. Raises ValueError naming those there are."""
    if name not in KINDS:
        raise ValueError(f"engine kind must be one of {', '.join(KINDS)}, not {name!r}")
    return KINDS[name]
