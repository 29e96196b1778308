"""An agent as a clairvoyant sees it: what it has done, and all that is to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import accumulate

from benchmarks.lab.batch import Plan

__all__ = ["Life"]


class Life:
    """One agent. Seconds are the scene's clock; a pace is seconds an output token takes.

    Args:
        plan: what it is going to do.
        number: its place in the batch.
        leaves: whether it gives its seat back for a tool of so many seconds while it holds so many tokens.
    """

    def __init__(self, plan: Plan, number: int, leaves: Callable[[float, int], bool]) -> None:
        self.plan = plan
        self.number = number
        self.step = 0
        """The step it is in, or the next one."""
        self.seated = False
        self.generating = False
        self.since = 0.0
        """When its generation began, or when its tool ends."""
        self.granted: asyncio.Future[None] | None = None
        """Set while it waits for a seat."""
        steps = plan.steps
        own = [max(0, step.prompt + step.output - plan.prefix_tokens) for step in steps]
        self._own = own
        self.leaves = [leaves(step.tool_s, held) for step, held in zip(steps, own, strict=True)]
        """Of each step: whether its seat is given back in the tool after it."""
        self._output_left = [*accumulate((s.output for s in reversed(steps)), initial=0)][::-1]
        tools = [0.0, *(step.tool_s for step in reversed(steps[:-1]))]
        self._tools_left = [*accumulate(tools, initial=0.0)][::-1]

    @property
    def held(self) -> int:
        """Tokens it keeps in the pool for itself alone: up to the end of the step it is in."""
        if not self.generating and not self.step:
            return 0
        return self._own[self.step if self.generating else self.step - 1]

    @property
    def final(self) -> int:
        """Tokens of its longest context."""
        return self.plan.longest

    def remaining_s(self, pace: float) -> float:
        """What it still has to go, were it to wait for nobody."""
        return self._output_left[self.step] * pace + self._tools_left[self.step]

    def future(self, now: float, pace: float, times: Sequence[float]) -> list[int]:
        """What it is going to hold at each of ``times`` (growing seconds from now), if it has a seat from now on."""
        steps = self.plan.steps
        index, last = self.step, len(steps) - 1
        work = steps[index].output * pace if index <= last else 0.0
        end = self.since - now + work  # of the step at ``index``
        end = max(0.0, end) if self.generating else max(end, work)
        holds = []
        for time in times:
            while index <= last and end <= time:
                end += steps[index].tool_s
                index += 1
                work = steps[index].output * pace if index <= last else 0.0
                end += work
            away = index > last or (index > self.step and time < end - work and self.leaves[index - 1])
            holds.append(0 if away else self._own[index])
        return holds
