"""A gate by hand: agents that ask and reply when the test says so, on a clock that stands."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from benchmarks.lab.arms.base import Scene
from benchmarks.lab.arms.registry import parse_arms
from benchmarks.lab.batch import Batch, Plan, Step
from concur_agents import EngineSample, TokenUsage
from concur_agents.testing import ManualClock


class Reader:
    """Says what the test wrote last."""

    def __init__(self):
        self.sample = EngineSample()

    def read(self, timeout):
        return self.sample

    def close(self):
        pass


class Actor:
    """One agent."""

    def __init__(self, gate, agent_id):
        self._gate, self._id = gate, agent_id
        self._life, self._step = AsyncExitStack(), AsyncExitStack()
        self.run = self.asking = self.step = None

    async def ask(self):
        """Ask for the next generation, and wait as long as that takes no time. Returns whether it was let through."""
        if self.run is None:
            self.run = await self._life.enter_async_context(self._gate.agent(self._id))
        self.asking = asyncio.ensure_future(self._step.enter_async_context(self.run.step()))
        await _rest()
        return self.generating

    @property
    def generating(self):
        return self.asking is not None and self.asking.done() and not self.asking.cancelled()

    async def reply(self, prompt, output=0):
        self.asking.result().observe(TokenUsage(prompt=prompt, cached=0, output=output))
        await self._step.aclose()
        self.asking = None
        await _rest()

    async def use(self, prompt, output=0):
        """A whole step."""
        assert await self.ask()
        await self.reply(prompt, output)

    async def give_up(self):
        self.asking.cancel()
        await _rest()
        assert self.asking.cancelled()
        self.asking = None

    async def leave(self):
        await self._step.aclose()
        await self._life.aclose()
        await _rest()


async def _rest():
    for _ in range(5):
        await asyncio.sleep(0)


class Stage:
    """A gate, its clock and its engine's metrics. ``prompts`` are those of each agent, by name."""

    def __init__(self, arm, capacity, prompts):
        self.clock, self.reader = ManualClock(), Reader()
        plans = [Plan(name, [Step(prompt, 1, 0.0) for prompt in lengths]) for name, lengths in prompts.items()]
        scene = Scene(batch=Batch.of(plans), reader=self.reader, clock=self.clock, capacity_tokens=capacity)
        self.gate = parse_arms(arm)[0].gate(scene)
        self.actors = {name: Actor(self.gate, name) for name in prompts}

    def __getitem__(self, name):
        return self.actors[name]

    async def tick(self, times=1):
        for _ in range(times):
            self.clock.advance(1.0)
            self.gate.tick()
        await _rest()

    def named(self, guests):
        return [guest.agent_id for guest in guests]


@pytest.fixture
def stage():
    return Stage
