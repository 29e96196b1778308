"""The lab's engines, by name. To add one, add a function and its name here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from benchmarks.lab.reading import SchedulerReader, VllmReader
from concur_agents.emulator import CostModel, EngineConfig, HiCacheConfig, Scheduler
from concur_agents.emulator.core import EngineCore
from concur_agents.emulator.presets import get_preset
from concur_agents.emulator.vllm import VllmConfig, VllmScheduler
from concur_agents.engines import EngineReader

__all__ = ["ENGINES", "Engine", "get_engine", "with_host_cache"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine to be built anew for each cell."""

    name: str
    config: EngineConfig | VllmConfig
    cost: CostModel
    build: Callable[[Any, CostModel], EngineCore] = Scheduler
    """Which scheduler runs it: one that takes this kind of config."""
    reader: Callable[[Any], EngineReader] = SchedulerReader
    """What reads that scheduler's metrics."""

    def scheduler(self) -> EngineCore:
        """A fresh one with an empty cache."""
        return self.build(self.config, self.cost)

    def with_config(self, **changes: object) -> Engine:
        """The same with other limits: what a flag of the server would do."""
        return replace(self, config=replace(self.config, **changes))  # type: ignore[arg-type]


def with_host_cache(engine: Engine, hicache: HiCacheConfig | None = None) -> Engine:
    """The same engine with a cache tier in host memory (SGLang's HiCache), by default twice the size of its pool.

    Raises:
        ValueError: it is of a kind that has none here.
    """
    if not isinstance(engine.config, EngineConfig):
        raise ValueError(f"there is no host tier for the engine {engine.name}")
    return engine.with_config(hicache=hicache or HiCacheConfig())


def _with_host(short: str, preset: str) -> Engine:
    return with_host_cache(_preset(short, preset))


def _preset(short: str, preset: str) -> Engine:
    chosen = get_preset(preset)
    return Engine(name=short, config=chosen.config, cost=chosen.cost)


def _vllm(short: str, preset: str) -> Engine:
    """The same card, model and pool under vLLM: what differs is cache and scheduler. The pool in whole blocks."""
    chosen = get_preset(preset)
    page = 16
    config = VllmConfig(
        max_total_tokens=chosen.config.max_total_tokens // page * page,
        page_size=page,
        context_length=chosen.config.context_length,
    )
    return Engine(name=short, config=config, cost=chosen.cost, build=VllmScheduler, reader=VllmReader)


ENGINES: Mapping[str, Engine] = MappingProxyType(
    {
        engine.name: engine
        for engine in (
            _preset("qwen3-32b-tp2", "qwen3-32b-h100-tp2"),
            _preset("qwen3-32b-tp4", "qwen3-32b-h100-tp4"),
            _preset("qwen3-32b-tp8", "qwen3-32b-h100-tp8"),
            _preset("deepseek-v3-tp16", "deepseek-v3-h100-tp16"),
            _with_host("qwen3-32b-tp2-hicache", "qwen3-32b-h100-tp2"),
            _with_host("deepseek-v3-tp16-hicache", "deepseek-v3-h100-tp16"),
            _vllm("vllm-qwen3-32b-tp2", "qwen3-32b-h100-tp2"),
        )
    }
)
"""By name, for ``--engines``."""


def get_engine(name: str) -> Engine:
    """An engine by name.

    Raises:
        ValueError: naming it and those there are.
    """
    try:
        return ENGINES[name]
    except KeyError:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {name!r}") from None
