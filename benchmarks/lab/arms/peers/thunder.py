"""ThunderAgent (arXiv 2602.13692), as its released code decides. See ``README.md`` beside this file."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.arms.peers.gate import Guest
from benchmarks.lab.arms.peers.ledger import LedgerGate, LedgerRules
from benchmarks.lab.arms.peers.parameters import parameters
from concur_agents import TokenUsage

__all__ = ["ThunderGate", "ThunderRules", "thunder"]

CHARACTERS = 4
"""Characters a token of ours has in a request: always the same, so that their ratio is right after one reply."""
FIRST_RATIO, LEARNED = 5.0, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ThunderRules(LedgerRules):
    """All of the pool is to be used, and no more; no decay unless asked for (``thunder:half-life-s=1``)."""


class ThunderGate(LedgerGate):
    """Requests are measured in characters, over a ratio that replies correct."""

    def __init__(self, scene: Scene, rules: ThunderRules) -> None:
        super().__init__(scene, rules)
        self.ratio = FIRST_RATIO
        self._learned = False
        self._characters: dict[Guest, int] = {}

    def estimate(self, guest: Guest, prompt: int) -> int:
        """See :class:`LedgerGate`."""
        self._characters[guest] = CHARACTERS * prompt
        return int(self._characters[guest] / self.ratio)

    def rank(self, guest: Guest) -> int:
        """As large as when it was paused."""
        return self.paused[guest]

    def replied(self, guest: Guest, usage: TokenUsage | None, seconds: float | None) -> None:
        """See :class:`PeerGate`."""
        if usage is not None and usage.prompt:
            sample = self._characters[guest] / usage.prompt
            self.ratio = LEARNED * sample + (1 - LEARNED) * self.ratio if self._learned else sample
            self._learned = True
        super().replied(guest, usage, seconds)

    def left(self, guest: Guest) -> None:
        """See :class:`PeerGate`."""
        self._characters.pop(guest, None)
        super().left(guest)


def thunder(name: str, argument: str) -> Arm:
    """ThunderAgent: ``thunder``, or with its optional decay ``thunder:half-life-s=1``."""
    rules = parameters(ThunderRules, argument)
    return Arm(name, lambda scene: ThunderGate(scene, rules))
