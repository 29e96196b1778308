"""``python -m benchmarks.lab scale``: what the controller itself costs as agents and engines become more.

The only figures of the lab in wall-clock time. What a controller does for its agents is timed: asking for a seat, the
end of a step, and the control loop's tick; the emulator and the agents are not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.engines import get_engine
from benchmarks.lab.gate import ControllerGate, Gate
from benchmarks.lab.simulate import simulate
from benchmarks.lab.workloads import get_workload
from concur_agents import Controller
from concur_agents.limiter import Limiter

__all__ = ["Cost", "app", "measure"]

app = typer.Typer(add_completion=False)


@dataclass(slots=True)
class Cost:
    """Seconds of wall-clock time, and how often."""

    agents: int
    steps: int = 0
    step_s: float = 0.0
    """In all seats asked for and all ends of steps."""
    ticks: int = 0
    tick_s: float = 0.0

    @property
    def share(self) -> float:
        """Of one core, while the batch runs in real time at a tick a second."""
        return (self.step_s + self.tick_s) / max(1, self.ticks)


def measure(workload: str, engine: str, agents: int, seed: int = 0) -> Cost:
    """Run one batch under the default law and time its controller."""
    cost = Cost(agents)

    def gate(scene: Scene) -> Gate:
        controller = Controller(scene.reader, tick=scene.tick_s, clock=scene.clock, background=False)
        _time_steps(controller._limiter, cost)
        timed = ControllerGate(controller)
        timed.tick = _timed(timed.tick, cost, "tick")  # type: ignore[method-assign]
        return timed

    simulate(get_workload(workload).batch(seed, agents), get_engine(engine), Arm("scale", gate))
    return cost


def _time_steps(limiter: Limiter, cost: Cost) -> None:
    limiter.request = _timed(limiter.request, cost, "step")  # type: ignore[method-assign]
    limiter.end_step = _timed(limiter.end_step, cost, "step", count=False)  # type: ignore[method-assign]


def _timed(call: Callable[..., Any], cost: Cost, kind: str, *, count: bool = True) -> Callable[..., Any]:
    def timed(*args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*args, **options)
        finally:
            taken = time.perf_counter() - began
            if kind == "tick":
                cost.ticks, cost.tick_s = cost.ticks + count, cost.tick_s + taken
            else:
                cost.steps, cost.step_s = cost.steps + count, cost.step_s + taken

    return timed


@app.command()
def scale(
    agents: Annotated[int, typer.Option(help="On all engines together.", min=1)] = 4000,
    engines: Annotated[int, typer.Option(help="Each with a controller of its own.", min=1)] = 16,
    workload: Annotated[str, typer.Option(help="One of `workloads`.")] = "judge",
    engine: Annotated[str, typer.Option(help="One of `engines`.")] = "qwen3-32b-tp8",
) -> None:
    """Controller cost: one engine with ever more agents, then all of them over many engines."""
    typer.echo(f"{'engines':>8} {'agents':>7} {'steps':>7} {'us a step':>10} {'ms a tick':>10} {'of a core':>10}")
    counts = sorted({max(1, agents // part) for part in (64, 16, 4, 1)})
    for count in counts:
        _show(1, [measure(workload, engine, count)])
    each = max(1, agents // engines)
    _show(engines, [measure(workload, engine, each, seed) for seed in range(engines)])


def _show(engines: int, costs: list[Cost]) -> None:
    steps, ticks = sum(cost.steps for cost in costs), sum(cost.ticks for cost in costs)
    step_us = 1e6 * sum(cost.step_s for cost in costs) / max(1, steps)
    tick_ms = 1e3 * sum(cost.tick_s for cost in costs) / max(1, ticks)
    share = sum(cost.share for cost in costs)
    agents = sum(cost.agents for cost in costs)
    typer.echo(f"{engines:>8} {agents:>7} {steps:>7} {step_us:>10.1f} {tick_ms:>10.2f} {share:>10.2%}")
