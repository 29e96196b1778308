"""A token budget: seat what the KV pool can keep, by what the agents hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from concur_agents.laws._checks import check_at_least, check_range
from concur_agents.laws.base import Decision, Law
from concur_agents.laws.concur import ConcurLaw
from concur_agents.samples import EngineSample, Growth, Population, Reason

__all__ = ["TokenBudget"]

_LEAST_TRUST = 0.1  # below a tenth of the pool it is not the agents that evict each other
_CUT, _REGAINED = 0.9, 1.02  # trust falls in one step by what it takes ten samples without eviction to win back
_KEPT = 0.97  # reuse above which nothing is being evicted: replies round to pages, agents drop parts of their history


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudget:
    """Agents have seats while the pool holds all they hold, and part of what they are going to grow by.

    ::

        budget             = fill * trust * capacity - shared prefix
        seat one more        if what all are going to hold at most <= budget
        park the youngest    while held > budget

    ``held`` is what the seated agents have in context, from their own replies, without the prefix that all share: it
    is there once. Heads are not counted: a window of agents that is right for short contexts thrashes once they have
    grown. Admission keeps to the budget at every boundary, not once a tick.

    ``trust`` is 1 while agents that kept their seats find their contexts cached, and falls while they do not: then the
    pool is not ours alone, or smaller than it says. It rises again with samples that show nothing evicted.

    Until an agent has replied nobody knows what a first prompt holds: ``start`` agents are seated until then. Where
    replies have no usage, or the engine never told its capacity, ``without`` decides. Once the capacity is known no
    reading is needed any more.

    Raises:
        ValueError: names the parameter and its value.
    """

    fill: float = 0.95
    """Share of the pool to fill. (0, 1]."""
    reserve: float = 1.0
    """Of the growth that is expected, the share to keep room for when one more is seated. 0..1."""
    low_reuse: float = 0.85
    """Reuse below which trust falls. 0..1."""
    start: float = 16.0
    """Agents that are seated before anything is known of their size. >= 1."""
    without: Law = field(default_factory=ConcurLaw)
    """What decides where contexts or capacity are unknown."""
    capacity: int | None = None
    """Tokens the pool holds, from the last reading that said so; None in a law that has seen nothing."""
    trust: float = 1.0
    """See above. (0, 1]."""

    def __post_init__(self) -> None:
        check_range(self, "fill", 0, 1, open_low=True)
        check_range(self, "reserve", 0, 1)
        check_range(self, "low_reuse", 0, 1)
        check_at_least(self, "start", 1)
        check_range(self, "trust", 0, 1, open_low=True)

    @property
    def initial(self) -> float:
        """``start``."""
        return self.start

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        """The budget of this moment."""
        law = self if sample.capacity_tokens is None else replace(self, capacity=sample.capacity_tokens)
        if law.capacity is None or population.measured is False:
            return law._decide_without(sample, population)
        law, reason = law._learn(population)
        if population.first_context is None:
            return Decision(self.start, Reason.START, law, tokens=law._budget(population))
        return Decision(math.inf, reason, law, tokens=law._budget(population), growth=law._growth(population))

    def _growth(self, population: Population) -> Growth:
        seated = self.reserve * max(0.0, population.peak - population.held)
        return Growth(seated=seated, each=self.reserve * population.horizon)

    def _budget(self, population: Population) -> float:
        return max(0.0, self.fill * self.trust * (self.capacity or 0) - population.shared_prefix)

    def _learn(self, population: Population) -> tuple[TokenBudget, Reason]:
        if population.reuse is None:
            return self, Reason.FIXED  # no reading is needed for this
        if population.reuse < self.low_reuse:
            return replace(self, trust=max(_LEAST_TRUST, self.trust * _CUT)), Reason.CUT
        if population.reuse > _KEPT and self.trust < 1:
            return replace(self, trust=min(1.0, self.trust * _REGAINED)), Reason.GROW
        return self, Reason.FIXED

    def _decide_without(self, sample: EngineSample, population: Population) -> Decision:
        inner = self.without.decide(sample, population)
        return replace(inner, law=replace(self, without=inner.law or self.without))
