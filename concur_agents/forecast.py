"""How much agents are going to hold, judged by those that have finished and those that go on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

__all__ = ["Forecast"]


class Forecast:
    """Where contexts end. Pure; made anew for each sample.

    Agents that have finished say it. Those that go on say that it is further than they are: each counts as one that
    grows by as much again. Without them a batch that began together would be judged by its shortest agents.

    Args:
        finals: tokens in context of agents when they finished, the last ones.
        going_on: tokens in context of agents that go on.
        first: tokens in context after an agent's first step.
        least: growth that an agent is taken to have before it at least.
    """

    def __init__(self, finals: Iterable[float], going_on: Iterable[float], *, first: float, least: float) -> None:
        self._least = least
        self._ends = sorted([*finals, *(context + max(context - first, least) for context in going_on)])
        self._sums = [*accumulate(reversed(self._ends), initial=0.0)]

    def remaining(self, context: float) -> float:
        """Tokens an agent is going to grow by: on average, of all that went beyond where it is."""
        beyond = len(self._ends) - bisect_right(self._ends, context)
        return self._sums[beyond] / beyond - context if beyond else self._least

    def peak(self, contexts: Iterable[float]) -> tuple[float, float]:
        """The most that agents hold together at one time, if all grow alike until each ends, and nobody follows.

        Agents that began together end together, and need room for all their growth; where some end while others grow,
        there is none to keep.

        Args:
            contexts: tokens each holds now.

        Returns:
            That, and how far each of those that are there then has grown until then. Tokens.
        """
        ends = sorted((self.remaining(context), context) for context in contexts)
        held = sum(context for _, context in ends)
        most, horizon, going_on = held, 0.0, len(ends)
        for remaining, context in ends:
            at_its_end = held + going_on * remaining
            if at_its_end > most:
                most, horizon = at_its_end, remaining
            held -= context
            going_on -= 1
        return most, horizon
