"""A batch of the lab made small enough for an engine on a CPU, in the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.lab.batch import Batch, Plan, Step

__all__ = ["Scale", "scaled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much smaller.

    Raises:
        ValueError: naming the field and its value.
    """

    tokens: float = 1.0
    """Factor of every length. > 0."""
    merge: int = 1
    """So many steps become one, with all that they generate, are told and spend in tools: contexts grow as before, in
    fewer and larger steps. >= 1."""
    tools: float = 1.0
    """Factor of all seconds that are not the engine's: in tools, until arrival, between waves. >= 0."""
    longest: int = 6000
    """No context passes so many tokens: an agent ends before the step that would. At least one token of prompt and one
    of output, so >= 2."""

    def __post_init__(self) -> None:
        if not 0 < self.tokens < float("inf"):
            raise ValueError(f"tokens must be above 0 and finite, got {self.tokens}")
        if not 0 <= self.tools < float("inf"):
            raise ValueError(f"tools must be at least 0 and finite, got {self.tools}")
        for name, least in (("merge", 1), ("longest", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")


def scaled(batch: Batch, scale: Scale) -> Batch:
    """The smaller batch: the same agents, waves and shared prefixes.

    Raises:
        ValueError: an agent's very first step is longer than ``scale.longest``.
    """
    waves = [[_scaled(plan, scale) for plan in wave] for wave in batch.waves]
    return replace(batch, waves=waves, update_s=batch.update_s * scale.tools)


def _scaled(plan: Plan, scale: Scale) -> Plan:
    steps: list[Step] = []
    before: Step | None = None
    for step in _merged(plan.steps, scale.merge):
        small = Step(_part(step.prompt, scale), _part(step.output, scale), step.tool_s * scale.tools)
        if before is not None and step.prompt > before.prompt + before.output:
            # A tool that said something still does, and rounding takes nothing out of a context.
            small = replace(small, prompt=max(small.prompt, steps[-1].prompt + steps[-1].output + 1))
        if small.prompt + small.output > scale.longest:
            break
        steps.append(small)
        before = step
    if not steps:
        raise ValueError(f"agent {plan.agent_id!r}: its first step alone is longer than {scale.longest} tokens")
    return replace(
        plan,
        steps=steps,
        arrival_s=plan.arrival_s * scale.tools,
        prefix_tokens=_part(plan.prefix_tokens, scale) if plan.prefix_tokens else 0,
    )


def _merged(steps: Sequence[Step], count: int) -> Iterator[Step]:
    for start in range(0, len(steps), count):
        group = steps[start : start + count]
        yield Step(group[0].prompt, sum(step.output for step in group), sum(step.tool_s for step in group))


def _part(tokens: int, scale: Scale) -> int:
    return max(1, round(tokens * scale.tokens))
