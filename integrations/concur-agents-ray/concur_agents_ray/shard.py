"""One engine's shard: a controller and its desk, as an actor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import ray

from concur_agents import AgentState, Controller
from concur_agents.config.models import Config
from concur_agents.fleet import EngineLoad, Refill
from concur_agents.remote.desk import Desk
from concur_agents_ray.words import AgentReport, ShardReport

__all__ = ["MOST_CALLS", "Secrets", "Shard"]

MOST_CALLS = 20_000
"""At a time: whoever waits for a seat is one."""
# Fewer than calls, or those that wait for seats would keep out those that give them back.
_MOST_WAITING = MOST_CALLS - 2_000
_WAITING = (AgentState.WAITING, AgentState.RETURNING)
_CONNECT_S = 2.0
_MISSED = 2
"""Connections in a row that fail before the engine is down: one may be a full backlog."""


class Secrets(dict[str, str]):
    """Values of environment variables that nobody is to see printed."""

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self)})"


class Shard:
    """Admits the agents of one engine.

    Args:
        config: with this engine alone.
        secrets: the variables with its key.
        in_flight_s: seconds for which an agent that generates keeps its seat when its process is gone.
    """

    def __init__(self, config: Config, secrets: Mapping[str, str], in_flight_s: float) -> None:
        (engine,) = config.engines
        self._url = engine.url
        self._controller = Controller.from_config(config, reader=engine.reader(secrets)).start()
        self._desk = Desk(self._controller, in_flight_s=in_flight_s, max_waiting=_MOST_WAITING)
        self._watching: asyncio.Task[None] | None = None
        self._refill = Refill()
        self._missed = 0

    async def call(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """One of Concur's operations."""
        if self._watching is None:  # not before: an actor's event loop is not there while it is made
            self._watching = asyncio.create_task(self._desk.watch())
        return await self._desk.handle(operation, body)

    async def report(self) -> ShardReport:
        """What the directory is to know; asked for about once a second."""
        stats = self._controller.stats()
        self._refill.see(stats.sample)
        # Readings may fail while the engine serves; then only its port tells.
        read = stats.problem is None and stats.sample_age_s is not None
        self._missed = 0 if read or await _connects(self._url) else self._missed + 1
        return ShardReport(
            url=self._url,
            load=EngineLoad.of(stats, self._refill.seconds),
            up=self._missed < _MISSED,
            agents=tuple(
                AgentReport(view.agent_id, view.parent, view.steps, view.context_tokens, view.state in _WAITING)
                for view in self._controller.agents()
            ),
        )

    async def stats(self) -> dict[str, Any]:
        """Of the process, for who wants to know what a shard costs: its id, its node and its CPU seconds."""
        times = os.times()
        node = ray.get_runtime_context().get_node_id()
        return {"pid": os.getpid(), "node": node, "cpu_s": times.user + times.system}


async def _connects(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
            writer.close()
    except (OSError, TimeoutError):
        return False
    return True
