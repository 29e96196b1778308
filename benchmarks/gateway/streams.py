"""Many streams at once: ``python -m benchmarks.gateway.streams URL STREAMS NAMED`` prints what arrived, as JSON.

A process of its own, so that what it costs to read them is not taken from anybody's event loop.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

import aiohttp

from benchmarks.gateway.stub import streamed
from benchmarks.gateway.workload import stream_body

__all__ = ["Arrived", "Stream", "read_streams", "summed"]

_TIMEOUT_S: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What came of one."""

    user: str
    got: bytes
    first_s: float | None
    """From the request to the first byte."""
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Of all streams."""

    streams: int
    whole: int
    """Every byte of its own, no other one, and in order."""
    lost_bytes: int
    bytes: int
    """That should have come."""
    seconds: float
    """Until the last stream was over."""
    first_p50_s: float | None
    problems: dict[str, int]
    """How often what went wrong."""

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return asdict(self)


async def read_streams(url: str, count: int, *, names_agents: bool) -> Arrived:
    """Have ``count`` streams at once, and read all of each."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)
    ) as session:
        begin = time.monotonic()
        users = [f"stream-{number}" for number in range(count)]
        streams = await asyncio.gather(*(_read(session, url, user, names_agents=names_agents) for user in users))
        return summed(streams, time.monotonic() - begin)


async def _read(session: aiohttp.ClientSession, url: str, user: str, *, names_agents: bool) -> Stream:
    headers = {"Content-Type": "application/json"} | ({"X-Session-ID": user} if names_agents else {})
    got = bytearray()
    begin, first = time.monotonic(), None
    problem = None
    try:
        async with session.post(
            f"{url}/v1/chat/completions", data=stream_body(user), headers=headers, raise_for_status=True
        ) as reply:
            async for chunk in reply.content.iter_any():
                first = first or time.monotonic() - begin
                got += chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        problem = type(error).__name__
    return Stream(user=user, got=bytes(got), first_s=first, problem=problem)


def summed(streams: Sequence[Stream], seconds: float) -> Arrived:
    """What arrived, of what should have."""
    whole = lost = every = 0
    problems: dict[str, int] = {}
    for stream in streams:
        expected = streamed(stream.user)
        every += len(expected)
        lost += len(expected) - _agreeing(stream.got, expected)
        if stream.got == expected and stream.problem is None:
            whole += 1
        else:
            name = stream.problem or "other bytes"
            problems[name] = problems.get(name, 0) + 1
    firsts = [stream.first_s for stream in streams if stream.first_s is not None]
    return Arrived(
        streams=len(streams),
        whole=whole,
        lost_bytes=lost,
        bytes=every,
        seconds=seconds,
        first_p50_s=median(firsts) if firsts else None,
        problems=problems,
    )


def _agreeing(got: bytes, expected: bytes) -> int:
    """Bytes from the start that are as they should be."""
    if got == expected:
        return len(expected)
    shortest = min(len(got), len(expected))
    return next((at for at, (one, other) in enumerate(zip(got, expected, strict=False)) if one != other), shortest)


if __name__ == "__main__":
    _, _url, _count, _named = sys.argv
    sys.stdout.write(json.dumps(asyncio.run(read_streams(_url, int(_count), names_agents=_named == "yes")).to_json()))
