"""A token budget: seat what the KV pool can keep, by what the agents hold. The default law."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace

from concur_agents.laws._checks import check_at_least, check_range
from concur_agents.laws.base import Decision, Law
from concur_agents.laws.concur import ConcurLaw
from concur_agents.samples import EngineSample, Population, Reason

__all__ = ["TokenBudget"]

_LEAST_TRUST = 0.1  # below a tenth of the pool it is not the agents that evict each other
_CUT, _REGAINED = 0.95, 1.02  # trust: lost at once, won back in one cycle of the agents without losses
_CHEAP = 4.0  # tokens prefilled for each generated: fewer take less time than that one, on all cards we know
_LITTLE = 3.0  # tokens held for each that a step generates: the same with room for agents that begin with little
_TOO_MUCH = 0.9  # of what was held when contexts were lost, for a pool whose capacity nobody says
_DOUBLE, _MORE = 2.0, 1.1  # in one cycle of the agents: less often nobody has come back to tell
_HALF = 0.5  # more is not cut at once: what is lost after a cut was evicted before it
_KEPT = 0.97  # reuse above which nothing is being evicted: replies round to pages, agents drop parts of their history
_MOST_COLD = 0.5  # share of steps bound to miss above which the engine's counters do not tell of the others
_CROWDED = 0.9  # pinned usage above which requests wait in the engine for memory, not for their turn
_LAST = 0.2  # of the seated, as many that wait: with fewer the look-ahead shrinks
_LARGE, _FEW = 8192, 4  # until one has replied, as many agents are seated as the pool holds of so many tokens each
_LONG_S = 60.0  # seconds a refill is taken to last while unknown; models on their usual cards need 10 to 40
_SAMPLES = 4  # to measure prefill speed over: SGLang counts whole chunks, and one more or less must not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudget:
    """Agents have seats while the pool holds all they hold, and what they are going to grow by in the near future.

    ::

        budget             = (1 - margin) * trust * capacity - shared prefix
        seat the oldest      if what all are going to hold within the look-ahead <= budget
        park the youngest    while held, and what it grows by in one step, > budget
        park who is in a tool for longer than patience, for one who waits

    ``held`` is what the seated agents have in context, from their own replies, without the prefix that all share: it
    is there once. Heads are not counted: a window of agents that is right for short contexts thrashes once they have
    grown. Admission keeps to the budget at every boundary, not once a tick.

    Look-ahead and patience are measured in *refills*: the time the engine takes to prefill its whole pool, from the
    fastest prefill seen. It is what eviction costs, in seconds: an agent that is parked sooner than that after it was
    seated costs more by its next prefill than its place in the decode batch was worth; one that stays in a tool for
    longer keeps room that is worth more than its prefill. So neither depends on the model, the cards or the agents.

    ``trust`` is 1 while agents that kept their seats find their contexts cached, and falls while they do not, or when
    the engine throws out running requests: then the pool is not ours alone, or smaller than it says. Where the engine
    never told its capacity, it is learned in the same way: from what was held when contexts were lost.

    Until an agent has replied nobody knows what a first prompt holds: as many are seated until then as the pool holds
    of 8,192 tokens each, or ``start`` where its capacity is unknown. Where replies have no usage, or neither
    engine nor replies tell what is cached, ``without`` decides. No reading is needed once the capacity is known.

    Raises:
        ValueError: names the parameter and its value.
    """

    margin: float = 0.05
    """Share of the pool left free. [0, 1)."""
    ahead: float = 1.0
    """How far to look ahead when one more is seated, in refills; no further than it has looked back. >= 0."""
    patience: float = 1.0
    """How long an agent keeps its seat in a tool while others wait, in refills. > 0."""
    lost: float = 0.15
    """Share of kept contexts lost above which trust falls. 0..1."""
    start: float = 16.0
    """Agents that are seated before anything is known of their size and of the pool. >= 1."""
    without: Law = field(default_factory=ConcurLaw)
    """What decides where nobody says how long contexts are."""
    capacity: float | None = None
    """Tokens the pool holds, from the last reading that said so; None in a law that has seen nothing."""
    learned: float = math.inf
    """The same where no reading says so, as far as was tried; ``inf`` before the first reply."""
    trust: float = 1.0
    """See above. (0, 1]."""
    probing: bool = True
    """Nothing was lost yet."""
    cheap: bool = False
    """In the last steps prefill was little beside decoding."""
    calm_s: float = 0.0
    """Seconds since the last cut."""
    seen_s: float = 0.0
    """Seconds since the first sample."""
    fastest: float | None = None
    """Most tokens prefilled a second so far; None while unknown."""
    computed: float = 0.0
    elapsed_s: float = 0.0
    samples: int = 0
    """Tokens, seconds and samples since prefill speed was measured last."""

    def __post_init__(self) -> None:
        check_range(self, "margin", 0, math.nextafter(1, 0))
        check_range(self, "ahead", 0, sys.float_info.max)
        check_range(self, "patience", 0, math.inf, open_low=True)
        check_range(self, "lost", 0, 1)
        check_at_least(self, "start", 1)
        check_range(self, "trust", 0, 1, open_low=True)

    @property
    def initial(self) -> float:
        """``start``."""
        return self.start

    @property
    def refill_s(self) -> float:
        """Seconds to prefill the whole pool, as far as was seen; ``inf`` while unknown."""
        pool = self.learned if self.capacity is None else self.capacity
        return pool / self.fastest if self.fastest and math.isfinite(pool) else math.inf

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        """The budget of this moment."""
        law = self if sample.capacity_tokens is None else replace(self, capacity=sample.capacity_tokens)
        law = replace(law._time(sample, population), seen_s=law.seen_s + (population.elapsed_s or 0.0))
        blind = law.capacity is None and not population.reports_reuse and sample.query_tokens_total is None
        if population.measured is False or (blind and population.measured):
            inner = law.without.decide(sample, population)
            return replace(inner, law=replace(law, without=inner.law or law.without))
        if _worthless(population):  # what is lost meanwhile says nothing of the pool, nor in the cycle after it
            return Decision(math.inf, Reason.FOLLOW, replace(law, calm_s=0.0))
        law, reason = law._learn(sample, population)
        tokens = max(0.0, (1 - law.margin) * law._pool - population.shared_prefix - law._unseen(sample, population))
        if population.first_context is None:
            window = self.start if law.capacity is None else max(_FEW, law.capacity / _LARGE)
            return Decision(window, Reason.START, law, tokens=tokens)
        refill = law.refill_s
        return Decision(
            math.inf,
            reason,
            law,
            tokens=tokens,
            ahead=law._ahead(refill, population),
            patience_s=law.patience * refill,
        )

    @property
    def _pool(self) -> float:
        return self.learned if self.capacity is None else self.trust * self.capacity

    def _unseen(self, sample: EngineSample, population: Population) -> float:
        """Tokens that running requests hold beyond what agents were known to: replies say it when they are there."""
        if sample.pinned_usage is None or self.capacity is None:
            return 0.0
        return max(0.0, sample.pinned_usage * self.capacity - population.shared_prefix - population.held)

    def _ahead(self, refill_s: float, population: Population) -> float:
        """Tokens that an agent grows by within the look-ahead; to its end while that is unknown."""
        if not population.cycle_s or population.growth is None:
            return population.first_context or 0.0
        # The last of a batch that wait: a seat kept free is worth less than the time they lose, and nobody follows.
        pressure = min(1.0, population.waiting / (_LAST * max(1, population.seated)))
        # Not further than back: at first the engine is not busy, so a refill seems long, and cycles short.
        horizon_s = min(self.ahead * min(refill_s, _LONG_S), self.seen_s)
        return pressure * horizon_s / population.cycle_s * population.growth

    def _time(self, sample: EngineSample, population: Population) -> TokenBudget:
        """Measure how fast the engine prefills: by its counters, else by what replies say was not cached."""
        computed, elapsed = sample.computed, sample.elapsed_s
        if computed is None or elapsed is None:
            computed, elapsed = population.computed, population.elapsed_s
        if computed is None or elapsed is None:
            return self
        computed, elapsed, samples = self.computed + computed, self.elapsed_s + elapsed, self.samples + 1
        if samples < _SAMPLES or elapsed <= 0:
            return replace(self, computed=computed, elapsed_s=elapsed, samples=samples)
        fastest = max(self.fastest or 0.0, computed / elapsed) or None
        return replace(self, computed=0.0, elapsed_s=0.0, samples=0, fastest=fastest)

    def _learn(self, sample: EngineSample, population: Population) -> tuple[TokenBudget, Reason]:
        """Trust, or the capacity where none was said, from what agents that kept their seats have lost."""
        law = replace(self, calm_s=self.calm_s + (population.elapsed_s or 0.0))
        reuse = _reuse(sample, population)
        lost = (reuse is not None and reuse < 1 - self.lost) or (reuse is None and bool(sample.retractions))
        settled = law.calm_s >= (population.cycle_s or 0.0)  # else it was lost before the last cut
        if self.capacity is None:
            if population.output:
                # Where agents generate most of what they hold, what is lost costs little: no reason to run fewer.
                law = replace(law, cheap=(population.computed or 0.0) < _CHEAP * population.output)
            return law._probe(population, reuse, lost=lost and settled)
        # What is lost while more is held than the budget says, or more runs than fits, says nothing of the pool.
        crowded = bool(sample.queued) and (sample.pinned_usage is None or sample.pinned_usage > _CROWDED)
        if lost and settled and population.held <= population.tokens and not crowded:
            return replace(law, trust=max(_LEAST_TRUST, self.trust * _CUT), calm_s=0.0), Reason.CUT
        if reuse is not None and reuse > _KEPT and self.trust < 1:
            return replace(law, trust=min(1.0, self.trust * _REGAINED ** _cycles(population))), Reason.GROW
        return law, Reason.FOLLOW

    def _probe(self, population: Population, reuse: float | None, *, lost: bool) -> tuple[TokenBudget, Reason]:
        """Learn the capacity: double what may be held each cycle until something is lost, then by small steps."""
        held = population.held + population.shared_prefix
        if lost and population.held and not self.cheap:
            left = max(_HALF, reuse or 0.0) * _TOO_MUCH
            least = population.first_context or 0.0
            learned = max(least, min(self.learned, held) * left)
            return replace(self, learned=learned, probing=False, calm_s=0.0), Reason.CUT
        if math.isinf(self.learned):
            return replace(self, learned=self.start * (population.first_context or math.inf)), Reason.START
        if not (self.cheap or (reuse is not None and reuse >= _KEPT)) or not population.waiting:
            return self, Reason.FOLLOW
        rate = _DOUBLE if self.probing else _MORE
        return replace(self, learned=self.learned * rate ** _cycles(population)), Reason.GROW


def _worthless(population: Population) -> bool:
    """Whether to prefill a whole context again takes less time than the step that follows spends on decoding.

    Then it is the decode batch that counts, and it is largest with everybody in the engine, who serves each in turn:
    agents that wait for a seat start late, and the last of them are alone at the end.
    """
    if population.mean_context is None or population.generated is None:
        return False
    return population.mean_context - population.shared_prefix < _LITTLE * population.generated


def _cycles(population: Population) -> float:
    """Cycles of the agents since the last sample; 0..1."""
    return min(1.0, (population.elapsed_s or 0.0) / (population.cycle_s or math.inf))


def _reuse(sample: EngineSample, population: Population) -> float | None:
    """Of the contexts of agents that kept their seats, the share still cached.

    Where replies do not say, by the engine's counters. They see all prompts: what a step adds to its context must miss,
    and all of a cold one.
    """
    if population.reports_reuse:
        return population.reuse
    context, growth, cold = population.mean_context, population.growth, population.cold_share
    if sample.hit_rate is None or not context or growth is None or cold is None or cold > _MOST_COLD:
        return None
    return min(1.0, sample.hit_rate * (1 + growth / context) / (1 - cold))
