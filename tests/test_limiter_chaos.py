"""Random lives on one event loop, with everything that can disturb them; each seed is one schedule."""

from __future__ import annotations

import asyncio
import math
import random

import pytest

from concur_agents import AgentState, Outcome, TokenUsage, UnknownAgentError
from concur_agents.events import EventStream
from concur_agents.limiter import Limiter
from concur_agents.testing import ManualClock


def empty(limiter: Limiter) -> bool:
    """Nothing is left of anybody."""
    return not (limiter._lives or limiter._queued or limiter._entered or len(limiter._admission) or limiter.views())


class Chaos:
    """Agents that come, step, share, park, give up and end at random; a window that changes at random.

    Seeded and without time: what happens depends on the seed alone.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.limiter = Limiter(3, self.clock)
        self.limiter.streams.append(EventStream(1_000_000, self.limiter.streams.remove))
        self.events = self.limiter.streams[0]

    async def nap(self) -> None:
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)

    async def step(self, agent: str, parent: str | None) -> None:
        request = self.limiter.request(agent, parent, step=True)
        await self.limiter.wait(request)
        try:
            assert self.limiter.state(agent) in (AgentState.GENERATING, None), "woken without a seat"
            await self.nap()
            if self.random.random() < 0.7:
                self.limiter.observe(agent, TokenUsage(prompt=self.random.randrange(20), cached=0), request)
        finally:
            self.limiter.end_step(request)

    async def live(self, agent: str, parent: str | None = None) -> None:
        self.limiter.enter(agent)
        try:
            for turn in range(self.random.randrange(1, 6)):
                await asyncio.gather(*(self.step(agent, parent) for _ in range(self.random.choice([1, 1, 2]))))
                await self.nap()
                if self.random.random() < 0.1:
                    self.limiter.state(agent) and self.limiter.park(agent)
                if parent is None and self.random.random() < 0.2:
                    await self.live(f"{agent}.{turn}", agent)
        except UnknownAgentError:
            pass  # somebody finished us while we waited
        finally:
            self.limiter.leave(agent, Outcome.COMPLETED)

    async def disturb(self, lives: list[asyncio.Task[None]]) -> None:
        while not all(life.done() for life in lives):
            match self.random.randrange(4):
                case 0:
                    self.limiter.set_window(
                        self.random.choice([0, 1, 2.5, 4, math.inf]),
                        tokens=self.random.choice([0, 30, math.inf]),
                        ahead=self.random.choice([0.0, 10.0]),
                        patience_s=self.random.choice([0.0, math.inf]),
                        new_epoch=False,
                    )
                case 1:
                    self.random.choice(lives).cancel()
                case 2 if (views := self.limiter.views()) and self.random.random() < 0.2:
                    self.limiter.finish(self.random.choice(views).agent_id, Outcome.FAILED)
                case 3:
                    self.clock.advance(1)
                case _:
                    pass
            await asyncio.sleep(0)

    async def run(self) -> None:
        lives = [asyncio.create_task(self.live(f"a{number}")) for number in range(15)]
        disturber = asyncio.create_task(self.disturb(lives))
        for _ in range(100_000):
            if disturber.done():
                return
            await asyncio.sleep(0)
        raise AssertionError(f"somebody waits for ever: {self.limiter.views()}")


@pytest.mark.parametrize("seed", range(60))
def test_no_wake_up_is_lost_and_nothing_is_left_whatever_happens(seed: int) -> None:
    chaos = Chaos(seed)
    asyncio.run(chaos.run())
    assert empty(chaos.limiter)
    population, over = chaos.limiter.measure()
    assert (population.seated, population.waiting, population.parked, over) == (0, 0, 0, 0)
    assert not chaos.events.dropped
