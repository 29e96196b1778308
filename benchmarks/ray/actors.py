"""What runs in Ray's processes: embedded engines, several in one process, and agents as coroutines."""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass
from typing import Any

import aiohttp

import concur_agents_ray
from concur_agents.emulator import Emulator, ServiceConfig

__all__ = ["Batch", "Done", "Engines", "Workers"]

_TRIES = 5
"""Of one step: an engine that is down breaks it, and the agent goes on at another."""
_WORD = "token "
_OUTPUT = 16


class Engines:
    """Embedded engines, each in a thread of this process.

    Args:
        count: of them.
        preset: of the emulator.
        speedup: engine seconds per second.
    """

    def __init__(self, count: int, preset: str, speedup: float) -> None:
        config = ServiceConfig.preset(preset, speedup=speedup)
        self._emulators = [Emulator(config).__enter__() for _ in range(count)]

    def urls(self) -> list[str]:
        """Where they are."""
        return [each.url for each in self._emulators]

    def kill(self, url: str) -> bool:
        """End one of them; False when it is not here."""
        for emulator in self._emulators:
            if emulator.url == url:
                self._emulators.remove(emulator)
                emulator.__exit__(None, None, None)
                return True
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What each agent does."""

    steps: int
    prompt: int
    """Tokens that it begins with."""
    grows: int
    """Tokens that a tool adds."""
    tool_s: float
    """Longest tool, in seconds; evenly distributed from 0."""


@dataclass(frozen=True, slots=True)
class Done:
    """One agent's end."""

    agent_id: str
    finished: bool
    engines: tuple[str, ...]
    """Those it was on, in order."""
    waits_s: tuple[float, ...]
    """For its seat, by step."""


class Workers:
    """Agents of one process.

    Args:
        name: of the controller's actors.
        seed: of the tools' lengths.
        lease_s: as for ``controller``.
    """

    def __init__(self, name: str, seed: int, lease_s: float | None = None) -> None:
        self._concur = concur_agents_ray.controller(name=name, lease_s=lease_s)
        self._rng = random.Random(seed)
        self._finished = 0

    async def run(self, agents: list[str], batch: Batch) -> list[Done]:
        """Run them all at once, to their ends."""
        limit = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=limit, timeout=aiohttp.ClientTimeout(600)) as http:
            return await asyncio.gather(*(self._agent(agent, batch, http) for agent in agents))

    async def pid(self) -> int:
        """Of this process."""
        return os.getpid()

    async def finished(self) -> int:
        """How many agents have ended so far."""
        return self._finished

    async def cost(self, steps: int) -> list[float]:
        """Seconds of each of so many steps of one agent alone, with nothing generated."""
        costs = []
        async with self._concur.agent(f"alone-{os.getpid()}") as agent:
            for _ in range(steps):
                began = time.perf_counter()
                async with agent.step():
                    pass
                costs.append(time.perf_counter() - began)
        return costs

    async def _agent(self, agent_id: str, batch: Batch, http: aiohttp.ClientSession) -> Done:
        engines: list[str] = []
        waits: list[float] = []
        text = f"{agent_id} " + _WORD * batch.prompt
        finished = True
        async with self._concur.agent(agent_id) as agent:
            for _ in range(batch.steps):
                if not await self._step(agent, text, http, engines, waits):
                    finished = False
                    break
                await asyncio.sleep(self._rng.random() * batch.tool_s)
                text += _WORD * batch.grows
        self._finished += 1
        return Done(agent_id, finished, tuple(engines), tuple(waits))

    async def _step(
        self, agent: Any, text: str, http: aiohttp.ClientSession, engines: list[str], waits: list[float]
    ) -> bool:
        body = {"text": text, "sampling_params": {"max_new_tokens": _OUTPUT, "ignore_eos": True}}
        for attempt in range(_TRIES):
            began = time.perf_counter()
            async with agent.step() as step:
                waits.append(time.perf_counter() - began)
                url = self._concur.engine(agent.agent_id)
                if url is not None and engines[-1:] != [url]:
                    engines.append(url)
                try:
                    async with http.post(f"{url}/generate", json=body, headers=agent.headers) as reply:
                        reply.raise_for_status()
                        step.observe((await reply.json())["meta_info"])
                        return True
                except aiohttp.ClientConnectorError:
                    self._concur.refused(str(url))
                except aiohttp.ClientError:
                    pass
            await asyncio.sleep(2**attempt / 4)  # the directory needs some seconds to see that an engine is down
        return False
