"""HTTP clients that a gateway could be made with, against the stub: requests a second on one event loop."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from benchmarks.gateway.arms import stub_engine
from benchmarks.gateway.measure import turned
from benchmarks.gateway.workload import TURNS, body

__all__ = ["LIBRARIES", "compare", "installed"]

CONNECTIONS: Final = 64
WARM_UP_S: Final = 0.5
_TYPE: Final = {"Content-Type": "application/json"}

Post = Callable[[str, bytes], Awaitable[int]]
"""Sends one body and reads all of the reply; returns its status."""


async def _aiohttp(library: Any, work: Callable[[Post], Awaitable[float]]) -> float:
    async with library.ClientSession(connector=library.TCPConnector(limit=0)) as session:

        async def post(url: str, data: bytes) -> int:
            async with session.post(url, data=data, headers=_TYPE) as reply:
                await reply.read()
                return int(reply.status)

        return await work(post)


async def _httpx(library: Any, work: Callable[[Post], Awaitable[float]]) -> float:
    limits = library.Limits(max_connections=None, max_keepalive_connections=None)
    async with library.AsyncClient(limits=limits, timeout=None) as client:

        async def post(url: str, data: bytes) -> int:
            return int((await client.post(url, content=data, headers=_TYPE)).status_code)

        return await work(post)


async def _niquests(library: Any, work: Callable[[Post], Awaitable[float]]) -> float:
    async with library.AsyncSession(pool_maxsize=CONNECTIONS) as session:

        async def post(url: str, data: bytes) -> int:
            reply = await session.post(url, data=data, headers=_TYPE)
            return int(reply.status_code or 0)

        return await work(post)


LIBRARIES: Final = {"aiohttp": _aiohttp, "httpx": _httpx, "httpx2": _httpx, "niquests": _niquests}
"""By the name that they are installed under."""


def installed() -> dict[str, str]:
    """Versions of those that are there."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


async def compare(repeats: int, seconds: float, folder: Path) -> dict[str, dict[str, Any]]:
    """By library: its version, and requests a second in each repeat; the libraries take turns.

    Raises:
        EngineError: the stub cannot be started.
        RuntimeError: a reply was not 200.
    """
    found = installed()
    record: dict[str, dict[str, Any]] = {name: {"version": version, "per_s": []} for name, version in found.items()}
    async with stub_engine(folder) as (engine, _):
        url = f"{engine}/v1/chat/completions"
        for repeat in range(1, repeats + 1):
            for name in turned(list(found), repeat):
                library = importlib.import_module(name)

                async def work(post: Post) -> float:
                    await _per_s(post, url, WARM_UP_S)
                    return await _per_s(post, url, seconds)

                record[name]["per_s"].append(await LIBRARIES[name](library, work))
    return record


async def _per_s(post: Post, url: str, seconds: float) -> float:
    sent = 0
    bodies = [body("agent", turn) for turn in range(TURNS)]
    begin = time.perf_counter()

    async def one(number: int) -> None:
        nonlocal sent
        while time.perf_counter() - begin < seconds:
            status = await post(url, bodies[number % TURNS])
            if status != 200:
                raise RuntimeError(f"the stub answered {status}")
            sent += 1
            number += 1

    async with asyncio.TaskGroup() as group:
        for number in range(CONNECTIONS):
            group.create_task(one(number))
    return sent / (time.perf_counter() - begin)
