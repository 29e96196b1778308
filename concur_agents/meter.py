"""What the agents' own replies say: tokens, and how much of each context the engine still had.

Needs no polling, and tells a cold start from eviction. Like admission it has no clock and no lock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from concur_agents.forecast import Forecast
from concur_agents.samples import Population
from concur_agents.usage import TokenUsage

__all__ = ["Meter", "Sums", "Totals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Tokens over all observed steps so far."""

    prompt: int = 0
    cached: int | None = None
    """None until a reply reported any."""
    output: int = 0
    recomputed: int | None = None
    """Tokens that were in an agent's context before its step and not cached any more; None as above."""


@dataclass(slots=True, kw_only=True)
class Sums:
    """Over the steps since a law has looked last."""

    kept: int = 0
    expected: int = 0
    """Tokens found of those that should have been, in steps of agents that kept their seats."""
    computed: int = 0
    """Prompt tokens that were not cached."""
    output: int = 0
    """Tokens generated, by replies that said what was cached."""
    cold: int = 0
    begun: int = 0
    """Steps bound to miss, of those begun."""

    def take(self, other: Sums) -> None:
        """Subtract what ``other`` has counted."""
        self.kept = max(0, self.kept - other.kept)  # these may have been begun anew in between
        self.expected = max(0, self.expected - other.expected)
        self.computed -= other.computed
        self.output -= other.output
        self.cold -= other.cold
        self.begun -= other.begun


@dataclass(slots=True, eq=False)
class _Account:
    steps: int = 0
    context: int | None = None
    """Tokens in context after the last observed step."""
    epoch: int = 0
    """The meter's epoch when that step ended."""
    usage: TokenUsage | None = None
    """Of the step that runs; counted when it ends, so that a running count in a stream counts once."""
    hot: bool = False
    """The step that runs should find its context cached."""
    kept: bool = False
    """It kept its seat since the step before."""
    told: bool = False
    """Its replies have said what was cached: one that then does not means nothing was (SGLang leaves the 0 out)."""
    began_at: float | None = None
    """When the step that runs began; None when none runs."""
    ended_at: float | None = None
    """When the step before ended."""


@dataclass(slots=True, eq=False)
class _Recent:
    """Mean of the last hundred or so values; the first ones count as what they are."""

    mean: float | None = None
    weight: float = 1.0

    def add(self, value: float) -> None:
        if self.mean is None:
            self.mean = value
            return
        self.weight = max(_LAST, self.weight / (1 + self.weight))
        self.mean += self.weight * (value - self.mean)


_LAST = 0.01
_FINALS = 256  # enough for a distribution, few enough to follow a batch whose tasks change


