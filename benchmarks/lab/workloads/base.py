"""What a workload is, and how its random numbers come from its seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.workloads.quantiles import Quantiles

__all__ = ["Quantiles", "Workload", "each"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One named kind of batch."""

    name: str
    about: str
    """One line: what it stands for."""
    agents: int
    """How many by default."""
    make: Callable[[random.Random, int], Batch]
    """A batch of so many agents; the same for the same random numbers."""
    source: str = ""
    """A few words: where its numbers come from. Each parameter's own source stands beside it."""

    def batch(self, seed: int, agents: int | None = None) -> Batch:
        """The batch of a seed.

        Raises:
            ValueError: ``agents`` is below 1.
        """
        count = self.agents if agents is None else agents
        if count < 1:
            raise ValueError(f"agents must be at least 1, got {count}")
        return self.make(random.Random(f"{self.name}/{seed}"), count)


def each(rng: random.Random, agents: int, plan: Callable[[random.Random, int], Plan]) -> list[Plan]:
    """So many plans, each from random numbers of its own: with more agents, those there were stay as they are.

    Args:
        rng: the batch's.
        agents: how many.
        plan: makes the plan of an index.
    """
    root = rng.getrandbits(64)
    return [plan(random.Random(f"{root}/{index}"), index) for index in range(agents)]
