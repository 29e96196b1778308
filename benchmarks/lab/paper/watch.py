"""What is noted of a cell while it runs: readings once a tick, and what each pass of the engine costs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.batch import Batch
from benchmarks.lab.gate import ControllerGate, Gate, GateRun
from concur_agents.emulator import Request, Scheduler, StepResult
from concur_agents.emulator.admission import PrefillPlan

__all__ = ["Point", "Watch"]


@dataclass(frozen=True, slots=True)
class Point:
    """One reading. Tokens since the start; usages 0..1; the window in agents."""

    at_s: float
    hits: float
    queries: float
    pinned: float
    occupied: float
    window: float | None


class Watch:
    """Stands beside a cell and writes down; changes nothing.

    Args:
        batch: what the cell runs.
    """

    def __init__(self, batch: Batch) -> None:
        self.contexts = {
            f"{plan.agent_id}/{index + 1}": step.prompt + step.output
            for plan in batch.plans
            for index, step in enumerate(plan.steps)
        }
        """By request: tokens of its agent's context before it."""
        self.points: list[Point] = []
        self.again: list[tuple[float, float]] = []
        """When a prefill ended, and how many of its seconds were spent again."""
        self.prefill_s = 0.0
        self.decode_s = 0.0

    def scheduler(self, config: Any, cost: Any) -> Scheduler:
        """An engine that is watched, in place of :class:`Scheduler`."""
        return _Watched(config, cost, self)

    def arm(self, arm: Arm) -> Arm:
        """The same arm, watched."""

        def gate(scene: Scene) -> Gate:
            return _WatchedGate(arm.gate(scene), scene, self)

        return Arm(arm.name, gate, arm.flags)

    def computed_again(self, request: Request) -> int:
        """Of what a request computes in this pass, the tokens that its agent's context had before."""
        context = min(self.contexts.get(request.rid, 0), request.extend_end)
        return max(0, context - request.prefix)


class _Watched(Scheduler):
    def __init__(self, config: Any, cost: Any, watch: Watch) -> None:
        super().__init__(config, cost)
        self._watch = watch

    def _prefill(self, plan: PrefillPlan, finished: list[Request]) -> StepResult:
        whole, without = [], []
        for request in plan.requests:
            new, again = request.extend_end - request.prefix, self._watch.computed_again(request)
            whole.append((new, request.prefix))
            without.append((new - again, request.prefix + again))
        result = super()._prefill(plan, finished)
        self._watch.prefill_s += result.duration_s
        self._watch.again.append((self.clock_s, self.cost.prefill_s(whole) - self.cost.prefill_s(without)))
        return result

    def _decode(self, limit_s: float, finished: list[Request]) -> StepResult:
        result = super()._decode(limit_s, finished)
        self._watch.decode_s += result.duration_s
        return result


class _WatchedGate:
    def __init__(self, inner: Gate, scene: Scene, watch: Watch) -> None:
        self._inner, self._scene, self._watch = inner, scene, watch

    def agent(self, agent_id: str) -> AbstractAsyncContextManager[GateRun]:
        return self._inner.agent(agent_id)

    def tick(self) -> None:
        self._inner.tick()
        sample = self._scene.reader.read(0.0)
        window = self._inner.controller.stats().window if isinstance(self._inner, ControllerGate) else None
        self._watch.points.append(
            Point(
                self._scene.clock(),
                sample.hit_tokens_total or 0.0,
                sample.query_tokens_total or 0.0,
                sample.pinned_usage or 0.0,
                sample.occupied_usage or 0.0,
                window,
            )
        )

    def close(self) -> None:
        self._inner.close()
