"""Seats agents so that what all seated ones are going to hold, known beforehand, fits the pool at every moment."""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from benchmarks.lab.arms.base import Scene
from benchmarks.lab.arms.clairvoyant.lives import Life
from concur_agents import TokenUsage
from concur_agents.emulator import CostModel

__all__ = ["ClairvoyantGate", "Order", "Packing"]

_POINTS = 48
"""Moments of the future looked at. Contexts grow in so many steps that more change nothing."""
_EVERY = 5
"""Ticks between two looks while nobody ends: the forecast of a pace is never exact."""
_TRIES = 16
"""Of those who wait, how many are tried when the first does not fit."""
_FORGET = 0.98
_FIRST_PACE = 0.03  # seconds a token; only until the first step has ended


class Order(enum.StrEnum):
    """Who goes first; among equals, whoever comes first in the batch."""

    LONGEST = "longest"
    """Most time still to go: nobody is left alone at the end."""
    SHORTEST = "shortest"
    """Least time still to go: room is free again soonest."""
    FIFO = "fifo"
    """As the batch lists them."""
    BIGGEST = "biggest"
    """Longest final context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """What a clairvoyant may do differently."""

    order: Order = Order.LONGEST
    parked_first: bool = False
    """Whether those who have run before go before new ones."""
    fill: float = 1.0
    """Share of the pool to fill. Above 0."""
    horizon: float = math.inf
    """How far ahead everything must fit, in mean remaining lives of all agents; beyond it, agents are parked when
    the pool is full. ``inf``: until all have ended, so that nobody is ever parked but by an error of the forecast."""
    give_up: float = math.inf
    """A seat is given back for a tool in which it would cost so many times what it costs to compute the context again:
    its share of the pool for the time of the tool, against the seconds of a prefill. ``inf``: never."""


class _Step:
    def observe(self, usage: TokenUsage) -> None:
        """Nothing that was not known."""


class _Run:
    def __init__(self, gate: ClairvoyantGate, life: Life) -> None:
        self._gate, self._life = gate, life

    @asynccontextmanager
    async def step(self) -> AsyncIterator[_Step]:
        """See :class:`benchmarks.lab.gate.GateRun`."""
        await self._gate.begin(self._life)
        try:
            yield _Step()
        finally:
            self._gate.end(self._life)


class ClairvoyantGate:
    """Admits and parks agents at their boundaries, knowing what each is going to do. Never reorders what is admitted.

    Args:
        scene: the cell.
        packing: the policy.
        cost: the engine's cost model, to weigh a tool against a prefill. None: seats are kept.
    """

    def __init__(self, scene: Scene, packing: Packing, cost: CostModel | None = None) -> None:
        self._scene, self._packing, self._cost = scene, packing, cost
        self._lives = {p.agent_id: Life(p, number, self._leaves) for number, p in enumerate(scene.batch.plans)}
        self._seated: dict[Life, None] = {}
        self._waiting: dict[Life, None] = {}
        self._pace = _FIRST_PACE
        self._time = self._tokens = 0.0
        self._ticks = 0
        self._due = False

    # What the lab calls

    def agent(self, agent_id: str) -> AbstractAsyncContextManager[_Run]:
        """See :class:`benchmarks.lab.gate.Gate`."""
        return self._run(self._lives[agent_id])

    def tick(self) -> None:
        """See :class:`benchmarks.lab.gate.Gate`."""
        self._ticks += 1
        if self._ticks % _EVERY == 0:
            self._seat()

    def close(self) -> None:
        """See :class:`benchmarks.lab.gate.Gate`."""

    @asynccontextmanager
    async def _run(self, life: Life) -> AsyncIterator[_Run]:
        try:
            yield _Run(self, life)
        finally:
            self._waiting.pop(life, None)
            self._leave(life)
            del self._lives[life.plan.agent_id]
            self._seat_soon()

    async def begin(self, life: Life) -> None:
        """Wait for a seat, unless it has one, and begin to generate."""
        if not life.seated:
            life.granted = asyncio.get_running_loop().create_future()
            self._waiting[life] = None
            self._seat_soon()
            await life.granted
            life.granted = None
        life.generating, life.since = True, self._scene.clock()
        self._park()

    def end(self, life: Life) -> None:
        """The generation has ended: a boundary."""
        step, now = life.plan.steps[life.step], self._scene.clock()
        self._time = self._time * _FORGET + now - life.since
        self._tokens = self._tokens * _FORGET + step.output
        self._pace = self._time / self._tokens
        life.generating, life.since = False, now + step.tool_s
        life.step += 1
        if life.leaves[life.step - 1] and self._waiting:
            self._leave(life)
            self._seat_soon()
        self._park()

    # Seats

    def _leaves(self, tool_s: float, held: int) -> bool:
        if self._cost is None or self._packing.give_up == math.inf:
            return False
        kept_s = tool_s * held / self._scene.capacity_tokens
        return kept_s > self._packing.give_up * self._cost.prefill_s([(held, 0)])

    def _seat_soon(self) -> None:
        """Once all who come at this moment are there."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._seat)

    def _seat(self) -> None:
        self._due = False
        if not self._waiting:
            return
        now, room = self._scene.clock(), self._room()
        times = self._times()
        total = [0] * len(times)
        for life in self._seated:
            total = [a + b for a, b in zip(total, life.future(now, self._pace, times), strict=True)]
        failed = 0
        for life in sorted(self._waiting, key=self._rank):
            more = [a + b for a, b in zip(total, life.future(now, self._pace, times), strict=True)]
            if self._seated and max(more) > room:
                failed += 1
                if failed == _TRIES:
                    return
                continue
            total = more
            del self._waiting[life]
            self._seated[life] = None
            life.seated = True
            assert life.granted is not None  # noqa: S101 - it waits
            life.granted.set_result(None)

    def _park(self) -> None:
        """While the pool is over-full, whoever is in a tool and would be seated last."""
        held, room = sum(life.held for life in self._seated), self._room()
        while held > room and len(self._seated) > 1:
            in_tool = [life for life in self._seated if not life.generating and life.step]
            if not in_tool:
                return
            life = max(in_tool, key=self._rank)
            held -= life.held
            self._leave(life)

    def _leave(self, life: Life) -> None:
        self._seated.pop(life, None)
        life.seated = False

    def _room(self) -> float:
        # Each prefix is counted once, with the agents there are.
        prefixes = {life.plan.prefix: life.plan.prefix_tokens for life in self._seated}
        return self._packing.fill * self._scene.capacity_tokens - sum(prefixes.values())

    def _times(self) -> list[float]:
        known = [*self._seated, *self._waiting]
        lives = [life.remaining_s(self._pace) for life in known]
        end = min(max(lives) * 1.05, self._packing.horizon * sum(lives) / len(lives))
        return [end * point / _POINTS for point in range(_POINTS + 1)]

    def _rank(self, life: Life) -> tuple[bool, float, int]:
        """Lower goes first."""
        match self._packing.order:
            case Order.LONGEST:
                rank = -life.remaining_s(self._pace)
            case Order.SHORTEST:
                rank = life.remaining_s(self._pace)
            case Order.BIGGEST:
                rank = -float(life.final)
            case Order.FIFO:
                rank = 0.0
        return self._packing.parked_first and not life.step, rank, life.number
