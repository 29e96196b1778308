"""Which engine each agent is on, for the whole cluster, as an actor. No generation waits for it but an agent's first.

It keeps nothing that must not be lost: which shards there are it learns from Ray, and who is where from the shards,
once a second. So a new life of it goes on where the last one ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import ray

from concur_agents.config.models import Config
from concur_agents.fleet import Fleet
from concur_agents.remote.protocol import UnreachableError
from concur_agents_ray.names import NamedActor, shard_name, shards_of
from concur_agents_ray.words import AgentReport, EngineState, Scene, ShardReport

__all__ = ["Board", "Directory"]

_log = logging.getLogger("concur_agents_ray")

_EVERY_S = 1.0
_PATIENCE_S = 5.0
"""For a shard's report. One without a report is no engine that is down: its agents go on without control."""
_LISTED_S = 5.0
"""Between looks at Ray's list of actors: engines that joined or left."""
LONGEST_WATCH_S: Final = 30.0
_GRACE_S = 10.0
"""Until an agent that was placed on an engine has to be there: who was told so may be slow, or dead."""


@dataclass(slots=True)
class _Known:
    engine: str
    since: float
    """When it was placed or moved there."""
    steps: int = 0


class Board:
    """What the directory knows. Pure: no Ray, no clock."""

    def __init__(self) -> None:
        self.fleet: Final = Fleet()
        self._known: dict[str, _Known] = {}
        self._agents: dict[str, set[str]] = {}
        """By engine."""

    def join(self, engine: str) -> None:
        """An engine is there. Idempotent."""
        if engine not in self._agents:
            self._agents[engine] = set()
            self.fleet.join(engine)

    def leave(self, engine: str) -> None:
        """It is gone; its agents are placed anew at their next steps. Idempotent."""
        if engine in self._agents:
            for agent_id in tuple(self._agents[engine]):
                self._forget(agent_id)
            del self._agents[engine]
            self.fleet.leave(engine)

    def place(self, agent_id: str, parent: str | None, now: float) -> str:
        """The engine for an agent's next step.

        Raises:
            LookupError: there is no engine.
        """
        if self.fleet.at(agent_id) is None:
            self.fleet.place(agent_id, parent)
        self._note(agent_id, self.fleet.next(agent_id, now), now)
        return self._known[agent_id].engine

    def report(self, report: ShardReport, now: float) -> None:
        """Take what a shard says."""
        engine = report.url
        if engine not in self._agents:
            return
        self.fleet.report(engine, report.load)
        self.fleet.mark(engine, down=not report.up)
        for agent in report.agents:
            self._see(agent, engine, now)
        there = {agent.agent_id for agent in report.agents}
        for agent_id in self._agents[engine] - there:
            if now - self._known[agent_id].since > _GRACE_S:
                self._forget(agent_id)

    def steal(self, reports: list[ShardReport], now: float) -> dict[str, str]:
        """Agents that wait and are to do so elsewhere; they are there from now on."""
        waiting = [agent.agent_id for report in reports for agent in report.agents if agent.waiting]
        moves = self.fleet.steal([each for each in waiting if each in self._known], now)
        for move in moves:
            self.fleet.move(move.agent_id, move.target, now)
            self._note(move.agent_id, move.target, now)
        return {move.agent_id: move.target for move in moves}

    def _see(self, agent: AgentReport, engine: str, now: float) -> None:
        agent_id = agent.agent_id
        known = self._known.get(agent_id)
        if known is None:  # placed in the directory's last life, or while it was away
            self.fleet.place(agent_id, agent.parent)
        if known is None or (known.engine != engine and now - known.since > _GRACE_S):
            self.fleet.move(agent_id, engine, now)  # where it is, whatever it was told
            self._note(agent_id, engine, now)
            known = self._known[agent_id]
        if known.engine == engine and agent.steps != known.steps and not agent.waiting:
            known.steps = agent.steps
            self.fleet.stepped(agent_id, agent.context, now)

    def _note(self, agent_id: str, engine: str, now: float) -> None:
        known = self._known.get(agent_id)
        if known is not None and known.engine == engine:
            return
        if known is not None:
            self._agents[known.engine].discard(agent_id)
        self._known[agent_id] = _Known(engine, now)
        self._agents[engine].add(agent_id)

    def _forget(self, agent_id: str) -> None:
        self._agents[self._known.pop(agent_id).engine].discard(agent_id)
        self.fleet.forget(agent_id)


