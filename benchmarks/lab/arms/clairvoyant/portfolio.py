"""The clairvoyant arm: the best of a portfolio, found by simulating each member.

A reference may search: it says what a schedule can reach, not how to find it. Any one member may be worse than a law
that knows nothing; their best is what the lab compares with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from benchmarks.lab.arms.base import Arm, Scene, law_arm
from benchmarks.lab.arms.clairvoyant.gate import ClairvoyantGate, Order, Packing
from benchmarks.lab.batch import Batch
from benchmarks.lab.engines import Engine
from benchmarks.lab.gate import Gate
from concur_agents.laws import Law, TokenBudget, Uncontrolled

if TYPE_CHECKING:
    from benchmarks.lab.simulate import Result

__all__ = ["MEMBERS", "Found", "clairvoyant", "search"]

MEMBERS: Mapping[str, Packing | Callable[[], Law]] = MappingProxyType(
    {
        # Everything fits until all have ended; who has longest to go goes first.
        "longest": Packing(),
        # The same with air: the engine reserves a few per cent of its pool for outputs, and evicts by age alone.
        "longest-air": Packing(parked_first=True, fill=0.95, give_up=1.0),
        # More agents early, while contexts are short; some are parked later and computed again.
        "early": Packing(parked_first=True, horizon=0.5),
        "early-swap": Packing(parked_first=True, horizon=0.5, give_up=1.0),
        "early-swap-more": Packing(horizon=0.5, give_up=0.5),
        # In the batch's order, which where agents are alike wastes no room on those that are done last.
        "fifo": Packing(order=Order.FIFO, parked_first=True, horizon=0.5),
        "fifo-air": Packing(order=Order.FIFO, parked_first=True, fill=0.95, give_up=1.0),
        # More than fits: the engine's own queue fills every gap. For long outputs and few tools.
        "over": Packing(fill=1.25),
        "uncontrolled": Uncontrolled,
        "budget": TokenBudget,
    }
)
"""What is tried, by name: ``clairvoyant:<name>`` is that one alone."""
_ENGINELESS = "longest"


def clairvoyant(name: str, argument: str) -> Arm:
    """The arm ``clairvoyant``, or one member of its portfolio: ``clairvoyant:<member>``.

    Its gate looks ahead in the scene's batch. Where the engine cannot be simulated, which is where nobody asked for the
    arm's flags, the first member stands for all.

    Raises:
        ValueError: there is no such member.
    """
    if not argument:
        searching = _Searching()
        return Arm(name, searching.gate, searching.flags)
    if argument not in MEMBERS:
        raise ValueError(f"needs one of {', '.join(MEMBERS)}, or nothing, not {argument!r}")
    return _member(argument, name)


@dataclass(frozen=True, slots=True)
class Found:
    """The best member for a cell, and all that were tried."""

    member: str
    results: Mapping[str, Result]


def search(batch: Batch, engine: Engine, *, tick_s: float = 1.0) -> Found:
    """Simulate every member on a batch: fewest agents lost, then shortest makespan, then first in the portfolio."""
    from benchmarks.lab.simulate import simulate  # here, for it imports the arms, of which this is one

    results = {name: simulate(batch, engine, _member(name, name), tick_s=tick_s) for name in MEMBERS}
    best = min(results, key=lambda name: (results[name].lost, results[name].makespan_s))
    return Found(best, MappingProxyType(results))


class _Keeping:
    """What a gate needs of its engine, kept from when the cell asked for the arm's flags."""

    engine: Engine | None = None

    def flags(self, engine: Engine) -> Engine:
        """Changes nothing."""
        self.engine = engine
        return engine


class _Packed(_Keeping):
    def __init__(self, packing: Packing) -> None:
        self._packing = packing

    def gate(self, scene: Scene) -> Gate:
        """A gate for this cell."""
        return ClairvoyantGate(scene, self._packing, None if self.engine is None else self.engine.cost)


class _Searching(_Keeping):
    def gate(self, scene: Scene) -> Gate:
        """The gate of the best member for this cell."""
        engine, found = self.engine, [_ENGINELESS]
        if engine is not None:
            # In a thread, for the cell's own loop is running in this one.
            def run() -> None:
                found.append(search(scene.batch, engine, tick_s=scene.tick_s).member)

            thread = threading.Thread(target=run, name="clairvoyant")
            thread.start()
            thread.join()
        arm = _member(found[-1], found[-1])
        if engine is not None:
            arm.flags(engine)
        return arm.gate(scene)


def _member(member: str, name: str) -> Arm:
    made = MEMBERS[member]
    if isinstance(made, Packing):
        packed = _Packed(made)
        return Arm(name, packed.gate, packed.flags)
    return law_arm(name, made)
