"""``python -m benchmarks.chaos.one SEED FOLDER``: one run, in a process session of its own; what came of it as JSON.

To be started by the command alone, which ends the session. Prints one object: ``failures`` and ``steps``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.chaos.executions import Execution, overlaps, read_executions
from benchmarks.chaos.faulty import DROP
from benchmarks.chaos.plan import Fault, Plan, draw_plan
from benchmarks.chaos.processes import Service, free_ports, spawn

__all__ = ["main"]

IDLE_AFTER_S = 1.2
"""Of the gateway: agents that say nothing have ended."""
START_S = 60.0
LIVE_S = 120.0
"""Seconds in which survivors must be through; they need about 5, and more on a busy machine."""
CLEAN_S = IDLE_AFTER_S + 30.0
STOP_S = 30.0
GRACE_S = 1.0
"""Seconds that it may take to cut a request at the engine once its client has given up."""
_POLL_S = 0.1
_TAIL = 15
_CONFIG = "tick: 0.2\nstale_after: 1.0\n"


class _FailedError(Exception):
    """A run that cannot go on; says why."""


class _Run:
    """One run."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._metrics = folder / "metrics"
        (folder / "concur.yaml").write_text(_CONFIG)
        engine, gateway = free_ports(2)
        self._engine = Service(
            [
                "benchmarks.chaos.engine",
                *("--seed", str(plan.seed), "--port", str(engine)),
                *("--notes", str(folder / "executions-{life}.jsonl"), "--metrics", str(self._metrics)),
            ],
            engine,
            folder / "engine.log",
        )
        self._gateway = Service(
            [
                *("concur_agents.cli", "gateway", "--engine", self._engine.url, "--port", str(gateway)),
                *("--law", plan.law, "--config", str(folder / "concur.yaml")),
                *("--idle-after", str(IDLE_AFTER_S), "--engine-wait", str(plan.engine_wait_s), "--grace", "1"),
            ],
            gateway,
            folder / "gateway.log",
        )
        self._clients = [
            spawn(
                [
                    "benchmarks.chaos.client",
                    *("--seed", str(plan.seed), "--client", str(number), "--url", self._gateway.url),
                    *("--notes", str(folder / f"client-{number}.jsonl")),
                ],
                folder / f"client-{number}.log",
            )
            for number in range(len(plan.clients))
        ]
        self.failures: list[str] = []

    async def go(self) -> None:
        """All of it; what is wrong is in ``failures`` then."""
        try:
            await self._ready()
            await self._live()
            await self._clean()
            await self._stopped()
        except _FailedError as failure:
            self.failures.append(str(failure))
        self._check_executions()
        self._check_log()

    def steps(self) -> int:
        """Steps that were answered."""
        notes = (file.read_text() for file in self._folder.glob("client-*.jsonl"))
        return sum('"what": "done"' in line for text in notes for line in text.splitlines())

    # --- phases ---

    async def _ready(self) -> None:
        try:
            await self._engine.ready(START_S)
            await self._gateway.ready(START_S)
        except TimeoutError as error:
            raise _FailedError(f"the gateway or the engine does not listen: {error}") from error

    async def _live(self) -> None:
        """Faults happen until all clients have ended; every survivor is through in time."""
        through = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for fault in self._plan.faults:
                group.create_task(self._happen(fault, through))
            try:
                async with asyncio.timeout(LIVE_S):
                    while any(client.poll() is None for client in self._clients):  # noqa: ASYNC110 - processes
                        await asyncio.sleep(_POLL_S)
            except TimeoutError:
                self.failures.append(f"not all agents were through after {LIVE_S:g} s; {await self._seen()}")
                for client in self._clients:
                    client.kill()
            finally:
                through.set()
        self._metrics.unlink(missing_ok=True)
        for number, client in enumerate(self._clients):
            killed = number in self._plan.killed and client.wait() == -signal.SIGKILL
            if client.wait() != 0 and not killed and not self.failures:
                log = self._folder / f"client-{number}.log"
                self.failures.append(f"client {number} ended with {client.returncode}:\n{_tail(log)}")

    async def _happen(self, fault: Fault, through: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(through.wait(), fault.at_s)
            return  # nobody is left to be hurt
        match fault.kind:
            case "kill client":
                self._clients[fault.client].kill()
            case "kill gateway":
                await self._gateway.restart(signal.SIGKILL, fault.lasts_s)
            case "kill engine":
                await self._engine.restart(signal.SIGKILL, fault.lasts_s)
            case "end gateway":
                await self._end_gateway(fault.lasts_s)
            case "stop gateway":
                await self._gateway.freeze(fault.lasts_s)
            case "stop engine":
                await self._engine.freeze(fault.lasts_s)
            case "drop connections":
                with contextlib.suppress(httpx.HTTPError):  # this connection is one of them
                    await self._get(self._engine.url, DROP)
            case "metrics":
                self._metrics.write_text(fault.metrics)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(through.wait(), fault.lasts_s)
                self._metrics.unlink(missing_ok=True)

    async def _end_gateway(self, lasts_s: float) -> None:
        try:
            await asyncio.wait_for(self._gateway.restart(signal.SIGTERM, lasts_s), STOP_S + lasts_s)
        except TimeoutError:
            self.failures.append(f"the gateway did not end within {STOP_S:g} s of SIGTERM; {await self._seen()}")
            await self._gateway.restart(signal.SIGKILL, lasts_s)

    async def _clean(self) -> None:
        """Once everybody has ended, the gateway knows nobody, and holds nothing."""
        await self._ready()
        left: object = "it does not answer"
        end = time.monotonic() + CLEAN_S
        while left and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)
            with contextlib.suppress(httpx.HTTPError):
                left = _left(await self._get(self._gateway.url, "/concur/v1/status"))
        if left:
            self.failures.append(f"the gateway is not empty after all have ended: {left}; {await self._seen()}")
        running = [execution for execution in self._executions() if execution.end_s is None]
        if running:
            self.failures.append(f"the engine still works for nobody: {', '.join(map(str, running))}")

    async def _stopped(self) -> None:
        """It ends when it is told to."""
        self._gateway.process.terminate()
        try:
            status = await asyncio.wait_for(self._gateway.ended(), STOP_S)
        except TimeoutError:
            self._gateway.abort()
            await self._gateway.ended()
            raise _FailedError(
                f"the gateway did not end within {STOP_S:g} s of SIGTERM: {_tail(self._folder / 'gateway.log')}"
            ) from None
        if status != 0:
            self.failures.append(f"the gateway ended with {status} when told to")

    # --- checks ---

    def _executions(self) -> list[Execution]:
        ends: list[float | None] = [*self._engine.deaths, None]
        return [
            execution
            for life, ended_s in enumerate(ends)
            for execution in read_executions(self._folder / f"executions-{life}.jsonl", ended_s)
        ]

    def _check_executions(self) -> None:
        for earlier, later in overlaps(self._executions(), GRACE_S):
            self.failures.append(f"{earlier.agent} step {earlier.step} ran twice at once: {earlier}, {later}")

    def _check_log(self) -> None:
        text = (self._folder / "gateway.log").read_text(errors="replace")
        if "Traceback" in text:
            self.failures.append(f"the gateway's log has a traceback: {text[text.index('Traceback') :][:1500]}")

    async def _seen(self) -> str:
        """What the gateway says of itself."""
        said: list[str] = []
        for path in ("/concur/v1/status", "/concur/v1/agents"):
            try:
                said.append(f"{path}: {json.dumps(await self._get(self._gateway.url, path))}")
            except (httpx.HTTPError, ValueError) as error:
                said.append(f"{path}: {error!r}")
        return "\n".join(said)

    async def _get(self, url: str, path: str) -> dict[str, Any]:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=5) as http:
            answer: dict[str, Any] = (await http.get(path)).raise_for_status().json()
            return answer


def _left(status: dict[str, Any]) -> dict[str, Any]:
    """What of a gateway's status should be 0 when nobody is left, and is not."""
    left = {name: status[name] for name in ("agents", "requests", "held_bytes") if status[name]}
    for engine in status["engines"]:
        for name in ("agents", "generating", "in_tool", "parked", "waiting"):
            if engine[name]:
                left[f"engine's {name}"] = engine[name]
    return left


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])


def main(seed: int, folder: Path) -> None:
    """One run, and its result on standard output."""
    plan = draw_plan(seed)
    run = _Run(plan, folder)
    asyncio.run(run.go())
    print(json.dumps({"failures": run.failures, "steps": run.steps()}))  # noqa: T201 - read by the command


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
