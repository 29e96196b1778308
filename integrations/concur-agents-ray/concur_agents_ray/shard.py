"""One engine's shard, as an actor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import ray

from concur_agents import Controller
from concur_agents.config.models import Config
from concur_agents.fleet.shard import Shard as _Shard
from concur_agents.fleet.words import ShardReport
from concur_agents.remote.desk import Desk

__all__ = ["MOST_CALLS", "Secrets", "Shard"]

MOST_CALLS = 20_000
"""At a time: whoever waits for a seat is one."""
# Fewer than calls, or those that wait for seats would keep out those that give them back.
_MOST_WAITING = MOST_CALLS - 2_000


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
        controller = Controller.from_config(config, reader=engine.reader(secrets)).start()
        desk = Desk(controller, in_flight_s=in_flight_s, max_waiting=_MOST_WAITING)
        self._shard = _Shard(engine.url, controller, desk)

    async def call(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """One of Concur's operations."""
        return await self._shard.call(operation, body)

    async def report(self) -> ShardReport:
        """What the directory is to know; asked for about once a second."""
        return await self._shard.report()

    async def stats(self) -> dict[str, Any]:
        """Of the process, for who wants to know what a shard costs: its id, its node and its CPU seconds."""
        times = os.times()
        node = ray.get_runtime_context().get_node_id()
        return {"pid": os.getpid(), "node": node, "cpu_s": times.user + times.system}
