"""What the agents' own replies say: tokens, and how much of each context the engine still had.

Needs no polling, and tells a cold start from eviction. Like admission it has no clock and no lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from concur_agents.forecast import Forecast
from concur_agents.samples import Population
from concur_agents.usage import TokenUsage

__all__ = ["Meter", "Totals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Tokens over all observed steps so far."""

    prompt: int = 0
    cached: int | None = None
    """None until a reply reported any."""
    output: int = 0
    recomputed: int | None = None
    """Tokens that were in an agent's context before its step and not cached any more; None as above."""


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
_LEAST_STEPS = 4  # an agent is taken to have so many steps before it at least: nobody says that it is at its end


class Meter:
    """Accounts of all known agents, and the tick's sums."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._epoch = 0
        self._totals = Totals()
        self._contexts = self._context_tokens = 0
        self._kept = self._expected = 0
        self._cold = self._begun = 0
        self._cold_share: float | None = None
        self._ended = self._measured = 0
        self._firsts, self._growths, self._shared = _Recent(), _Recent(), _Recent()
        self._finals: deque[int] = deque(maxlen=_FINALS)

    def begin(self, agent_id: str, *, kept_seat: bool) -> None:
        """A generation begins. ``kept_seat``: the agent held its seat since its last one, so its context should be hot.

        What an agent recomputes after it was parked says nothing of the window it now runs under.
        """
        account = self._accounts.setdefault(agent_id, _Account())
        account.steps += 1
        account.usage = None
        account.hot = kept_seat and account.context is not None and account.epoch == self._epoch
        self._begun += 1
        self._cold += not kept_seat

    def observe(self, agent_id: str, usage: TokenUsage) -> None:
        """A reply's usage came. Of several in one step the last counts (streams report running counts)."""
        self._accounts.setdefault(agent_id, _Account()).usage = usage

    def end(self, agent_id: str) -> None:
        """The generation ended: count its usage."""
        account = self._accounts.get(agent_id)
        if account is None:
            return
        usage, account.usage = account.usage, None
        self._ended += 1
        if usage is None:
            return
        self._measured += usage.prompt is not None
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

    def footprint(self, agent_id: str) -> float | None:
        """Tokens that the agent's seat keeps cached for it alone; None while unknown."""
        context = self.context(agent_id)
        return None if context is None else max(0.0, context - (self._shared.mean or 0.0))

    @property
    def first_footprint(self) -> float:
        """The same of a new agent, as far as others tell."""
        return max(0.0, (self._firsts.mean or 0.0) - (self._shared.mean or 0.0))

    def forecast(self) -> Callable[[], Forecast]:
        """Makes a forecast of what is known now; later, since it takes its time."""
        first, growth = self._firsts.mean or 0.0, self._growths.mean
        return partial(
            Forecast,
            tuple(self._finals),
            [account.context for account in self._accounts.values() if account.context is not None],
            first=first,
            # Before anybody has grown: as much again as it began with.
            least=first if growth is None else _LEAST_STEPS * growth,
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
        self._kept = self._expected = 0

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
        return replace(
            population,
            reuse=self._kept / self._expected if self._expected else None,
            # Most of them: an error now and then has no usage, and is no sign of an engine that reports none.
            measured=2 * self._measured >= self._ended if self._ended else None,
            first_context=self._firsts.mean,
            growth=self._growths.mean,
            shared_prefix=self._shared.mean or 0.0,
            mean_context=self._context_tokens / self._contexts if self._contexts else None,
            reports_reuse=self._totals.cached is not None,
            # No step begun in this tick says nothing new about who is prefilling: the last answer stands.
            cold_share=self._cold / self._begun if self._begun else self._cold_share,
        )

    def reset(self) -> None:
        """A law has seen the sums: begin new ones."""
        if self._begun:
            self._cold_share = self._cold / self._begun
        self._kept = self._expected = self._cold = self._begun = 0

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
        if usage.cached is not None:
            cached = (cached or 0) + usage.cached
            recomputed = recomputed or 0
            if account.context is not None and usage.prompt is not None:
                # An agent may have dropped part of its history: what it no longer asks for is not recomputed.
                expected = min(account.context, usage.prompt)
                kept = min(usage.cached, expected)
                recomputed += expected - kept
                if account.hot and account.epoch == self._epoch:
                    self._kept += kept
                    self._expected += expected
        self._totals = Totals(
            prompt=totals.prompt + (usage.prompt or 0),
            cached=cached,
            output=totals.output + (usage.output or 0),
            recomputed=recomputed,
        )
