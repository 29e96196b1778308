"""The lab's workloads that are run on a real engine on a CPU, each with how it is made small enough.

A real server on one core prefills some 2,000 tokens a second into a pool of 16,000. Where everything is recomputed all
the time, a step of a batch whose contexts fill the pool three times over takes about ten seconds; so there is room for
some ten steps an agent, or for more of them in a batch that is less over the pool. ``README.md`` beside this file has
the lengths that come out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType

from benchmarks.lab.batch import Batch
from benchmarks.lab.real.scale import Scale, scaled
from benchmarks.lab.real.store import CaseLine
from benchmarks.lab.workloads import get_workload

__all__ = ["CASES", "Case", "get_cases"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One workload, made smaller."""

    workload: str
    """Its name in the lab."""
    agents: int
    scale: Scale

    def batch(self, seed: int, agents: int | None = None, *, repeat: int = 1) -> Batch:
        """The agents, ``agents`` of them if given; others in each repeat, so that no arm is judged by one draw."""
        return scaled(get_workload(self.workload).batch(seed + repeat - 1, agents or self.agents), self.scale)

    def line(self, batch: Batch, repeat: int) -> CaseLine:
        """What the batch comes to."""
        steps = [step for plan in batch.plans for step in plan.steps]
        return CaseLine(
            workload=self.workload,
            repeat=repeat,
            scale=asdict(self.scale),
            agents=len(batch.plans),
            steps=len(steps),
            prompt_tokens=sum(step.prompt for step in steps),
            output_tokens=sum(step.output for step in steps),
            final_tokens=sum(plan.longest for plan in batch.plans),
            tool_s=sum(step.tool_s for plan in batch.plans for step in plan.steps[:-1]),
        )


CASES: Mapping[str, Case] = MappingProxyType(
    {
        case.workload: case
        for case in (
            Case(workload="swe", agents=48, scale=Scale(tokens=0.0275, merge=6, tools=0.25)),
            Case(workload="react-10", agents=48, scale=Scale(tokens=0.1, tools=1.0)),
            Case(workload="judge", agents=120, scale=Scale(tokens=0.1, tools=1.0)),
            Case(workload="mixed", agents=40, scale=Scale(tokens=0.05, merge=3, tools=0.5)),
            Case(workload="coding-sessions", agents=24, scale=Scale(tokens=0.025, merge=4, tools=0.25)),
            Case(workload="distill", agents=48, scale=Scale(tokens=0.08, tools=1.0)),
        )
    }
)
"""By name, for ``--workloads``."""


def get_cases(names: Sequence[str]) -> tuple[Case, ...]:
    """Cases by name.

    Raises:
        ValueError: an unknown name, naming those there are, or one that is given twice, or none at all.
    """
    if unknown := [name for name in names if name not in CASES]:
        raise ValueError(f"workload must be one of {', '.join(CASES)}, got {unknown[0]!r}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"name each workload once, as in --workloads {','.join(CASES)}")
    return tuple(CASES[name] for name in names)
