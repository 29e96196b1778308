"""What a batch of agents is going to do: every prompt, every output and every tool, known beforehand.

Only the lab and its clairvoyant references look at it; a law sees what it would see of real agents.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from concur_agents.emulator.radix import TOKEN_BYTES

__all__ = ["Batch", "Plan", "Step"]

_UNIQUE = 1 << 20  # token ids an agent may use: no context is longer than a million tokens
_PREFIXES = 1 << 30  # ids from here on belong to shared prefixes


@dataclass(frozen=True, slots=True)
class Step:
    """One generation and the tool after it."""

    prompt: int
    """Tokens in the request. Usually the step before, its output, and what its tool returned."""
    output: int
    """Tokens generated. >= 1."""
    tool_s: float
    """Seconds in the tool afterwards; of an agent's last step it is not waited for."""


@dataclass(frozen=True)
class Plan:
    """One agent's whole life.

    Raises:
        ValueError: naming the agent and the step that cannot be.
    """

    agent_id: str
    steps: Sequence[Step]
    arrival_s: float = 0.0
    """Seconds after its wave begins."""
    prefix: int = 0
    """Which shared prefix its prompts begin with; agents with the same number share it."""
    prefix_tokens: int = 0
    """How long that is; 0 for none."""

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError(f"agent {self.agent_id!r} has no step")
        for number, step in enumerate(self.steps):
            if step.prompt < 1 or step.output < 1 or not 0 <= step.tool_s < float("inf"):
                raise ValueError(f"agent {self.agent_id!r}, step {number}: {step} cannot be")
        if self.arrival_s < 0 or self.prefix_tokens < 0 or self.longest >= _UNIQUE:
            raise ValueError(f"agent {self.agent_id!r}: arrival, prefix or length out of range")

    @cached_property
    def longest(self) -> int:
        """Tokens of its longest context."""
        return max(step.prompt + step.output for step in self.steps)

    def tokens(self, index: int) -> bytes:
        """The token ids that its contexts are beginnings of, packed.

        Args:
            index: the agent's number in its batch; no two agents share any token beyond a shared prefix.
        """
        ids = array("I", range((index + 1) * _UNIQUE, (index + 1) * _UNIQUE + self.longest))
        shared = min(self.prefix_tokens, self.longest)
        start = _PREFIXES + self.prefix * _UNIQUE
        ids[:shared] = array("I", range(start, start + shared))
        assert ids.itemsize == TOKEN_BYTES  # noqa: S101 - an unsigned int has four bytes wherever CPython runs
        return ids.tobytes()


@dataclass(frozen=True)
class Batch:
    """Agents, in waves: a wave begins when the one before has ended, and the engine's weights were exchanged.

    Raises:
        ValueError: two agents have one id, or there is none.
    """

    waves: Sequence[Sequence[Plan]]
    update_s: float = 0.0
    """Seconds that the engine stands still between two waves, after which its cache is empty."""
    cores: int | None = None
    """Tools that the agents' machine runs at a time, while the others wait in line; None for as many as there are."""

    def __post_init__(self) -> None:
        if not self.plans:
            raise ValueError("a batch needs at least one agent")
        if self.cores is not None and self.cores < 1:
            raise ValueError(f"cores must be at least 1, or None, got {self.cores}")
        if len({plan.agent_id for plan in self.plans}) < len(self.plans):
            raise ValueError("two agents of a batch have the same id")

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """All agents, wave by wave."""
        return tuple(plan for wave in self.waves for plan in wave)

    @classmethod
    def of(cls, plans: Sequence[Plan], *, cores: int | None = None) -> Batch:
        """One wave."""
        return cls((plans,), cores=cores)