class Directory:
    """Places agents on engines, and tells every process which engines there are.

    Args:
        name: the actor's.
        config: what shards are made with, the engines left out; for who wants to know whether it is theirs.
        clock: monotonic seconds.
    """

    def __init__(self, name: str, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._board = Board()
        self._shards: dict[str, NamedActor] = {}
        self._draining: set[str] = set()
        self._listed_at: float | None = None
        self._life, self._version = uuid.uuid4().hex, 0
        self._scene = Scene((self._life, 0))
        self._changed = asyncio.Event()
        self._ready = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._problem: str | None = None

    async def config(self) -> Config:
        """As it was made with."""
        return self._config

    async def place(self, agent_id: str, parent: str | None) -> str | None:
        """The engine for an agent's next step; None when there is none."""
        self._run()
        await self._ready.wait()
        try:
            return self._board.place(agent_id, parent, self._clock())
        except LookupError:
            return None

    async def watch(self, version: tuple[str, int] | None) -> Scene:
        """The scene, once it is another than that version, or after a while."""
        self._run()
        await self._ready.wait()
        if self._scene.version == version:
            try:
                async with asyncio.timeout(LONGEST_WATCH_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self._scene

    async def look(self) -> None:
        """Look at once for engines that joined or left."""
        self._listed_at = None
        self._run()
        await self._turn()

    async def drain(self, url: str, *, drain: bool = True) -> None:
        """An engine takes no new agents, and those it has move at their next steps. A new life of ours forgets it."""
        self._run()
        await self._ready.wait()
        self._draining = self._draining | {url} if drain else self._draining - {url}
        self._show({})

    async def stats(self) -> dict[str, Any]:
        """Of the process: its id, its node and its CPU seconds."""
        times = os.times()
        node = ray.get_runtime_context().get_node_id()
        return {"pid": os.getpid(), "node": node, "cpu_s": times.user + times.system}

    # --- inside ---

    def _run(self) -> None:
        if self._running is None:  # not before: an actor's event loop is not there while it is made
            self._running = asyncio.create_task(self._loop())

    async def _loop(self) -> None:
        while True:
            try:
                await self._turn()
                self._problem = None
            except Exception as error:  # noqa: BLE001 - the next turn may be better, and somebody has to place agents
                if self._problem is None:
                    _log.exception("the directory could not look after its shards")
                self._problem = repr(error)
            self._ready.set()
            await asyncio.sleep(_EVERY_S)

    async def _turn(self) -> None:
        now = self._clock()
        if self._listed_at is None or now - self._listed_at >= _LISTED_S:
            self._listed_at = now
            self._list(await asyncio.to_thread(shards_of, self._name))
        answers = await asyncio.gather(*(self._report(shard) for shard in self._shards.values()))
        reports = [each for each in answers if each is not None]
        now = self._clock()
        for report in reports:
            self._board.report(report, now)
        self._show(self._board.steal(reports, now))

    def _list(self, names: list[str]) -> None:
        start = len(shard_name(self._name, ""))
        for name in names:
            if name[start:] not in self._shards:
                self._shards[name[start:]] = NamedActor(name)
                self._board.join(name[start:])
        for url in set(self._shards) - {name[start:] for name in names}:
            del self._shards[url]
            self._board.leave(url)

    async def _report(self, shard: NamedActor) -> ShardReport | None:
        try:
            report: ShardReport = await shard.call("report", timeout_s=_PATIENCE_S)
        except UnreachableError as error:
            _log.debug("no report: %s", error)
            return None
        return report

    def _show(self, moves: dict[str, str]) -> None:
        """Tell everybody, if it is news."""
        fleet = self._board.fleet
        for url in self._shards:
            (fleet.drain if url in self._draining else fleet.join)(url)
        engines = tuple(EngineState(url, shard.name, accepts=fleet.accepts(url)) for url, shard in self._shards.items())
        if engines == self._scene.engines and not moves:
            return
        self._version += 1
        header = self._config.identity.header
        self._scene = Scene((self._life, self._version), engines, moves, header)
        self._changed.set()
        self._changed = asyncio.Event()
