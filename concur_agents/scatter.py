"""Contexts that are not found again though the cache is not full: no eviction, so no cut helps.

A router behind one address that spreads an agent's requests over replicas looks like thrashing to whoever sees hit
rates alone. What tells them apart is the cache: eviction needs a full one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from concur_agents.samples import EngineSample, Population

__all__ = ["ScatterWatch"]

# Share of kept contexts lost above which a law would act; the token budget's own.
_LOST = 0.15
# A radix cache that evicts is nearly full; one that is less full than this has not evicted anything.
_NOT_FULL = 0.7
# The same where the engine does not say what is cached: an upper estimate of what our agents alone could fill.
_HALF = 0.5
_IN_A_ROW = 3
"""Readings with the same verdict before it is told, or taken back: one may be a few agents' last steps."""
_MOST_COLD = 0.5

_PROBLEM = (
    "agents do not find their contexts in the engine's cache, and it is not full: fewer agents would not help. "
    "Is there a router that spreads an agent's requests over replicas (docs/engines.md), a prefix cache that is "
    "switched off, or do agents rewrite their history?"
)


class _First(NamedTuple):
    """When contexts were lost first: how full the cache was, and how much was kept."""

    full: float
    kept: float


class ScatterWatch:
    """Tells scattered sessions from eviction, reading by reading, and keeps a law from answering them with a cut.

    Where the engine says what its cache holds (``occupied_usage``) this is certain. Else what its running requests and
    the seated agents hold is taken, from above; others may use the pool too, so a law's cuts are let through until they
    have halved that without any effect.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        """What to tell a person; None while all is well, or nothing is known."""
        self._row = 0
        """Readings in a row that speak for it; below 0 against it."""
        self._first: _First | None = None
        self._withhold = False

    def see(self, sample: EngineSample | None, population: Population) -> tuple[EngineSample, Population]:
        """Take a reading, and return what a law is to see of it.

        Args:
            sample: with deltas; None when there is nothing new.
            population: the agents at the same moment.
        """
        if sample is not None and not sample.restarted:
            self._judge(sample, population)
        sample = EngineSample() if sample is None else sample
        if not self._withhold:
            return sample, population
        return replace(sample, hit_rate=None), replace(population, reuse=None)

    def _judge(self, sample: EngineSample, population: Population) -> None:
        kept, full = _kept(sample, population), _full(sample, population)
        if kept is None or full is None:
            return
        certain = sample.occupied_usage is not None
        scattered = kept < 1 - _LOST and full < (_NOT_FULL if certain else _HALF)
        if scattered:
            self._first = self._first or _First(full, kept)
            cuts_do_nothing = full <= self._first.full / 2 and kept < self._first.kept + _LOST
            self._withhold = certain or cuts_do_nothing or self._withhold
            self._row = max(1, self._row + 1)
        else:
            self._row = min(-1, self._row - 1)
        if self._row >= _IN_A_ROW:
            self.problem = _PROBLEM
        elif self._row <= -_IN_A_ROW or (not scattered and self.problem is None):
            self.problem, self._first, self._withhold = None, None, False


def _kept(sample: EngineSample, population: Population) -> float | None:
    """Of what agents that kept their seats had in context, the share found: by their replies, else by the counters."""
    if population.reports_reuse:
        return population.reuse
    context, growth, cold = population.mean_context, population.growth, population.cold_share
    if sample.hit_rate is None or not context or growth is None or cold is None or cold > _MOST_COLD:
        return None
    return min(1.0, sample.hit_rate * (1 + growth / context) / (1 - cold))


def _full(sample: EngineSample, population: Population) -> float | None:
    if sample.occupied_usage is not None:
        return sample.occupied_usage
    if sample.pinned_usage is None or not sample.capacity_tokens:
        return None
    return sample.pinned_usage + (population.held + population.shared_prefix) / sample.capacity_tokens
