"""The directory of shards, as an actor: which shards there are it learns from Ray."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import ray

from concur_agents.config.models import Config
from concur_agents.fleet.directory import Directory as _Directory
from concur_agents.fleet.words import Scene, ShardReport
from concur_agents.remote.protocol import UnreachableError
from concur_agents_ray.names import NamedActor, shard_name, shards_of

__all__ = ["Directory"]


class _Actors:
    """The shards' actors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._actors: dict[str, NamedActor] = {}

    async def list(self) -> Mapping[str, str]:
        """See ``Shards``."""
        names = await asyncio.to_thread(shards_of, self._name)
        start = len(shard_name(self._name, ""))
        self._actors = {name: self._actors.get(name) or NamedActor(name) for name in names}
        return {name[start:]: name for name in names}

    async def report(self, shard: str, *, timeout_s: float) -> ShardReport:
        """See ``Shards``."""
        report = await self._actors[shard].call("report", timeout_s=timeout_s)
        if not isinstance(report, ShardReport):
            raise UnreachableError(f"the report of actor {shard!r} is none: {report!r:.80}")
        return report


class Directory:
    """Places agents on engines, and tells every process which engines there are.

    Args:
        name: the actor's.
        config: what shards are made with, the engines left out; for who wants to know whether it is theirs.
    """

    def __init__(self, name: str, config: Config) -> None:
        self._config = config
        self._directory = _Directory(_Actors(name), config.identity.header)

    async def config(self) -> Config:
        """As it was made with."""
        return self._config

    async def place(self, agent_id: str, parent: str | None) -> str | None:
        """The engine for an agent's next step; None when there is none."""
        return await self._directory.place(agent_id, parent)

    async def watch(self, version: tuple[str, int] | None) -> Scene:
        """The scene, once it is another than that version, or after a while."""
        return await self._directory.watch(version)

    async def look(self) -> None:
        """Look at once for engines that joined or left."""
        await self._directory.look()

    async def drain(self, url: str, *, drain: bool = True) -> None:
        """An engine takes no new agents, and those it has move at their next steps. A new life of ours forgets it."""
        await self._directory.drain(url, drain=drain)

    async def stats(self) -> dict[str, Any]:
        """Of the process: its id, its node and its CPU seconds."""
        times = os.times()
        node = ray.get_runtime_context().get_node_id()
        return {"pid": os.getpid(), "node": node, "cpu_s": times.user + times.system}
