"""Where tools wait in line for the cores of the agents' machine (lemma 8 in docs/lab/lower-bound.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.lab.bounds.costs import alone_step_s
from benchmarks.lab.bounds.served import Served
from benchmarks.lab.engines import Engine

__all__ = ["host_bound_s"]


def host_bound_s(wave: Sequence[Served], engine: Engine, cores: int, *, retracts: bool) -> float:
    """Seconds that a wave takes at least whose tools have so many cores, each tool one; 0 where there are no tools."""
    tools = [tool for agent in wave for tool in _tools(agent, engine, retracts=retracts)]
    tools.sort(key=lambda tool: -tool[1])
    best = work = 0.0
    first = float("inf")
    for (
        head,
        tail,
        seconds,
    ) in tools:  # the longest tail first: each beginning of the list is a set worth trying
        first = min(first, head)
        work += seconds
        best = max(best, first + work / cores + tail)
    return best


def _tools(agent: Served, engine: Engine, *, retracts: bool) -> Iterator[tuple[float, float, float]]:
    """Of each tool: its head and its tail, as lemma 6 has them of steps, and its seconds."""
    if not agent.steps:
        return  # its first prompt is refused, before any tool
    alone = [alone_step_s(engine, step, retracts=retracts) for step in agent.steps]
    waits = [*(step.wait_s for step in agent.steps[1:]), agent.end_wait_s]
    head, tail = agent.plan.arrival_s, sum(alone) + sum(waits)
    for took, wait in zip(alone, waits, strict=True):
        head += took
        tail -= took + wait
        if wait:
            yield head, max(0.0, tail), wait
        head += wait
