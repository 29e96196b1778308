"""``python -m benchmarks.lab scale``: what the controller itself costs as agents and engines become more.

The only figures of the lab in wall-clock time. What a controller does for its agents is timed: asking for a seat, the
end of a step, and the control loop's tick; the emulator and the agents are not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.engines import get_engine
from benchmarks.lab.gate import ControllerGate, Gate
from benchmarks.lab.simulate import simulate
from benchmarks.lab.workloads import get_workload
from benchmarks.machine import describe
from concur_agents import Controller
from concur_agents.limiter import Limiter

__all__ = ["Cost", "Row", "app", "markdown", "measure"]

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
        _time_steps(controller.limiter, cost)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was timed, on so many engines together."""

    engines: int
    agents: int
    steps: int
    step_us: float
    """Of a step's two calls, in microseconds."""
    tick_ms: float
    core: float
    """Share of one core, of all controllers together, at a tick a second."""

    @classmethod
    def of(cls, costs: Sequence[Cost]) -> Row:
        """Of a controller an engine."""
        steps, ticks = sum(cost.steps for cost in costs), sum(cost.ticks for cost in costs)
        return cls(
            engines=len(costs),
            agents=sum(cost.agents for cost in costs),
            steps=steps,
            step_us=round(1e6 * sum(cost.step_s for cost in costs) / max(1, steps), 1),
            tick_ms=round(1e3 * sum(cost.tick_s for cost in costs) / max(1, ticks), 3),
            core=round(sum(cost.share for cost in costs), 4),
        )


@app.command()
def scale(
    *,
    agents: Annotated[int, typer.Option(help="On all engines together.", min=1)] = 4000,
    engines: Annotated[int, typer.Option(help="Each with a controller of its own.", min=1)] = 16,
    workload: Annotated[str, typer.Option(help="One of `workloads`.")] = "judge",
    engine: Annotated[str, typer.Option(help="One of `engines`.")] = "qwen3-32b-tp8",
    record: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
) -> None:
    """Controller cost: one engine with ever more agents, then all of them over many engines."""
    typer.echo(f"{'engines':>8} {'agents':>7} {'steps':>7} {'us a step':>10} {'ms a tick':>10} {'of a core':>10}")
    counts = sorted({max(1, agents // part) for part in (64, 16, 4, 1)})
    each = max(1, agents // engines)
    rows = [_show([measure(workload, engine, count)]) for count in counts]
    rows.append(_show([measure(workload, engine, each, seed) for seed in range(engines)]))
    if record is not None:
        about = {"workload": workload, "engine": engine, "machine": describe(), "rows": [asdict(row) for row in rows]}
        record.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def markdown(data: Mapping[str, Any]) -> str:
    """A record as a table."""
    lines = ["| engines | agents | steps | a step, us | a tick, ms | of one core |", "|---:|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {row['engines']} | {row['agents']:,} | {row['steps']:,} | {row['step_us']:.0f} | {row['tick_ms']:.2f} "
        f"| {row['core']:.1%} |"
        for row in data["rows"]
    ]
    machine = data["machine"]
    lines += ["", f"- `{data['workload']}` on {data['engine']}; {machine['cpu']}, Python {machine['python']}."]
    return "\n".join(lines) + "\n"


def _show(costs: Sequence[Cost]) -> Row:
    row = Row.of(costs)
    typer.echo(
        f"{row.engines:>8} {row.agents:>7} {row.steps:>7} {row.step_us:>10.1f} {row.tick_ms:>10.2f} {row.core:>10.2%}"
    )
    return row
