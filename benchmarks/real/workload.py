"""The batch of agents, frozen: what each one asks, gets back and waits for, from a seed and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from benchmarks.engines.words import text

__all__ = ["AgentPlan", "StepPlan", "Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One generation and the tool call after it."""

    output_tokens: int
    tool_s: float
    """Engine seconds. 0 after the last step."""
    observation: str
    """What the tool returns; the next step's user message. Empty after the last step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """One agent's whole life."""

    agent_id: str
    system: str
    """The same for every agent."""
    task: str
    steps: tuple[StepPlan, ...]

    @property
    def final_tokens(self) -> int:
        """Words in its conversation after the last step; roles and separators come on top, 8 tokens a step."""
        said = sum(step.output_tokens + step.observation.count(" ") for step in self.steps)
        return self.system.count(" ") + self.task.count(" ") + said


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Ranges from which each agent and step draws, evenly. The defaults are the benchmark; change them for tests only.

    With them and seed 0 the final contexts add up to 3.5 times the real engine's pool of 16,000 tokens: far too much
    for all agents at once, while between 9 and 10 fit at the 1,650 tokens they have on average over their steps.
    Outputs are short against what is read, and most tool calls shorter than the step before them, as with coding
    agents.

    Raises:
        ValueError: a field is out of range; names it and its value.
    """

    agents: int = 24
    steps: tuple[int, int] = (5, 16)
    system_tokens: int = 120
    """The prefix that all agents share."""
    task_tokens: tuple[int, int] = (400, 900)
    """The first user message."""
    observation_tokens: tuple[int, int] = (60, 220)
    """What a tool returns."""
    output_tokens: tuple[int, int] = (8, 40)
    tool_s: tuple[float, float] = (0.2, 2.0)
    """Engine seconds of a tool call."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("agents", 1), ("system_tokens", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        for name, floor in (
            ("steps", 1),
            ("task_tokens", 1),
            ("observation_tokens", 1),
            ("output_tokens", 1),
            ("tool_s", 0),
        ):
            low, high = getattr(self, name)
            if not floor <= low <= high:
                raise ValueError(f"{name} must be a range from at least {floor} upwards, got {(low, high)}")

    def plan(self) -> tuple[AgentPlan, ...]:
        """The agents. Equal workloads make equal plans, on every machine."""
        system = text(Random(f"{self.seed} system"), self.system_tokens)
        return tuple(self._agent(number, system) for number in range(self.agents))

    def _agent(self, number: int, system: str) -> AgentPlan:
        rng = Random(f"{self.seed} agent {number}")  # its own, so that an agent is the same in a smaller batch
        task = text(rng, rng.randint(*self.task_tokens))
        count = rng.randint(*self.steps)
        steps = [
            StepPlan(
                output_tokens=rng.randint(*self.output_tokens),
                tool_s=rng.uniform(*self.tool_s),
                observation=text(rng, rng.randint(*self.observation_tokens)),
            )
            for _ in range(count - 1)
        ]
        steps.append(StepPlan(output_tokens=rng.randint(*self.output_tokens), tool_s=0.0, observation=""))
        return AgentPlan(agent_id=f"agent-{number:02d}", system=system, task=task, steps=tuple(steps))
