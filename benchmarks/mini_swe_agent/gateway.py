"""``concur gateway`` between the runner and the engine: the runner knows its address, and no request names anybody."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.engines.process import free_port, serve
from benchmarks.engines.wire import EngineError, call, fetch
from benchmarks.laws import named
from benchmarks.machine import session_cpu_s
from benchmarks.swebench.arms import LAW_ARMS, Arm

__all__ = ["KIND", "Gateway", "gateway_arm", "law_of", "open_gateway", "steps_of"]

KIND: Final = "gateway"
DEFAULT_LAW: Final = "budget"
START_S: Final = 60.0
STOP_S: Final = 5.0


def gateway_arm(argument: str) -> Arm:
    """Any law, in a gateway: ``gateway`` alone (the default law), or ``gateway:fixed:8``."""
    return named(argument or DEFAULT_LAW, LAW_ARMS)


def law_of(arm: str) -> Any:
    """The law of an arm, as a configuration file says it."""
    kind, _, rest = arm.partition(":")
    if kind == KIND:
        return law_of(rest or DEFAULT_LAW)
    if kind == "fixed":
        return arm
    pairs = (pair.partition("=") for pair in filter(None, rest.split(",")))
    return {"name": kind, **{key.strip(): float(value) for key, _, value in pairs}}


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running one."""

    url: str
    """Without ``/v1``."""
    session: int
    """Its process session."""

    async def seen(self) -> dict[str, Any]:
        """How many agents it has seen so far, and how many of them it has taken to have ended. Raises EngineError."""
        status = await asyncio.to_thread(fetch, "GET", f"{self.url}/concur/v1/status")
        return {
            "agents": status["agents"] + status["expired"],
            "expired": status["expired"],
            "cpu_s": session_cpu_s(self.session),
        }


@contextlib.asynccontextmanager
async def open_gateway(engine: str, config: Path, log: Path) -> AsyncIterator[Gateway]:
    """A gateway in a process of its own, as a user starts it; ended when the block is left.

    Args:
        engine: address of the engine.
        config: file with its law.
        log: file for what it prints.

    Raises:
        EngineError: it cannot be started.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "concur_agents.cli", "gateway", "--engine", engine, "--port", str(port)]
    command += ["--config", str(config)]
    # What would configure Concur from outside is not for a benchmark.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")}
    async with serve(
        command, environment=environment, log=log, ready=lambda: _ready(url), start_s=START_S, stop_s=STOP_S
    ) as server:
        yield Gateway(url, server.sid)


def steps_of(events: Path) -> list[int]:
    """Steps of each agent in a controller's log of events, sorted. The log is whole once the controller is closed."""
    steps: Counter[str] = Counter()
    for line in events.read_text(encoding="utf-8").splitlines() if events.exists() else ():
        event = json.loads(line)
        if event.get("kind") in ("admitted", "resumed"):
            steps[event["agent_id"]] += 1
    return sorted(steps.values())


def _ready(url: str) -> bool:
    try:
        return call("GET", f"{url}/concur/v1/status", timeout_s=5.0)[0] == 200
    except EngineError:
        return False
