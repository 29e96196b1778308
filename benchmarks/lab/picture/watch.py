"""Write down what a controller sees, tick by tick, while the lab runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.gate import ControllerGate, Gate, GateRun

__all__ = ["Moment", "watched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One tick."""

    at_s: float
    pinned: float
    """Share of the pool that running requests hold; 0 before the first reading."""
    held: float
    """Tokens that the seated hold, the shared prefix once."""
    budget: float
    """Tokens they may hold; ``inf`` where agents are counted."""
    seated: int
    parked: int
    """Have run and wait, or are in a tool without a seat."""
    new: int
    """Have not run yet."""


def watched(arm: Arm, note: Callable[[Moment], None]) -> Arm:
    """The same arm, whose ticks are noted.

    Raises:
        TypeError: when it runs, if no controller stands before its engine.
    """

    def gate(scene: Scene) -> Gate:
        inner = arm.gate(scene)
        if not isinstance(inner, ControllerGate):
            raise TypeError(f"arm {arm.name!r} has no controller to watch")
        return _WatchedGate(inner, len(scene.batch.plans), note)

    return replace(arm, gate=gate)


class _WatchedGate:
    def __init__(self, gate: ControllerGate, agents: int, note: Callable[[Moment], None]) -> None:
        self._gate, self._agents, self._note = gate, agents, note
        self._begun: set[str] = set()

    def agent(self, agent_id: str) -> AbstractAsyncContextManager[GateRun]:
        return self._gate.agent(agent_id)

    def tick(self) -> None:
        self._gate.tick()
        controller = self._gate.controller
        self._begun.update(view.agent_id for view in controller.agents() if view.steps)
        stats = controller.stats()
        population, ended = stats.population, sum(stats.finished.values())
        new = self._agents - len(self._begun)
        self._note(
            Moment(
                at_s=stats.at,
                pinned=0.0 if stats.sample is None else stats.sample.pinned_usage or 0.0,
                held=population.held + population.shared_prefix,
                budget=population.tokens + population.shared_prefix,
                seated=population.seated,
                parked=max(0, len(self._begun) - ended - population.seated),
                new=new,
            )
        )

    def close(self) -> None:
        self._gate.close()
