"""How much agents are going to hold, judged by those that have finished and those that go on."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable

__all__ = ["Forecast"]

_MANY = 512  # contexts looked at: of more, evenly spread ones stand for the others
_POINTS = 8  # how finely to look ahead: what is held between two of them differs little from the greater


class Forecast:
    """Where contexts end: the Kaplan-Meier estimate. Pure; made anew for each sample.

    Agents that have finished say where contexts end. Those that go on say only that theirs end further on, so they
    count among those who might have ended wherever others did, and did not. Without them a batch that began together
    would be judged by its shortest agents; and where nobody has ended yet, nobody is taken to end.

    Args:
        finals: tokens in context of agents when they finished, the last ones.
        going_on: tokens in context of agents that go on.
    """

    def __init__(self, finals: Iterable[float], going_on: Iterable[float]) -> None:
        ended = Counter(finals)
        self._ends = sorted(ended)
        reached = sorted([*ended.elements(), *going_on])
        self._lives = [1.0]
        """Share of agents that go on beyond each end, and before the first."""
        for end in self._ends:
            at_risk = len(reached) - bisect_left(reached, end)
            self._lives.append(self._lives[-1] * (1 - ended[end] / at_risk))

    def goes_on(self, context: float, growth: float) -> float:
        """Chance that an agent whose context is that long now grows by so many tokens without ending. 0..1."""
        now = self._lives[bisect_right(self._ends, context)]
        then = self._lives[bisect_right(self._ends, context + growth)]
        return then / now if now else 1.0  # beyond everybody who has ended nothing is known

    def swell(self, contexts: Collection[float], growth: float) -> float:
        """How much more agents are expected to hold together after so much growth of each that goes on; at least 0.

        Args:
            contexts: tokens each holds now.
            growth: tokens.
        """
        shown, each = _shown(contexts)
        after = sum(self.goes_on(context, growth) * (context + growth) for context in shown)
        return each * max(0.0, after - sum(shown))

    def peak(self, contexts: Collection[float], within: float) -> tuple[float, float]:
        """The most that agents are expected to hold together, if all grow alike until each ends, and nobody follows.

        Agents that began together end together, and need room for all their growth; where some end while others grow,
        there is little to keep, or none.

        Args:
            contexts: tokens each holds now.
            within: growth to look ahead; tokens.

        Returns:
            That with one standard deviation, for who ends is a matter of chance; and how far each of those that are
            there then has grown until then. Tokens. Looked at is only every eighth of ``within``: what is held between
            two of them, while some end, may be a little more.
        """
        shown, each = _shown(contexts)
        most, horizon = each * sum(shown), 0.0
        for point in range(1, _POINTS + 1):
            growth = within * point / _POINTS
            held = variance = 0.0
            for context in shown:
                chance, size = self.goes_on(context, growth), context + growth
                held += chance * size
                variance += chance * (1 - chance) * size * size
            held = each * held + math.sqrt(each * variance)
            if held > most:
                most, horizon = held, growth
        return most, horizon


def _shown(contexts: Collection[float]) -> tuple[Collection[float], float]:
    """Those looked at, and for how many each of them stands."""
    every = -(-len(contexts) // _MANY)
    shown = sorted(contexts)[every // 2 :: every] if every > 1 else contexts
    return shown, len(contexts) / max(1, len(shown))
