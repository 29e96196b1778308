"""A record as a measurement leaves it, and a stub engine in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from benchmarks.gateway.stub import StubEngine, StubProtocol


@pytest.fixture
async def stub():
    """Listens; its streams go on as fast as the loop lets them. ``heads`` are those of the requests that came."""
    engine, heads, bodies, open_ = StubEngine(), [], [], set()

    class Kept(StubProtocol):
        def connection_made(self, transport):
            open_.add(transport)
            super().connection_made(transport)

        def _reply(self, head, body):
            heads.append(head)
            bodies.append(body)
            super()._reply(head, body)

    async def go_on():
        while True:
            engine.step()
            await asyncio.sleep(0)

    server = await asyncio.get_running_loop().create_server(lambda: Kept(engine), "127.0.0.1", 0)
    going = asyncio.create_task(go_on())
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield SimpleNamespace(url=f"http://127.0.0.1:{port}", engine=engine, heads=heads, bodies=bodies)
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going
        for transport in open_:
            transport.abort()
        await asyncio.sleep(0)  # for the loop to close them


def repeat(p50_ms=1.0, per_s=1000.0, *, whole=1000, seconds=2.0, failed=0, others=0.0, problems=None):
    load = {"requests": 5000, "per_s": per_s, "p50_ms": p50_ms, "p99_ms": 2 * p50_ms, "failed": failed, "cpu_us": 400.0}
    streams = {
        "streams": 1000,
        "whole": whole,
        "lost_bytes": 7 * (1000 - whole),
        "bytes": 10**7,
        "seconds": seconds,
        "first_p50_s": 0.1,
        "problems": problems or {},
    }
    return {"one": load, "many": load, "streams": streams, "others": others}


@pytest.fixture
def record():
    """Two repeats of every row; ``record.repeat`` makes another one."""

    class Record(dict):
        repeat = staticmethod(repeat)

    arms = {
        "direct": [repeat(0.25, 16000), repeat(0.25, 8000)],
        "nginx": [repeat(0.5, 8000), repeat(0.5, 4000)],
        "ids": [repeat(1.25, 1600, seconds=4), repeat(2.25, 1600, seconds=5)],
        "prefix": [repeat(2.25, 800), repeat(2.25, 800)],
        "peer": [repeat(4.25, 200), repeat(4.25, 400)],
    }
    return Record(
        benchmark="gateway",
        started="2026-11-30",
        machine={"cpu": "A CPU", "cores": 2, "python": "3.11.7"},
        versions={"aiohttp": "3.14.5", "wrk": "4.1.0", "nginx": "1.22.1"},
        settings={
            "repeats": 2,
            "seconds": 5.0,
            "connections": 64,
            "agents": 256,
            "turns": 20,
            "messages": 21,
            "body_bytes": 21_700,
            "streams": 1000,
            "events": 50,
            "event_s": 0.02,
        },
        arms={key: {"title": f"{key}'s title", "repeats": runs} for key, runs in arms.items()},
    )
