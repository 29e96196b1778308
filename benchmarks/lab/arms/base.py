"""What an arm is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.lab.batch import Batch
from benchmarks.lab.engines import Engine
from benchmarks.lab.gate import ControllerGate, Gate
from concur_agents import Controller
from concur_agents.engines import EngineReader
from concur_agents.laws import Law

__all__ = ["Arm", "Scene", "law_arm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What an arm may know of the cell it is in. The same on the lab's engine and on a real one."""

    batch: Batch
    """What the agents are going to do. Only references look ahead in it; a proxy sees each request as it comes."""
    reader: EngineReader
    """Reads the engine's metrics."""
    clock: Callable[[], float]
    """Seconds; monotonic."""
    capacity_tokens: int
    """The engine's KV pool."""
    tick_s: float = 1.0
    """Seconds between two calls of ``Gate.tick``."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of running a batch."""

    name: str
    """As the user wrote it."""
    gate: Callable[[Scene], Gate]
    """Built on the loop, anew for each cell."""
    flags: Callable[[Engine], Engine] = lambda engine: engine
    """What it changes of the engine."""


def law_arm(name: str, law: Callable[[], Law], flags: Callable[[Engine], Engine] = lambda engine: engine) -> Arm:
    """An arm in which the real controller asks a law."""

    def gate(scene: Scene) -> Gate:
        return ControllerGate(
            Controller(
                scene.reader,
                law=law(),
                tick=scene.tick_s,
                clock=scene.clock,
                background=False,
            )
        )

    return Arm(name, gate, flags)
