"""The lab's engines, by name. To add one, add a function and its name here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from benchmarks.lab.reading import SchedulerReader
from concur_agents.emulator import CostModel, EngineConfig, Scheduler
from concur_agents.emulator.presets import get_preset
from concur_agents.engines import EngineReader

__all__ = ["ENGINES", "Engine", "get_engine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine to be built anew for each cell."""

    name: str
    config: EngineConfig
    cost: CostModel
    build: Callable[[EngineConfig, CostModel], Scheduler] = Scheduler
    """Which scheduler runs it."""
    reader: Callable[[Scheduler], EngineReader] = SchedulerReader
    """What reads that scheduler's metrics."""

    def scheduler(self) -> Scheduler:
        """A fresh one with an empty cache."""
        return self.build(self.config, self.cost)

    def with_config(self, **changes: object) -> Engine:
        """The same with other limits: what a flag of the server would do."""
        return replace(self, config=replace(self.config, **changes))  # type: ignore[arg-type]


def _preset(short: str, preset: str) -> Engine:
    chosen = get_preset(preset)
    return Engine(name=short, config=chosen.config, cost=chosen.cost)


ENGINES: Mapping[str, Engine] = MappingProxyType(
    {
        engine.name: engine
        for engine in (
            _preset("qwen3-32b-tp2", "qwen3-32b-h100-tp2"),
            _preset("qwen3-32b-tp4", "qwen3-32b-h100-tp4"),
            _preset("qwen3-32b-tp8", "qwen3-32b-h100-tp8"),
            _preset("deepseek-v3-tp16", "deepseek-v3-h100-tp16"),
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