class Meter:
    """Accounts of all known agents, and the tick's sums."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._epoch = 0
        self._totals = Totals()
        self._contexts = self._context_tokens = 0
        self._sums = Sums()
        self._cold_share: float | None = None
        self._ended = self._measured = 0
        self._firsts, self._growths, self._shared, self._outputs = _Recent(), _Recent(), _Recent(), _Recent()
        self._spans, self._cycles = _Recent(), _Recent()
        """Seconds that first steps took; seconds from step to step."""
        self._finals: deque[int] = deque(maxlen=_FINALS)

    def begin(self, agent_id: str, now: float, *, kept_seat: bool) -> None:
        """A generation begins.

        Args:
            agent_id: whose.
            now: seconds on any clock.
            kept_seat: the agent held its seat since its last one, so that its context should be hot. What it recomputes
                after it was parked says nothing of the window it now runs under.
        """
        account = self._accounts.setdefault(agent_id, _Account())
        account.steps += 1
        account.usage = None
        account.began_at = now
        account.kept = kept_seat
        account.hot = kept_seat and account.context is not None and account.epoch == self._epoch
        self._sums.begun += 1
        self._sums.cold += not kept_seat

    def observe(self, agent_id: str, usage: TokenUsage) -> None:
        """A reply's usage came. Of several in one step the last counts (streams report running counts)."""
        self._accounts.setdefault(agent_id, _Account()).usage = usage

    def end(self, agent_id: str, now: float) -> None:
        """The generation ended, at so many seconds: count its usage. Nothing happens when none runs."""
        account = self._accounts.get(agent_id)
        if account is None or account.began_at is None:
            return
        if account.ended_at is None:
            self._spans.add(now - account.began_at)
        elif account.kept:
            self._cycles.add(now - account.ended_at)
        account.began_at, account.ended_at = None, now
        usage, account.usage = account.usage, None
        self._ended += 1
        if usage is None:
            return
        self._measured += usage.prompt is not None
        if usage.output is not None:
            self._outputs.add(usage.output)
        self._count(account, usage)
        if usage.prompt is not None:
            # Output unknown: the prompt is still held, so what is known to be held is a lower bound.
            context = usage.prompt + (usage.output or 0)
            if account.context is None:
                self._firsts.add(context)
                if usage.cached is not None and self._contexts:
                    self._shared.add(usage.cached)
            else:
                self._growths.add(max(0, context - account.context))
            self._hold(account, context)
        account.epoch = self._epoch

    def restore(self, agent_id: str, steps: int, context: int | None, now: float) -> None:
        """The agent has begun so many generations, and holds that context, some of them unseen by this meter.

        Nothing happens when it has seen them all; a context that is not known is what it was.
        """
        account = self._accounts.setdefault(agent_id, _Account())
        if steps > account.steps:
            account.steps, account.ended_at = steps, now
            self._hold(account, account.context if context is None else context)

    def footprint(self, agent_id: str) -> float | None:
        """Tokens that the agent's seat keeps cached for it alone; None while unknown."""
        context = self.context(agent_id)
        return None if context is None else max(0.0, context - self.shared_prefix)

    def weight(self, agent_id: str) -> float | None:
        """The same; of an agent that never told its usage, what others held after as many steps. None if none told."""
        footprint = self.footprint(agent_id)
        if footprint is not None or self._firsts.mean is None:
            return footprint
        account = self._accounts.get(agent_id)
        ended = 0 if account is None else account.steps - (account.began_at is not None)
        return min(self.first_footprint + max(0, ended - 1) * self.growth, max(self._finals, default=math.inf))

    @property
    def shared_prefix(self) -> float:
        """Tokens that new agents find cached of others' prompts, on average."""
        return self._shared.mean or 0.0

    @property
    def growth(self) -> float:
        """Tokens that a context grows by in a step.

        Until somebody has come back, agents are taken to grow by as much as they began with, in as long as that took.
        """
        return self._grows or 0.0

    @property
    def _grows(self) -> float | None:
        return self._firsts.mean if self._growths.mean is None else self._growths.mean

    @property
    def first_footprint(self) -> float:
        """The same of a new agent, as far as others tell."""
        return max(0.0, (self._firsts.mean or 0.0) - self.shared_prefix)

    def forecast(self) -> Callable[[], Forecast]:
        """Makes a forecast of what is known now; later, since it takes its time."""
        return partial(
            Forecast,
            tuple(self._finals),
            [account.context for account in self._accounts.values() if account.context is not None],
        )

    def forget(self, agent_id: str) -> None:
        """The agent finished."""
        account = self._accounts.pop(agent_id, None)
        if account is not None:
            if account.context is not None:
                self._finals.append(account.context)
            self._hold(account, None)

    def new_epoch(self) -> None:
        """A cut or a restart: what was evicted before it must not be held against the window after it."""
        self._epoch += 1
        self._sums.kept = self._sums.expected = 0

    def steps(self, agent_id: str) -> int:
        """Generations the agent began."""
        account = self._accounts.get(agent_id)
        return 0 if account is None else account.steps

    def context(self, agent_id: str) -> int | None:
        """Tokens in the agent's context after its last observed step."""
        account = self._accounts.get(agent_id)
        return None if account is None else account.context

    @property
    def totals(self) -> Totals:
        """Sums since the beginning."""
        return self._totals

    def annotate(self, population: Population) -> Population:
        """``population`` with the sums since the last :meth:`reset`."""
        sums = self._sums
        return replace(
            population,
            reuse=sums.kept / sums.expected if sums.expected else None,
            # Most of them: an error now and then has no usage, and is no sign of an engine that reports none.
            measured=2 * self._measured >= self._ended if self._ended else None,
            first_context=self._firsts.mean,
            growth=self._grows,
            generated=self._outputs.mean,
            cycle_s=self._spans.mean if self._cycles.mean is None else self._cycles.mean,
            computed=float(sums.computed) if self._totals.cached is not None else None,
            output=float(sums.output) if self._totals.cached is not None else None,
            shared_prefix=self.shared_prefix,
            mean_context=self._context_tokens / self._contexts if self._contexts else None,
            reports_reuse=self._totals.cached is not None,
            # No step begun in this tick says nothing new about who is prefilling: the last answer stands.
            cold_share=sums.cold / sums.begun if sums.begun else self._cold_share,
        )

    @property
    def sums(self) -> Sums:
        """Those of this moment, for :meth:`reset`."""
        return replace(self._sums)

    def reset(self, seen: Sums) -> None:
        """A law has seen these sums: only what came after them counts from now on."""
        if seen.begun:
            self._cold_share = seen.cold / seen.begun
        self._sums.take(seen)

    def _hold(self, account: _Account, context: int | None) -> None:
        """The account's context is this long now; None when it is gone."""
        if account.context is not None:
            self._contexts -= 1
            self._context_tokens -= account.context
        if context is not None:
            self._contexts += 1
            self._context_tokens += context
        account.context = context

    def _count(self, account: _Account, usage: TokenUsage) -> None:
        totals = self._totals
        cached, recomputed = totals.cached, totals.recomputed
        if usage.cached:
            account.told = True
        elif usage.cached is None and usage.prompt is not None and account.told:
            usage = replace(usage, cached=0)
        if usage.cached is not None:
            cached = (cached or 0) + usage.cached
            recomputed = recomputed or 0
            self._sums.output += usage.output or 0
            self._sums.computed += max(0, (usage.prompt or 0) - usage.cached)
            if account.context is not None and usage.prompt is not None:
                # An agent may have dropped part of its history: what it no longer asks for is not recomputed.
                expected = min(account.context, usage.prompt)
                kept = min(usage.cached, expected)
                recomputed += expected - kept
                if account.hot and account.epoch == self._epoch:
                    self._sums.kept += kept
                    self._sums.expected += expected
        self._totals = Totals(
            prompt=totals.prompt + (usage.prompt or 0),
            cached=cached,
            output=totals.output + (usage.output or 0),
            recomputed=recomputed,
        )
