"""What is shown: the same agents on one engine, on two, and on two of which one dies and another one joins."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.fleet.batch import Outage, Run, run_batch
from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.engines import get_engine
from benchmarks.lab.workloads import get_workload

__all__ = ["Figures", "measure"]

# Of the makespan on two engines: late enough that all seats are taken, early enough that many agents are left.
_DIES, _JOINS = 0.3, 0.6
# Seconds after an engine joined until what follows counts: who comes to it has its context computed first.
_SETTLED_S = 30.0
# Of a batch's output; the last agents use no two engines.
_MOST = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One workload, engine and seed."""

    workload: str
    engine: str
    seed: int
    agents: int
    speedup: float
    """Makespan of all agents on one engine, over theirs on two."""
    imbalance: float
    """Agents of the fuller of two engines over their mean, less 1, while agents wait on both."""
    work_imbalance: float
    """The same of the prompt and output tokens each engine went through."""
    hit_alone: float
    """Hit rate of one engine with half the agents: the mean of both halves."""
    hit_two: float
    """Hit rate of two with all."""
    pace_dead: float
    """How fast it goes with one engine left: time that two take for the same part of the batch, over its own."""
    pace_joined: float
    """The same once another one has joined."""
    dead_engine_agents: int
    """Agents on the engine that died, of which something was in its cache."""
    held: int
    """Tokens that they held."""
    paid: float
    """Of these, the share computed again in their first steps elsewhere."""
    paid_twice: int
    """Agents that paid for a move more than once."""
    most_moves: int
    """Most moves of one agent that took it away from a prefix."""

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def measure(workload: str, engine: str, seed: int, agents: int | None = None) -> Figures:
    """Run the five batches.

    Raises:
        ValueError: workload, engine or agents cannot be.
    """
    batch, chosen = get_workload(workload).batch(seed, agents), get_engine(engine)
    one, two = run_batch(batch, chosen, 1), run_batch(batch, chosen, 2)
    halves = [run_batch(half, chosen, 1) for half in _halves(batch)]
    outage = Outage(dies_at=_DIES * two.makespan_s, joins_at=_JOINS * two.makespan_s)
    broken = run_batch(batch, chosen, 2, outage)
    return Figures(
        workload=workload,
        engine=engine,
        seed=seed,
        agents=len(batch.plans),
        speedup=one.makespan_s / two.makespan_s,
        imbalance=_imbalance(list(two.shares.values())),
        work_imbalance=_imbalance(list(_work(two).values())),
        hit_alone=sum(half.hit_rate for half in halves) / len(halves),
        hit_two=two.hit_rate,
        **_outage_figures(broken, two, outage),
    )


def _halves(batch: Batch) -> list[Batch]:
    plans: tuple[Plan, ...] = batch.plans
    return [Batch.of(plans[start::2]) for start in (0, 1)]


def _work(run: Run) -> dict[str, int]:
    work: dict[str, int] = {}
    for step in run.steps:
        work[step.site] = work.get(step.site, 0) + step.prompt + step.output
    return work


def _imbalance(values: list[float] | list[int]) -> float:
    mean = sum(values) / len(values) if values else 0.0
    return max(values) / mean - 1 if mean else 0.0


def _pace(run: Run, intact: Run, start: float, end: float) -> float:
    """By the same part of the batch, since a batch is not as fast at its end as at its beginning."""
    began, ended = intact.time_of(run.done_by(start)), intact.time_of(run.done_by(end))
    return (ended - began) / (end - start) if end > start else 0.0


def _outage_figures(run: Run, intact: Run, outage: Outage) -> dict[str, Any]:
    held = {agent_id: tokens for agent_id, tokens in run.held_at_death.items() if tokens}
    first: dict[str, int] = {}
    twice: set[str] = set()
    for step in run.steps:
        if step.agent_id in held and step.moved and step.at >= outage.dies_at:
            if step.agent_id in first:
                twice.add(step.agent_id)
            else:
                first[step.agent_id] = step.recomputed
    return {
        "pace_dead": _pace(run, intact, outage.dies_at, outage.joins_at),
        "pace_joined": _pace(run, intact, outage.joins_at + _SETTLED_S, run.time_of(_MOST * run.output)),
        "dead_engine_agents": len(held),
        "held": sum(held.values()),
        "paid": sum(first.values()) / max(1, sum(held.values())),
        "paid_twice": len(twice),
        "most_moves": max(run.moves.values(), default=0),
    }
