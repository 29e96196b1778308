"""Agents in a closed loop on a scheduler, in passes instead of seconds: the same for the emulator and for real vLLM."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["SEEDS", "Agent", "Core", "Scenario", "Step", "drive", "scenario"]

SEEDS = (10, 97, 102, 120, 139, 173, 240, 245)
"""Scenarios that are recorded: chosen for their preemptions, on pools and passes of different size."""


@dataclass(frozen=True)
class Step:
    prompt: list[int]
    output: list[int]
    passes: int
    """That its tool takes."""


@dataclass(frozen=True)
class Agent:
    begins: int
    steps: list[Step]


@dataclass(frozen=True)
class Scenario:
    blocks: int
    context: int
    batched: int
    running: int
    agents: list[Agent]
    page: int = 16


class Core(Protocol):
    """A scheduler whose model is a script."""

    def submit(self, name: str, step: Step) -> None: ...

    def idle(self) -> bool: ...

    def forward(self) -> list[str]:
        """One pass; who has ended."""
        ...

    def state(self) -> list[int]:
        """After the pass: tokens it computed, running and waiting requests, free blocks."""
        ...

    def outcome(self) -> dict[str, Any]:
        """At the end: what was found cached, how often preempted, and the counters."""
        ...


def scenario(seed: int) -> Scenario:
    """Agents whose contexts grow, begin alike, and are sometimes cut back; a pool that is too small for all."""
    rng = random.Random(seed)
    blocks = rng.choice([24, 40, 64, 120])
    context = min(blocks * 16, 1000)
    batched = rng.choice([16, 40, 64, 128, 256])
    running = min(rng.choice([2, 4, 8, 16]), batched)
    shared = [rng.choices(range(1000), k=rng.choice([0, 20, 64, 100])) for _ in range(2)]
    agents = []
    for _ in range(rng.randint(2, 14)):
        tokens = rng.choice(shared) + rng.choices(range(1000, 30_000), k=rng.randint(1, 60))
        steps = []
        for _ in range(rng.randint(1, 6)):
            output = rng.choices(range(1000, 30_000), k=rng.randint(1, 60))
            if len(tokens) + len(output) >= context:
                break
            steps.append(Step(tokens, output, rng.choice([0, 0, 1, 3, 30])))
            tokens = tokens + output + rng.choices(range(1000, 30_000), k=rng.randint(0, 40))
            if rng.random() < 0.1:
                tokens = tokens[: rng.randint(1, len(tokens))]
        if steps:
            agents.append(Agent(rng.randint(0, 10), steps))
    return Scenario(blocks, context, batched, running, agents)


def drive(plan: Scenario, core: Core) -> dict[str, Any]:
    """Run a scenario to its end; everything that can be seen of it."""
    due = [(agent.begins, number, 0) for number, agent in enumerate(plan.agents)]
    heapq.heapify(due)
    now, trace, ends = 0, [], {}
    while due or not core.idle():
        assert now < 20_000, "it does not end"
        while due and due[0][0] <= now:
            _, number, index = heapq.heappop(due)
            core.submit(f"{number}/{index}", plan.agents[number].steps[index])
        if core.idle():
            now = due[0][0]
            continue
        ended = core.forward()
        now += 1
        trace.append(core.state())
        for name in ended:
            ends[name] = now
            number, index = map(int, name.split("/"))
            steps = plan.agents[number].steps
            if index + 1 < len(steps):
                heapq.heappush(due, (now + steps[index].passes, number, index + 1))
    return {"trace": trace, "ends": ends, **core.outcome()}
