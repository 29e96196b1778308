"""One engine of several, and its controller, on a loop with virtual time."""

from __future__ import annotations

from benchmarks.lab.clock import Loop
from benchmarks.lab.engines import Engine
from concur_agents import Controller
from concur_agents.emulator.core import EngineCore
from concur_agents.emulator.driver import Driver
from concur_agents.fleet import EngineLoad, Refill

__all__ = ["Site"]


class Site:
    """An engine that can die. Nobody is to send it anything then."""

    def __init__(self, name: str, engine: Engine, loop: Loop) -> None:
        self.name = name
        self.scheduler: EngineCore = engine.scheduler()
        self.driver = Driver(self.scheduler, until_next=loop.until_next)
        self.controller = Controller(engine.reader(self.scheduler), clock=loop.time, background=False)
        self.controller.start()
        self._refill = Refill()
        self.up = True

    @property
    def load(self) -> EngineLoad:
        """As the fleet is told."""
        stats = self.controller.stats()
        self._refill.see(stats.sample)
        return EngineLoad.of(stats, self._refill.seconds)

    async def die(self) -> None:
        """Every request in it ends as aborted, and its cache is gone."""
        self.up = False
        await self.driver.close()
        self.scheduler.restart()
