"""An hour of short agents that nobody ends, in minutes: does the gateway give back what they took?

Agents arrive at a steady rate, make a few requests and are not heard of again, so that each ends by ``--idle-after``
alone. After that time as many end as arrive: from then on, memory and open files must not grow.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import linear_regression
from typing import Any, Final

import aiohttp

from benchmarks.engines.process import Server, free_port
from benchmarks.engines.warden import members
from benchmarks.gateway.arms import gateway_command, served, stub_engine
from benchmarks.gateway.workload import body

__all__ = ["IDS", "PREFIX", "Growth", "Sample", "SoakSettings", "growth", "soak"]

IDS: Final = "ids"
PREFIX: Final = "prefix"
STEPS: Final = 3
TOOL_S: Final = 2.0
"""Between an agent's requests, before it is sped up."""
IDLE_AFTER_S: Final = 900.0
"""The gateway's default, before it is sped up."""
AT_ONCE: Final = 64
"""Agents that may be under way: on a machine that cannot keep up, fewer arrive, and no backlog is taken for a leak."""
SAMPLE_S: Final = 1.0
_ENDED_S: Final = 30.0
"""Seconds that the last agents have on top to be taken to have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSettings:
    """How long, and how much faster than that."""

    minutes: float
    """That are stood for."""
    speedup: float
    agents_per_minute: float

    @property
    def agents(self) -> int:
        """In all."""
        return round(self.minutes * self.agents_per_minute)

    @property
    def idle_after_s(self) -> float:
        """What the gateway is told."""
        return IDLE_AFTER_S / self.speedup


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The gateway's process at one moment."""

    at_s: float
    rss_kib: int
    files: int
    agents: int
    """That it knows."""
    arrived: int
    """Since the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """From when as many agents end as arrive, to the last arrival."""

    first: Sample
    last: Sample
    kib_per_1000_agents: float
    """Slope of the memory over the agents that arrived."""
    files_per_1000_agents: float


async def soak(kind: str, settings: SoakSettings, folder: Path) -> dict[str, Any]:
    """The record of one soak: its samples' ends and slope, what failed, and what was left once all had ended.

    Args:
        kind: :data:`IDS` or :data:`PREFIX`.
        settings: how much.
        folder: for logs.

    Raises:
        EngineError: a server cannot be started, or has ended.
    """
    place = folder / kind
    place.mkdir()
    async with stub_engine(place) as (engine, _), _gateway(engine, settings, place) as (url, server):
        load = _Load(kind, url, settings)
        begin = time.monotonic()
        sampled: list[Sample] = []
        async with aiohttp.ClientSession() as watch:
            before = await _sample(watch, url, server, begin, 0)
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as agents:
                work = asyncio.create_task(load.run(agents))
                try:
                    while not work.done():
                        await asyncio.wait((work,), timeout=SAMPLE_S)
                        server.check()
                        sampled.append(await _sample(watch, url, server, begin, load.arrived))
                    await work
                finally:
                    work.cancel()
            after = await _ended(watch, url, server, begin, settings, load.arrived)
        grown = growth([each for each in sampled if each.at_s >= settings.idle_after_s])
        return {
            "agents": load.arrived,
            "requests": load.requests,
            "failed": load.failed,
            "idle_after_s": settings.idle_after_s,
            "seconds": sampled[-1].at_s,
            "most_agents": max(each.agents for each in sampled),
            "before": asdict(before),
            "after": asdict(after),
            "growth": None if grown is None else asdict(grown),
        }


def growth(samples: Sequence[Sample]) -> Growth | None:
    """First, last and slope; None of too few samples."""
    if len({each.arrived for each in samples}) < 2:
        return None
    thousands = [each.arrived / 1000 for each in samples]
    return Growth(
        first=samples[0],
        last=samples[-1],
        kib_per_1000_agents=linear_regression(thousands, [each.rss_kib for each in samples]).slope,
        files_per_1000_agents=linear_regression(thousands, [each.files for each in samples]).slope,
    )


class _Load:
    """Agents that arrive at a steady rate."""

    def __init__(self, kind: str, url: str, settings: SoakSettings) -> None:
        self._kind = kind
        self._url = f"{url}/v1/chat/completions"
        self._settings = settings
        self.arrived = self.requests = self.failed = 0

    async def run(self, session: aiohttp.ClientSession) -> None:
        """All of them, to the last one's last reply."""
        every_s = 60 / self._settings.agents_per_minute / self._settings.speedup
        due = time.monotonic()
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for number in range(self._settings.agents):
                await asyncio.sleep(due - time.monotonic())
                await room.acquire()
                due = max(due + every_s, time.monotonic())  # who came late is not made up for
                self.arrived += 1
                group.create_task(self._agent(session, f"agent-{number}")).add_done_callback(lambda _: room.release())

    async def _agent(self, session: aiohttp.ClientSession, name: str) -> None:
        headers = {"Content-Type": "application/json"} | ({"X-Session-ID": name} if self._kind == IDS else {})
        for turn in range(STEPS):
            if turn:
                await asyncio.sleep(TOOL_S / self._settings.speedup)
            self.requests += 1
            try:
                async with session.post(self._url, data=body(name, turn), headers=headers) as reply:
                    await reply.read()
                    self.failed += reply.status != 200
            except aiohttp.ClientError:
                self.failed += 1


@contextlib.asynccontextmanager
async def _gateway(engine: str, settings: SoakSettings, place: Path) -> AsyncIterator[tuple[str, Server]]:
    port = free_port()
    command = gateway_command(engine, port, "--idle-after", f"{settings.idle_after_s:g}")
    async with served(command, port, place / "server.log") as server:
        yield f"http://127.0.0.1:{port}", server


async def _ended(
    session: aiohttp.ClientSession, url: str, server: Server, begin: float, settings: SoakSettings, arrived: int
) -> Sample:
    """Once the gateway knows nobody any more; as it is, if that takes too long."""
    late = time.monotonic() + settings.idle_after_s + _ENDED_S
    while True:
        sample = await _sample(session, url, server, begin, arrived)
        if sample.agents == 0 or time.monotonic() > late:
            return sample
        await asyncio.sleep(SAMPLE_S)


async def _sample(session: aiohttp.ClientSession, url: str, server: Server, begin: float, arrived: int) -> Sample:
    async with session.get(f"{url}/concur/v1/status") as reply:
        agents = json.loads(await reply.read())["agents"]
    # The session is the warden's, which leads it; the other one in it is the gateway.
    process = next(pid for pid in members(server.sid) if pid != server.sid)
    rss_kib, files = await asyncio.to_thread(_held, process)
    return Sample(at_s=time.monotonic() - begin, rss_kib=rss_kib, files=files, agents=agents, arrived=arrived)


def _held(process: int) -> tuple[int, int]:
    """Resident memory in KiB, and open files."""
    place = Path("/proc") / str(process)
    rss = next(line for line in (place / "status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(rss.split()[1]), sum(1 for _ in (place / "fd").iterdir())
