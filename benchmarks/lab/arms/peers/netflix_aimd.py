"""Netflix's AIMD limit (concurrency-limits), on round trips to the engine. See ``README.md`` beside this file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from benchmarks.lab.arms.base import Arm
from benchmarks.lab.arms.peers.parameters import parameters
from benchmarks.lab.arms.peers.window import Limit, WindowGate

__all__ = ["NetflixAimd", "netflix_aimd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetflixAimd(Limit):
    """``L <- 0.9 L`` when a request is dropped or slow, else ``L + 1`` if half the limit was in flight."""

    start: float = 20.0
    """First limit (initialLimit)."""
    least: float = 1.0
    """Least limit (minLimit). Its default is 20."""
    most: float = 200.0
    """Greatest limit (maxLimit)."""
    backoff: float = 0.9
    """Taken times the limit (backoffRatio)."""
    timeout: float = 5.0
    """Seconds from which a reply is as good as dropped."""
    requests: float = 0.0
    """1 to limit requests, as it is used; by default agents."""
    _limit: float | None = None

    @property
    def window(self) -> int:
        """The limit, whole as theirs."""
        return max(1, int(self.start if self._limit is None else self._limit))

    def replied(self, seconds: float, in_flight: int, now: float, *, dropped: bool) -> Self:  # noqa: ARG002 - its law
        """One update, with each request."""
        limit = self.window
        if dropped or seconds > self.timeout:
            limit = int(limit * self.backoff)
        elif 2 * in_flight >= limit:
            limit += 1
        return replace(self, _limit=min(self.most, max(self.least, limit)))


def netflix_aimd(name: str, argument: str) -> Arm:
    """AIMD on agents: ``netflix-aimd``; ``netflix-aimd:requests`` as it is used, ``netflix-aimd:timeout=30``."""
    law = parameters(NetflixAimd, argument)
    return Arm(name, lambda scene: WindowGate(scene, law, requests=bool(law.requests)))
