"""Fireworks' adaptive concurrency (fireworks-ai 1.2.30), on the engine's queue. See ``README.md`` beside this file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from benchmarks.lab.arms.base import Arm
from benchmarks.lab.arms.peers.parameters import parameters
from benchmarks.lab.arms.peers.window import Limit, WindowGate
from concur_agents import EngineSample

__all__ = ["Fireworks", "fireworks"]

_MOST, _LEAST_Q = 4.0, 0.001  # most agents added at a time; no division by a queue of none


@dataclass(frozen=True, slots=True, kw_only=True)
class Fireworks(Limit):
    """``W <- W / 2`` if ``q > target``, else ``W + min(target / q, 4)``, every 32 replies.

    ``q`` is the exponential average of the mean seconds that requests waited in the engine before their prefill.
    Fireworks' servers say that with each reply. Here it comes from the engine's metrics, by Little's law: requests
    queued, summed over the seconds since the last update, over the replies in that time.
    """

    start: float = 8.0
    """First window (8 for each card in their recipes)."""
    least: float = 1.0
    """Least window."""
    most: float = 256.0
    """Greatest window."""
    target: float = 0.5
    """Seconds (prefill_queue_target)."""
    increase: float = 1.0
    """Added at the target (additive_increase)."""
    decrease: float = 0.5
    """Taken times the window above it (multiplicative_decrease)."""
    alpha: float = 0.3
    """Weight of the newest mean."""
    every: float = 32.0
    """Replies between two updates (adjustment_interval)."""
    requests: float = 0.0
    """1 to limit requests, as it is used; by default agents."""
    _window: float | None = None
    _ema: float | None = None
    _replies: int = 0
    _queued_s: float = 0.0
    _polls: int = 0

    @property
    def window(self) -> int:
        """``W``, rounded down."""
        return max(1, int(self.start if self._window is None else self._window))

    def polled(self, sample: EngineSample | None, in_flight: int) -> Self:  # noqa: ARG002 - its law
        """Add what waits in the engine now; it is taken to have waited since the last reading."""
        if sample is None or sample.queued is None:
            return self
        return replace(self, _queued_s=self._queued_s + sample.queued * self.poll_s, _polls=self._polls + 1)

    def replied(self, seconds: float, in_flight: int, now: float, *, dropped: bool) -> Self:  # noqa: ARG002 - its law
        """Count a reply, and update with the last of them; without any reading in between there is nothing to say."""
        replies = self._replies + 1
        if replies < self.every:
            return replace(self, _replies=replies)
        after = replace(self, _replies=0, _queued_s=0.0, _polls=0)
        return after.updated(self._queued_s / replies) if self._polls else after

    def updated(self, waited_s: float) -> Self:
        """One update with the mean seconds that requests waited."""
        ema = waited_s if self._ema is None else self.alpha * waited_s + (1 - self.alpha) * self._ema
        window = self.start if self._window is None else self._window
        if ema > self.target:
            window *= self.decrease
        else:
            window += self.increase * min(self.target / max(ema, _LEAST_Q), _MOST)
        return replace(self, _ema=ema, _window=max(self.least, min(self.most, window)))


def fireworks(name: str, argument: str) -> Arm:
    """Fireworks' law on agents: ``fireworks``; ``fireworks:requests`` as it is used, ``fireworks:start=64``."""
    law = parameters(Fireworks, argument)
    return Arm(name, lambda scene: WindowGate(scene, law, requests=bool(law.requests)))
