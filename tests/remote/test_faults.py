"""Workers and a controller over a network that loses, repeats and holds up what is said; in virtual time, seed by seed.

Every agent gets through, nothing hangs, and in the end the controller holds no seat for anybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import warnings
from typing import Any

import async_solipsism
import pytest

from concur_agents import AgentState, ConcurError, Controller, FixedWindow, Outcome, TokenUsage
from concur_agents.remote.desk import Desk
from concur_agents.remote.lives import RemoteRequest
from concur_agents.remote.own import OwnAgents
from concur_agents.remote.protocol import UnreachableError
from concur_agents.testing import ScriptedReader

WINDOW, LEASE_S, PATIENCE_S = 3, 6.0, 2.0


class World:
    """A controller that may die and come back, and the network to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.faulty = True
        self.hung: asyncio.Event | None = None
        self.dead = False
        self.most = 0
        self.desk: Desk
        self.start()

    def start(self) -> None:
        clock = asyncio.get_running_loop().time
        self.controller = Controller(ScriptedReader(), law=FixedWindow(WINDOW), background=False, clock=clock)
        self.desk = Desk(self.controller, lease_s=LEASE_S, in_flight_s=8, clock=clock)
        self.watching = asyncio.create_task(self.desk.watch())

    async def restart(self) -> None:
        self.dead = True
        self.watching.cancel()
        await asyncio.sleep(self.random.choice([0.1, 1, 5]))
        self.start()
        self.dead = False

    async def hang(self) -> None:
        self.hung = asyncio.Event()
        await asyncio.sleep(self.random.choice([0.5, 3, 10]))
        self.hung.set()
        self.hung = None


class Network:
    """One worker's transport."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut = False
        """The worker is dead: nothing of it comes through."""
        self.late: set[asyncio.Task[Any]] = set()

    async def call(self, operation: str, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        world, chance = self.world, self.world.random
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(chance.random() * 0.01)
                if world.hung is not None:
                    await world.hung.wait()
                if world.dead or self.cut:
                    raise UnreachableError("refused")
                fault = chance.random() if world.faulty else 1.0
                if fault < 0.03:
                    raise UnreachableError("lost on its way there")
                if fault < 0.06:
                    self.repeat(operation, dict(body), chance.choice([0.1, 1, 5]))
                desk = world.desk
                answer = await desk.handle(operation, dict(body))
                world.most = max(world.most, world.controller.limiter.measure()[0].seated)
                if desk is not world.desk or 0.06 < fault < 0.09:
                    raise UnreachableError("lost on its way back")
                if 0.09 < fault < 0.11:
                    await asyncio.sleep(chance.choice([0.5, PATIENCE_S]))
                return answer
        except TimeoutError:
            raise UnreachableError("timed out") from None

    def repeat(self, operation: str, body: dict[str, Any], after_s: float) -> None:
        async def again() -> None:
            desk = self.world.desk
            await asyncio.sleep(after_s)
            if desk is self.world.desk:
                await desk.handle(operation, body | ({"wait_s": 0.0} if "wait_s" in body else {}))

        task = asyncio.create_task(again())
        self.late.add(task)
        task.add_done_callback(self.late.discard)

    async def aclose(self) -> None:
        pass


class Worker:
    def __init__(self, world: World, name: str) -> None:
        self.random = world.random
        self.network = Network(world)
        self.states: dict[str, AgentState] = {}
        self.own = OwnAgents(
            lambda: self.network, name, "the controller", self.states, lease_s=None, patience_s=PATIENCE_S
        )
        self.own.connect()

    async def live(self, name: str, parent: str | None = None) -> None:
        chance = self.random
        await asyncio.sleep(chance.random())
        self.own.entered(name)
        outcome = Outcome.COMPLETED
        try:
            for turn in range(chance.randrange(1, 8)):
                await asyncio.gather(*(self.step(name, parent) for _ in range(chance.choice([1, 1, 1, 2]))))
                if chance.random() < 0.1:
                    self.own.parked(name)
                if parent is None and chance.random() < 0.1:
                    await self.live(f"{name}.{turn}", name)
                await asyncio.sleep(chance.choice([0, 0.01, 0.5]))
        except ConcurError:
            outcome = Outcome.FAILED
        finally:
            self.own.left(name, outcome)

    async def step(self, name: str, parent: str | None) -> None:
        request = RemoteRequest(name, parent, step=True)
        self.own.requested(request)
        try:
            async with asyncio.timeout(self.random.choice([0.01, 1, 1000, 1000, 1000])):
                await asyncio.wrap_future(request.waiter)
        except TimeoutError:
            self.own.withdrawn(request)
            return
        await asyncio.sleep(self.random.choice([0, 0.05, 1]))
        if self.random.random() < 0.5:
            self.own.observed(name, TokenUsage(prompt=10, output=1), request)
        self.own.step_ended(request)


async def run(seed: int) -> None:
    world = World(seed)
    workers = [Worker(world, f"w{number}") for number in range(3)]
    lives = [
        asyncio.create_task(worker.live(f"agent{number}.{each}"))
        for number, worker in enumerate(workers)
        for each in range(5)
    ]
    # Two processes that give the same name: neither is lost.
    lives += [asyncio.create_task(worker.live("twin")) for worker in workers[:2]]
    for _ in range(world.random.randrange(4)):
        await asyncio.sleep(world.random.random() * 4)
        await world.random.choice([world.restart, world.hang])()
    if world.random.random() < 0.3:
        killed = workers.pop(0)
        killed.network.cut = True
        for life in [lives[0:5], [lives[15]]]:
            for each in life:
                each.cancel()
    async with asyncio.timeout(5000):
        await asyncio.gather(*lives, return_exceptions=True)
    for life in lives:
        assert life.cancelled() or life.exception() is None, life.exception()
    world.faulty = False
    await asyncio.sleep(60)  # whoever is dead is known to be, and what was late has come
    assert world.controller.agents() == (), "somebody was left behind"
    assert world.controller.stats().population.seated == 0
    assert world.desk.book.held == {}
    for worker in workers:
        assert worker.own._lives == {}
        assert worker.own._lines == {}
        assert worker.states == {}
        await worker.own.close(10)
    assert set(world.desk.book.workers) <= set(), "all have left"
    world.watching.cancel()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.parametrize("seed", range(60))
def test_every_agent_gets_through_and_no_seat_is_left(seed: int) -> None:
    loop = async_solipsism.EventLoop()
    with warnings.catch_warnings(), contextlib.closing(loop):
        warnings.simplefilter("ignore", async_solipsism.ResolutionWarning)
        loop.run_until_complete(run(seed))
