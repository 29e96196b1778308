"""The paper's law: additive increase, multiplicative decrease on KV usage and cache hit rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

from concur_agents.laws._checks import check_at_least, check_range
from concur_agents.laws.base import Decision
from concur_agents.samples import EngineSample, Population, Reason

__all__ = ["ConcurLaw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurLaw:
    """Concur's rule, once per fresh sample (arXiv 2601.22705; the five thresholds' defaults are the paper's).

    ::

        W + alpha       if U < u_low
        W - beta W      if U > u_high and H < h_thresh
        W               otherwise

    ``U`` is pinned KV usage (``EngineSample.pinned_usage``): the paper shows it hovering at 80% while its growth gate
    is 20%, which only pinned usage does. ``H`` is how much of what was looked up was still cached. Two things the
    paper leaves open are decided here:

    *How H is measured.* A cold start misses everything and is not congestion. So where replies report cached tokens,
    H is the agents' ``reuse`` (unknown while nobody has come back: hold). Else it is the counters' hit rate, and held
    while most steps begun were cold, since those must miss.

    *Where W starts.* At ``start``, by default unlimited: a batch that fits is then never slowed down, while pinned
    usage alone cannot tell such a batch from a large one and would stop growth at ``u_low``. Thrashing shows within
    some ticks, and cuts W from the number of agents seated, or that the pool holds at their mean context if that is
    less. The price is one recomputation of the agents parked then.

    Raises:
        ValueError: names the parameter and its value.
    """

    alpha: float = 2.0
    """Agents added per growth. > 0."""
    beta: float = 0.5
    """Share of the window taken per cut. (0, 1]."""
    u_low: float = 0.2
    """Grow below this pinned usage. 0..1."""
    u_high: float = 0.5
    """Cut only above this pinned usage. ``u_low``..1."""
    h_thresh: float = 0.2
    """Cut only below this hit rate. 0..1."""
    start: float = math.inf
    """First window, in agents. >= 1."""

    def __post_init__(self) -> None:
        check_range(self, "alpha", 0, math.inf, open_low=True)
        check_range(self, "beta", 0, 1, open_low=True)
        check_range(self, "u_low", 0, 1)
        check_range(self, "u_high", self.u_low, 1)
        check_range(self, "h_thresh", 0, 1)
        check_at_least(self, "start", 1)

    @property
    def initial(self) -> float:
        """``start``."""
        return self.start

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        """Apply the rule once."""
        window, usage = population.window, sample.pinned_usage
        if usage is None:
            return Decision(window, Reason.UNKNOWN)
        if usage < self.u_low:
            return Decision(window + self.alpha, Reason.GROW)
        hit_rate = _hit_rate(sample, population)
        if usage > self.u_high and hit_rate is not None and hit_rate < self.h_thresh:
            base = window if math.isfinite(window) else _in_use(sample, population)
            if base:
                return Decision(base - self.beta * base, Reason.CUT)
        return Decision(window, Reason.HOLD)


def _in_use(sample: EngineSample, population: Population) -> float:
    """Agents to cut from where there was no limit, since half of that is none: those seated, as far as the pool goes.

    Nobody seated is 0: then the congestion is not ours.
    """
    if sample.capacity_tokens is None or not population.mean_context:
        return population.seated
    return min(population.seated, sample.capacity_tokens / population.mean_context)


def _hit_rate(sample: EngineSample, population: Population) -> float | None:
    if population.reports_reuse:
        return population.reuse
    if population.cold_share is not None and population.cold_share > 0.5:
        return None
    return sample.hit_rate
