"""Sessions drawn from quantiles, correlated as recorded sessions are.

Drawing each step by itself is wrong in two ways: agents would end nearly alike, since the mean of a hundred draws
hardly varies, and a long output (a file written) would be followed by as much tool output as a short one (a file
read), where in fact it is followed by little. So each length is its quantiles' value at the rank of a standard
normal number (a Gaussian copula): every marginal stays exactly the quantiles', and the normal numbers are correlated.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import NormalDist

from benchmarks.lab.batch import Step
from benchmarks.lab.workloads.quantiles import Quantiles

__all__ = ["LONGEST", "Sessions"]

LONGEST = 131_000
"""Tokens a context may reach: the engines take 131,072, less a few that servers keep free for each request."""

_rank = NormalDist().cdf


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """How long sessions are, and everything in them."""

    steps: Quantiles
    first: Quantiles
    """Tokens of the first prompt, shared prefix included."""
    output: Quantiles
    """Tokens a step."""
    added: Quantiles
    """Tokens that the next prompt has beyond this one and its output. Below 0 where outputs are not all kept."""
    tool_s: Quantiles
    """Seconds in a tool."""
    output_session: float = 0.0
    """Of the variance of outputs' normal scores, the share between sessions; the rest is between steps. 0 to 1."""
    added_session: float = 0.0
    """The same for what is added."""
    between: float = 0.0
    """Correlation of the two between sessions. -1 to 1."""
    follows: float = 0.0
    """Correlation, step by step, of what is added with the output before it. -1 to 1."""
    longer_adds: float = 0.0
    """Correlation of a session's steps with what it adds a step. -1 to 1."""
    longer_begins: float = 0.0
    """Correlation of a session's steps with its first prompt. -1 to 1."""

    def draw(self, rng: random.Random, *, steps: int | None = None, first: int | None = None) -> list[Step]:
        """One session's steps. It ends early where its context would pass :data:`LONGEST`.

        Args:
            rng: where the random numbers come from.
            steps: how many, if not drawn.
            first: tokens of the first prompt, if not drawn.
        """
        length = rng.gauss(0, 1)
        output_z = rng.gauss(0, 1)
        rest = math.sqrt(max(0.0, 1 - self.between**2 - self.longer_adds**2))
        added_z = self.between * output_z + self.longer_adds * length + rest * rng.gauss(0, 1)
        first_z = self.longer_begins * length + math.sqrt(1 - self.longer_begins**2) * rng.gauss(0, 1)
        prompt = max(1, round(self.first.at(_rank(first_z)))) if first is None else first
        drawn: list[Step] = []
        for _ in range(max(1, round(self.steps.at(_rank(length)))) if steps is None else steps):
            own = rng.gauss(0, 1)
            output = max(1, round(self.output.at(_score(output_z, own, self.output_session))))
            if prompt + output > LONGEST and drawn:
                break
            output = min(output, LONGEST - prompt)
            drawn.append(Step(prompt, output, self.tool_s.draw(rng)))
            next_own = self.follows * own + math.sqrt(1 - self.follows**2) * rng.gauss(0, 1)
            added = round(self.added.at(_score(added_z, next_own, self.added_session)))
            prompt += max(1, output + added)
        return drawn


def _score(between: float, within: float, share: float) -> float:
    """The rank of a normal number of which a share of the variance is the session's."""
    return _rank(math.sqrt(share) * between + math.sqrt(1 - share) * within)
