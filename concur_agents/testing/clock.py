"""A clock you set."""

from __future__ import annotations

import math

__all__ = ["ManualClock"]


class ManualClock:
    """Monotonic seconds that pass only when told to: ``Controller(..., clock=ManualClock(), background=False)``."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def __call__(self) -> float:
        """Seconds now."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: ``seconds`` is negative, or no finite number.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"ManualClock: seconds must be a finite number >= 0, got {seconds!r}")
        self._now += seconds
