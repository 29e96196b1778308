"""What is noted of a cell while it runs: readings once a tick, and what each pass of the engine costs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.batch import Batch
from benchmarks.lab.gate import ControllerGate, Gate, GateRun
from concur_agents.emulator import CostModel, Request, Scheduler, StepKind, StepResult

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

    def computed_again(self, request: Request, new: int, cached: int) -> int:
        """Of the ``new`` tokens that a pass computes behind ``cached`` ones, those its agent's context had before."""
        return max(0, min(self.contexts.get(request.rid, 0), cached + new) - cached)


@dataclass(frozen=True, kw_only=True)
class _Told(CostModel):
    """The same seconds, and what was asked of each prefill pass."""

    passes: list[list[tuple[int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The numbers are another cost model's, which has checked them."""

    def prefill_s(self, batch: Iterable[tuple[int, int]]) -> float:
        shapes = list(batch)
        self.passes.append(shapes)
        return super().prefill_s(shapes)


class _Watched(Scheduler):
    def __init__(self, config: Any, cost: CostModel, watch: Watch) -> None:
        self._told = _Told(**asdict(cost))
        super().__init__(config, self._told)
        self._plain, self._watch = cost, watch
        self._cut: Request | None = None
        """The one whose prompt goes on in the next prefill pass."""

    def step(self, *, limit_s: float = 0.0) -> StepResult:
        """See :meth:`Scheduler.step`."""
        going_on = [] if self._cut is None or self._cut.finish_reason is not None else [self._cut]
        order = [*going_on, *self.waiting]  # a pass takes them in this order, as far as they fit
        result = super().step(limit_s=limit_s)
        if result.kind is StepKind.DECODE:
            self._watch.decode_s += result.duration_s
        elif result.kind is StepKind.PREFILL:
            whole = self._told.passes.pop()
            requests = order[: len(whole)]
            advanced = {id(request) for request in result.advanced}
            self._cut = next((request for request in requests if id(request) not in advanced), None)
            self._watch.prefill_s += result.duration_s
            without = [
                (new - again, cached + again)
                for request, (new, cached) in zip(requests, whole, strict=True)
                for again in (self._watch.computed_again(request, new, cached),)
            ]
            spent_again = self._plain.prefill_s(whole) - self._plain.prefill_s(without)
            self._watch.again.append((self.clock_s, spent_again))
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
