"""prime-rl's concurrency controller, as its code decides. See ``README.md`` beside this file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from benchmarks.lab.arms.base import Arm
from benchmarks.lab.arms.peers.parameters import parameters
from benchmarks.lab.arms.peers.window import Limit, WindowGate
from concur_agents import EngineSample

__all__ = ["PrimeRl", "prime_rl"]

# Their names in capitals, less KV_ and _FRACTION.
_GROWTH_MAX, _BINDING = 1.2, 0.9
_ORIGINAL_GROWTH, _ORIGINAL_BELOW = 1.25, 0.6
_SOFT_CAP, _HARD_CAP, _TARGET, _TRIM_COOLDOWN = 0.8, 0.9, 0.7, 6
_QUEUE_RATIO, _QUEUE_POLLS, _QUEUE_CUT = 0.5, 6, 0.9
_PREEMPTION_CUT, _ESCALATED_CUT, _GRACE = 0.8, 0.5, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimeRl(Limit):
    """A cap on agents in flight, from KV usage; it grows with agents that end, and is trimmed and cut by polls.

    ::

        each end    cap m^(1/in flight)       if the last poll was clear and 0.9 cap in flight
                    m = 1 + 0.2 (1 - KV / 0.8)   later; originally 1.25, below KV 0.6 only
        each poll   in flight 0.7 / KV        if KV > 0.8, at most every 6 polls; above 0.9 the excess is cancelled
                    in flight 0.8             on preemptions         } the excess is cancelled, and no further cut until
                    in flight 0.9             6 polls long queued > 0.5 running } it is gone; 0.5 if soon repeated
    """

    poll_s = 5.0

    start: float = 0.0
    """First cap (initial_inflight); 0: the pool over ``model_len``, at the first poll, and ``least`` until then."""
    least: float = 1.0
    """Least cap (min_inflight)."""
    most: float = 1024.0
    """Greatest cap (max_inflight)."""
    model_len: float = 131_072.0
    """The longest context that the engine takes; prime-rl reads it from the engine."""
    original: float = 0.0
    """1 for the growth of before its pull request 3556."""
    _cap: float | None = None
    _bootstrapped: bool = False
    _growth: float | None = None
    """What the cap grows by in a turnover; None while it must not."""
    _queue_polls: int = 0
    _cooldown: int = 0
    _draining: bool = False
    _escalated: bool = False
    _grace: int = 0
    _cancels: bool = False

    @property
    def window(self) -> int:
        """The cap, rounded down."""
        return int(self.cap)

    @property
    def cap(self) -> float:
        """How many agents may be in flight."""
        return max(1.0, self._clamp(self.start or self.least) if self._cap is None else self._cap)

    @property
    def parks(self) -> bool:
        """Whether the last poll cancelled what was above the cap. A cancelled agent here only loses its place."""
        return self._cancels

    def finished(self, in_flight: int) -> Self:
        """Grow, if the last poll let it."""
        if self._growth is None or in_flight < _BINDING * self.window:
            return self
        return replace(self, _cap=self._clamp(self.cap * self._growth ** (1 / in_flight)))

    def polled(self, sample: EngineSample | None, in_flight: int) -> Self:
        """Gate the growth; trim or cut. Without a reading nothing grows."""
        if sample is None or sample.pinned_usage is None:
            return replace(self, _growth=None, _cancels=False)
        usage, queued, running = sample.pinned_usage, sample.queued or 0, sample.running or 0
        preempted = sample.retractions is not None and sample.retractions > 0
        queue_polls = self._queue_polls + 1 if running > 0 and queued > _QUEUE_RATIO * running else 0
        overload = queue_polls >= _QUEUE_POLLS
        law = self._drained(in_flight, preempted=preempted, overload=overload)
        clear = not (preempted or overload or usage > _SOFT_CAP or queued)
        law = replace(
            law,
            _growth=self._multiplier(usage) if clear and not law._draining else None,
            _queue_polls=0 if overload and not law._draining else queue_polls,
            _cooldown=max(0, self._cooldown - 1),
            _cancels=False,
        )._started(sample)
        if law._draining:
            return law
        if preempted or overload:
            usual = _QUEUE_CUT if overload else _PREEMPTION_CUT
            return replace(
                law._down(in_flight * (_ESCALATED_CUT if law._escalated else usual), cancels=True),
                _draining=True,
                _escalated=True,
            )
        if usage > _SOFT_CAP and in_flight > 0 and law._cooldown == 0:
            down = law._down(in_flight * _TARGET / usage, cancels=usage > _HARD_CAP)
            return replace(down, _cooldown=_TRIM_COOLDOWN)
        return law

    def _multiplier(self, usage: float) -> float | None:
        if self.original:
            return _ORIGINAL_GROWTH if usage <= _ORIGINAL_BELOW else None
        return 1 + (_GROWTH_MAX - 1) * max(0.0, 1 - usage / _SOFT_CAP)

    def _drained(self, in_flight: int, *, preempted: bool, overload: bool) -> Self:
        draining, escalated, grace = self._draining, self._escalated, self._grace
        if draining and in_flight <= self.window and not preempted and not overload:
            draining, grace = False, _GRACE
        if not draining and escalated:
            grace -= 1
            escalated = grace > 0
        return replace(self, _draining=draining, _escalated=escalated, _grace=grace)

    def _started(self, sample: EngineSample) -> Self:
        if self._bootstrapped or self.start or sample.capacity_tokens is None:
            return self
        return replace(self, _bootstrapped=True, _cap=self._clamp(sample.capacity_tokens / self.model_len))

    def _down(self, target: float, *, cancels: bool) -> Self:
        return replace(self, _cap=float(min(int(self._clamp(target)), self.window)), _cancels=cancels)

    def _clamp(self, cap: float) -> float:
        return min(max(cap, self.least), self.most)


def prime_rl(name: str, argument: str) -> Arm:
    """prime-rl's law: ``prime-rl``; ``prime-rl:original``, ``prime-rl:start=16``, ``prime-rl:model-len=8192``."""
    law = parameters(PrimeRl, argument)
    return Arm(name, lambda scene: WindowGate(scene, law))
