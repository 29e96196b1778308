"""The kinds of run, and which a seed is of where nobody says."""

from __future__ import annotations

import enum

from benchmarks.chaos.gateway.plan import draw_plan as draw_gateway
from benchmarks.chaos.plan import RunPlan
from benchmarks.chaos.shared.plan import draw_plan as draw_shared

__all__ = ["Kind", "draw", "kind_of"]


class Kind(enum.StrEnum):
    """What is between the agents and the engine."""

    GATEWAY = "gateway"
    """A proxy that hears their requests."""
    SHARED = "shared"
    """Nothing: they ask a shared controller for their seats."""


def kind_of(seed: int) -> Kind:
    """In turn."""
    return tuple(Kind)[seed % len(Kind)]


def draw(kind: str, seed: int) -> RunPlan:
    """The plan of a seed."""
    return draw_gateway(seed) if Kind(kind) is Kind.GATEWAY else draw_shared(seed)
