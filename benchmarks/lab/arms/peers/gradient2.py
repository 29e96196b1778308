"""Netflix's Gradient2 (concurrency-limits), on round trips to the engine. See ``README.md`` beside this file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from benchmarks.lab.arms.base import Arm
from benchmarks.lab.arms.peers.parameters import parameters
from benchmarks.lab.arms.peers.window import Limit, WindowGate

__all__ = ["Gradient2", "gradient2"]

_WARM_UP = 10  # round trips that are averaged plainly at first (ExpAvgMeasurement's warmupWindow)
_WINDOW_S, _SAMPLES = 1.0, 10  # WindowedLimit: at least a second and ten samples
_FALLEN, _LOWERED = 2.0, 0.95  # a long average twice the short one is lowered by so much


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient2(Limit):
    """``L <- (1 - s) L + s (L g + q)`` with ``g = clamp(tolerance * rtt_long / rtt_short, 0.5, 1)``.

    ``rtt_short`` is the mean over a second and at least ten requests, ``rtt_long`` its exponential average. Held while
    less than half the limit is in flight.
    """

    start: float = 20.0
    """First limit (initialLimit)."""
    least: float = 1.0
    """Least limit (minLimit). Its default is 20, "not desirable" for batches by its own words."""
    most: float = 200.0
    """Greatest limit (maxConcurrency)."""
    smoothing: float = 0.2
    """``s``."""
    queue: float = 4.0
    """``q``, what the limit grows by while round trips stay short (queueSize)."""
    long: float = 600.0
    """Measurements that the long average goes back (longWindow)."""
    tolerance: float = 1.5
    """How much longer round trips may get (rttTolerance)."""
    requests: float = 0.0
    """1 to limit requests, as it is used; by default agents: a cap on requests lets every agent in by turns."""
    _limit: float | None = None
    _long_rtt: float = 0.0
    _measured: int = 0
    _due: float = 0.0
    _sum: float = 0.0
    _count: int = 0
    _most: int = 0

    @property
    def window(self) -> int:
        """The limit, rounded down."""
        return max(1, int(self.limit))

    @property
    def limit(self) -> float:
        """``L``."""
        return self.start if self._limit is None else self._limit

    def replied(self, seconds: float, in_flight: int, now: float, *, dropped: bool) -> Self:  # noqa: ARG002 - its law
        """Gather a round trip, and measure when it is time and there are enough.

        WindowedLimit throws away what came in a second with fewer than ten; then a few slow agents would never be
        measured at all. Here they are kept until there are ten.
        """
        count, total, most = self._count + 1, self._sum + seconds, max(self._most, in_flight)
        if now <= self._due or count < _SAMPLES:
            return replace(self, _count=count, _sum=total, _most=most)
        return replace(self, _count=0, _sum=0.0, _most=0, _due=now + _WINDOW_S).measured(total / count, most)

    def measured(self, rtt: float, in_flight: int) -> Self:
        """One update with a mean round trip, in seconds, and the most that were in flight."""
        long_rtt = self._average(rtt)
        kept = long_rtt * _LOWERED if long_rtt > _FALLEN * rtt else long_rtt
        after = replace(self, _long_rtt=kept, _measured=self._measured + 1)
        if in_flight < self.limit / 2:
            return after
        gradient = max(0.5, min(1.0, self.tolerance * long_rtt / rtt)) if rtt > 0 else 1.0
        limit = (1 - self.smoothing) * self.limit + self.smoothing * (self.limit * gradient + self.queue)
        return replace(after, _limit=max(self.least, min(self.most, limit)))

    def _average(self, rtt: float) -> float:
        if self._measured < _WARM_UP:
            return (self._long_rtt * self._measured + rtt) / (self._measured + 1)
        share = 2 / (self.long + 1)
        return self._long_rtt * (1 - share) + rtt * share


def gradient2(name: str, argument: str) -> Arm:
    """Gradient2 on agents: ``gradient2``; ``gradient2:requests`` as it is used, ``gradient2:least=20`` as it comes."""
    law = parameters(Gradient2, argument)
    return Arm(name, lambda scene: WindowGate(scene, law, requests=bool(law.requests)))
