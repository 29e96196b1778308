"""Dynamo's ``thunderagent_router`` (ai-dynamo 1.6.1), as its code decides. See ``README.md`` beside this file."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.lab.arms.base import Arm
from benchmarks.lab.arms.peers.gate import Guest
from benchmarks.lab.arms.peers.ledger import LedgerGate, LedgerRules
from benchmarks.lab.arms.peers.parameters import parameters

__all__ = ["DynamoGate", "DynamoRules", "dynamo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoRules(LedgerRules):
    """Pause above 95% down to 80%, resume up to 85%. Its decay chooses among engines only: none with one."""

    above: float = 0.95
    to: float = 0.80
    resume: float = 0.85


class DynamoGate(LedgerGate):
    """Requests are measured in tokens: the router tokenizes them."""

    def estimate(self, guest: Guest, prompt: int) -> int:  # noqa: ARG002 - exact, whoever asks
        """See :class:`LedgerGate`."""
        return prompt

    def rank(self, guest: Guest) -> int:
        """As large as it is now."""
        return guest.tokens


def dynamo(name: str, argument: str) -> Arm:
    """Dynamo's port of ThunderAgent: ``dynamo``, or ``dynamo:half-life-s=1`` with a decay where others are resumed."""
    rules = parameters(DynamoRules, argument)
    return Arm(name, lambda scene: DynamoGate(scene, rules))
