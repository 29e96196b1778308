"""The measurement: every arm in turns, in front of one stub engine, and what each repeat showed."""

from __future__ import annotations

import contextlib
import datetime
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.engines.process import Server, free_port
from benchmarks.gateway.arms import ARMS, Arm, find_program, served, stub_engine
from benchmarks.gateway.children import run
from benchmarks.gateway.load import LoadError, press
from benchmarks.gateway.stub import EVENT_S, EVENTS
from benchmarks.gateway.workload import AGENTS, MESSAGES, TURNS, mean_bytes
from benchmarks.machine import Usage, describe, session_cpu_s

__all__ = ["BENCHMARK", "MANY", "Settings", "measure", "turned", "versions"]

BENCHMARK: Final = "gateway"
MANY: Final = 64
"""Connections for requests a second."""
WARM_UP_S: Final = 1.0
STREAMS_S: Final = 180.0
_PACKAGES: Final = ("aiohttp", "anyio", "h11", "httpx", "starlette", "uvicorn")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much is measured."""

    repeats: int
    seconds: float
    """Of each load."""
    streams: int
    """At once; 0 for none."""


async def measure(settings: Settings, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """The record: what was measured on what, and each repeat of each arm.

    Args:
        settings: how much.
        folder: for scripts and logs; an empty one.
        tell: is told in a line what was measured.

    Raises:
        EngineError: a server cannot be started.
        FileNotFoundError: wrk or nginx is not installed.
        LoadError: a load generator failed.
    """
    found = versions()
    arms: dict[str, dict[str, Any]] = {arm.key: {"title": arm.title, "repeats": []} for arm in ARMS}
    async with stub_engine(folder) as (engine, stub):
        for repeat in range(1, settings.repeats + 1):
            for arm in turned(ARMS, repeat):
                figures = await _one(arm, engine, stub, settings, repeat, folder)
                arms[arm.key]["repeats"].append(figures)
                tell(f"repeat {repeat}, {arm.title}: {_said(figures)}")
    return {
        "benchmark": BENCHMARK,
        "started": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "machine": describe(),
        "versions": found,
        "settings": {
            "repeats": settings.repeats,
            "seconds": settings.seconds,
            "connections": MANY,
            "agents": AGENTS,
            "turns": TURNS,
            "messages": MESSAGES,
            "body_bytes": mean_bytes(),
            "streams": settings.streams,
            "events": EVENTS,
            "event_s": EVENT_S,
        },
        "arms": arms,
    }


async def _one(arm: Arm, engine: str, stub: Server, settings: Settings, repeat: int, folder: Path) -> dict[str, Any]:
    """One arm's figures in one repeat, with a proxy started for it."""
    place = folder / f"{arm.key}-{repeat}"
    place.mkdir()
    async with _in_front(arm, engine, place) as (url, server):
        machine = Usage(stub.sid)
        spent, begin = _cpu_s(server), time.monotonic()

        async def pressed(name: str, connections: int, seconds: float) -> dict[str, Any]:
            before = _cpu_s(server)
            seen = await press(
                url,
                batch=f"{arm.key}-{repeat}-{name}",
                names_agents=arm.names_agents,
                connections=connections,
                seconds=seconds,
                folder=place,
            )
            return seen.to_json() | {"cpu_us": (_cpu_s(server) - before) / seen.requests * 1e6 if server else None}

        await pressed("warm", 1, WARM_UP_S)
        figures = {
            "one": await pressed("one", 1, settings.seconds),
            "streams": await _streams(url, arm, settings.streams) if settings.streams else None,
            # Last, since a slow proxy is for a while still busy with what was abandoned at its end.
            "many": await pressed("many", MANY, settings.seconds),
        }
        others = machine.others()
        ours = (_cpu_s(server) - spent) / (time.monotonic() - begin) / describe()["cores"]
        return figures | {"others": None if others is None else max(0.0, others - ours)}


@contextlib.asynccontextmanager
async def _in_front(arm: Arm, engine: str, place: Path) -> AsyncIterator[tuple[str, Server | None]]:
    if arm.command is None:
        yield engine, None
        return
    port = free_port()
    async with served(arm.command(engine, port, place), port, place / "server.log") as server:
        yield f"http://127.0.0.1:{port}", server


async def _streams(url: str, arm: Arm, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.gateway.streams", url, str(count), "yes" if arm.names_agents else "no"]
    code, printed = await run(command, STREAMS_S)
    if code:
        raise LoadError(f"the streams' reader ended with {code}:\n{printed[-500:]}")
    arrived: dict[str, Any] = json.loads(printed)
    return arrived


def _cpu_s(server: Server | None) -> float:
    return 0.0 if server is None else session_cpu_s(server.sid)


def _said(figures: dict[str, Any]) -> str:
    streams = figures["streams"]
    text = f"{figures['one']['p50_ms']:.2f} ms, {figures['many']['per_s']:,.0f} requests/s"
    return text if streams is None else f"{text}, {streams['whole']} of {streams['streams']} streams whole"


def turned(items: Sequence[T], repeat: int) -> list[T]:
    """Each goes first in turn: a machine that warms up favours nobody."""
    shift = (repeat - 1) % len(items)
    return [*items[shift:], *items[:shift]]


def versions() -> dict[str, str]:
    """Of everything that takes part.

    Raises:
        FileNotFoundError: wrk or nginx is not installed.
    """
    found = {name: metadata.version(name) for name in _PACKAGES}
    for name in ("wrk", "nginx"):
        # wrk says it on an exit code of its own; nginx on the other stream.
        said = subprocess.run([find_program(name), "-v"], capture_output=True, text=True, check=False, timeout=10)
        words = (said.stdout + said.stderr).replace("nginx version: nginx/", "nginx ").split()
        found[name] = words[1].removeprefix("debian/")
    return found
