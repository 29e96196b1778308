"""What a run notes of a step, of an agent and of a moment; :mod:`~benchmarks.swebench.records` keeps it on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

__all__ = ["AgentRecord", "StepRecord", "TimelinePoint"]

STRICT = ConfigDict(extra="forbid", strict=True)
"""A file of another version is refused, not guessed at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One generation and the tools it called. Seconds are wall seconds; tokens are unknown (None) if not reported."""

    __pydantic_config__: ClassVar = STRICT

    started_s: float
    """When the agent asked for a seat, from the start of the arm."""
    wait_s: float | None = None
    """Waiting for the seat; None when the agent was stopped while it waited."""
    generation_s: float | None = None
    """From the request to its reply."""
    tool_s: float | None = None
    """In the tools this generation called, added up; None when it called none."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def context_tokens(self) -> int | None:
        """Tokens of the agent's context after the step."""
        if self.prompt_tokens is None or self.output_tokens is None:
            return None
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """How one agent fared in one arm."""

    __pydantic_config__: ClassVar = STRICT

    agent_id: str
    task_id: str
    seed: int
    outcome: str
    """``completed``, ``failed`` or ``cancelled``."""
    error: str | None = None
    """Type and message of what ended it, when that was an error."""
    by_concur: bool = False
    """Whether Concur itself ended it (then the agent counts as lost)."""
    resolved: bool | None = None
    """Whether the task's tests pass on what it left; None when they could not be run."""
    test_exit_code: int | None = None
    commands: int = 0
    """Commands it ran in its sandbox."""
    commands_failed: int = 0
    """Of these, ended with another exit code than 0 or killed."""
    started_s: float
    ended_s: float
    """Wall seconds from the start of the arm."""
    steps: tuple[StepRecord, ...] = ()

    @property
    def wait_s(self) -> float:
        """Seconds spent waiting for seats."""
        return sum(step.wait_s or 0.0 for step in self.steps)

    @property
    def recomputed_tokens(self) -> int | None:
        """Tokens that were in context after one step and had to be prefilled again in the next; None if unreported."""
        total, known, context = 0, False, 0
        for step in self.steps:
            if step.prompt_tokens is not None and step.cached_tokens is not None:
                known = True
                total += max(0, min(context, step.prompt_tokens) - step.cached_tokens)
            context = step.context_tokens or context
        return total if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePoint:
    """One moment of an arm. Usages are shares of the pool; hits and queries are the engine's totals so far."""

    __pydantic_config__: ClassVar = STRICT

    at_s: float
    window: float | None
    """Agents; None when unlimited."""
    seated: int
    generating: int
    waiting: int
    """Queued for a seat, new or returning."""
    finished: int
    pinned_usage: float | None = None
    occupied_usage: float | None = None
    hit_tokens: float | None = None
    query_tokens: float | None = None
    running: int | None = None
    queued: int | None = None
    problem: str | None = None
