"""One engine's shard: a controller, its desk, and what it reports to the directory."""

from __future__ import annotations

import asyncio
from typing import Any

from concur_agents.controller import Controller
from concur_agents.fleet.load import EngineLoad, Refill
from concur_agents.fleet.probe import Probe
from concur_agents.fleet.words import AgentReport, ShardReport
from concur_agents.remote.desk import Desk
from concur_agents.samples import AgentState

__all__ = ["Shard"]

_WAITING = (AgentState.WAITING, AgentState.RETURNING)


class Shard:
    """Admits the agents of one engine. In one event loop.

    Args:
        url: the engine's address.
        controller: a started one, of this engine.
        desk: its desk.
    """

    def __init__(self, url: str, controller: Controller, desk: Desk) -> None:
        self._url = url
        self._controller = controller
        self._desk = desk
        self._watching: asyncio.Task[None] | None = None
        self._refill = Refill()
        self._probe = Probe(url)

    async def call(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """One of Concur's operations."""
        if self._watching is None:  # not before: the event loop may not be there while it is made
            self._watching = asyncio.create_task(self._desk.watch())
        return await self._desk.handle(operation, body)

    async def report(self) -> ShardReport:
        """What the directory is to know; asked for about once a second."""
        stats = self._controller.stats()
        self._refill.see(stats.sample)
        return ShardReport(
            url=self._url,
            load=EngineLoad.of(stats, self._refill.seconds),
            up=await self._probe.up(stats),
            agents=tuple(
                AgentReport(view.agent_id, view.parent, view.steps, view.context_tokens, view.state in _WAITING)
                for view in self._controller.agents()
            ),
        )
