"""What an engine is going to serve of a plan, whatever the schedule: its limits cut plans before any schedule does."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.lab.batch import Plan
from concur_agents.emulator import EngineConfig
from concur_agents.emulator.vllm import VllmConfig

__all__ = ["Served", "ServedStep", "served"]


@dataclass(frozen=True, slots=True)
class ServedStep:
    """One generation that the engine takes."""

    wait_s: float
    """Seconds in the tool before it; 0 before the first."""
    prompt: int
    """Tokens."""
    output: int
    """Tokens, after the engine's cut. The first comes from the prefill, each other from a decode pass."""
    new: int
    """Prompt tokens whose KV nothing can have computed before this step: past the shared prefix, past whatever this
    agent's earlier steps left. At least 1, for the engine always computes a prompt's last token."""
    fresh: bool
    """Whether ``new`` holds tokens of this agent alone; else it is one token of a prompt that may all be shared."""

    @property
    def decoded(self) -> int:
        """Tokens that are not the prefill's."""
        return max(0, self.output - 1)


@dataclass(frozen=True, slots=True)
class Served:
    """All that an engine takes of one agent."""

    plan: Plan
    steps: tuple[ServedStep, ...]
    end_wait_s: float = 0.0
    """Seconds in a tool after the last of them: the next prompt is refused, but not before the tool has ended."""

    @property
    def longest(self) -> int:
        """Most tokens in any of its contexts; 0 where nothing is served."""
        return max((step.prompt + step.output for step in self.steps), default=0)


def served(plan: Plan, config: EngineConfig | VllmConfig) -> Served:
    """Cut a plan where the engine will: at a prompt it refuses, or after an output it has no room for.

    The limits are those of the schedulers' ``submit`` for the lab's clients.
    """
    steps: list[ServedStep] = []
    computed, wait = plan.prefix_tokens, 0.0
    for step in plan.steps:
        room = _room(step.prompt, config)
        if room is None:
            return Served(plan, tuple(steps), wait)
        output = max(0, min(step.output, room))
        new = max(1, step.prompt - computed)
        steps.append(ServedStep(wait, step.prompt, output, new, step.prompt > plan.prefix_tokens))
        if output < step.output:
            break
        # The last token of an output is not fed back, so it has no KV when the step ends.
        computed = max(computed, step.prompt + max(0, output - 1))
        wait = step.tool_s
    return Served(plan, tuple(steps))


def _room(prompt: int, config: EngineConfig | VllmConfig) -> int | None:
    """Most output tokens behind such a prompt; None where it is refused."""
    if isinstance(config, VllmConfig):
        return config.context_length - prompt if prompt < config.context_length else None
    if prompt >= min(config.context_length, config.max_prompt_tokens):
        return None
    pages = -(-prompt // config.page_size) * config.page_size
    return min(config.max_request_tokens - prompt, config.max_total_tokens - pages - config.page_size) - 1
