"""What runs of both kinds are: servers, processes of agents, faults until all have ended, and checks."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.chaos.executions import Execution, overlaps, read_executions
from benchmarks.chaos.faulty import DROP
from benchmarks.chaos.kinds import Kind
from benchmarks.chaos.plan import Fault, RunPlan
from benchmarks.chaos.processes import Service, freeze

__all__ = ["FailedError", "Run"]

_CONFIG: Final = "tick: 0.2\nstale_after: 1.0\n"
"""Of the controller."""
START_S = 60.0
LIVE_S = 120.0
"""Seconds in which survivors must be through; they need about 5, and more on a busy machine."""
STOP_S = 30.0
GRACE_S = 1.0
"""Seconds that it may take to cut a request at the engine once its client has given up."""
_POLL_S = 0.1
_TAIL = 15


class FailedError(Exception):
    """A run that cannot go on; says why."""


class Run(abc.ABC):
    """One run.

    Args:
        kind: which.
        plan: what happens.
        folder: for notes and logs.
        port: the engine's.
        called: the server under test, as failures call it.
    """

    server: Service
    """Under test; started by the subclass, in ``begin``."""

    def __init__(self, kind: Kind, plan: RunPlan, folder: Path, port: int, called: str) -> None:
        self.folder: Final = folder
        self.failures: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        """Of agents; started by the subclass, in ``begin``."""
        self.killed: set[int] = set()
        """Of these, the ones that we have killed."""
        self._plan = plan
        self._called = called
        self._metrics = folder / "metrics"
        (folder / "concur.yaml").write_text(_CONFIG)
        self.engine: Final = Service(
            [
                *("benchmarks.chaos.engine", "--kind", kind, "--seed", str(plan.seed), "--port", str(port)),
                *("--notes", str(folder / "executions-{life}.jsonl"), "--metrics", str(self._metrics)),
            ],
            port,
            folder / "engine.log",
        )

    async def go(self) -> None:
        """All of it; what is wrong is in ``failures`` then."""
        try:
            await self.begin()
            await self.ready()
            await self._live()
            await self.clean()
            await self._stopped()
        except FailedError as failure:
            self.failures.append(str(failure))
        self.check()

    def steps(self) -> int:
        """Steps that were done."""
        notes = (file.read_text() for file in self.folder.glob("client-*.jsonl"))
        return sum('"what": "done"' in line for text in notes for line in text.splitlines())

    # --- what a kind of run says ---

    @abc.abstractmethod
    async def begin(self) -> None:
        """Start the server, and the processes."""

    @abc.abstractmethod
    async def clean(self) -> None:
        """Once everybody has ended, nothing may be left."""

    @abc.abstractmethod
    def faults(self) -> dict[str, Callable[[Fault], Awaitable[object]]]:
        """What each kind of fault that is not of all runs does."""

    @abc.abstractmethod
    async def seen(self) -> str:
        """What the server says of itself, for people."""

    def check(self) -> None:
        """What all of it must have been; adds to the failures."""
        for earlier, later in overlaps(self.executions(), GRACE_S):
            self.failures.append(f"{earlier.agent} step {earlier.step} ran twice at once: {earlier}, {later}")
        self.check_log(self._called)

    # --- what it needs for that ---

    async def ready(self) -> None:
        """Return when both servers listen."""
        try:
            await self.engine.ready(START_S)
            await self.server.ready(START_S)
        except TimeoutError as error:
            raise FailedError(f"the {self._called} or the engine does not listen: {error}") from error

    def executions(self) -> list[Execution]:
        """All that the engine has executed so far."""
        ends: list[float | None] = [*self.engine.deaths, None]
        return [
            execution
            for life, ended_s in enumerate(ends)
            for execution in read_executions(self.folder / f"executions-{life}.jsonl", ended_s)
        ]

    async def until_empty(self, left: Callable[[], Awaitable[object]], within_s: float) -> None:
        """Nothing is left of the agents, at the server and at the engine.

        Args:
            left: what the server has.
            within_s: seconds.
        """
        await self.ready()
        found: object = "it does not answer"
        end = time.monotonic() + within_s
        while found and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)
            with contextlib.suppress(httpx.HTTPError):
                found = await left()
        if found:
            self.failures.append(f"the {self._called} is not empty after all have ended: {found}; {await self.seen()}")
        running = [execution for execution in self.executions() if execution.end_s is None]
        if running:
            self.failures.append(f"the engine still works for nobody: {', '.join(map(str, running))}")

    def check_log(self, name: str) -> str:
        """What a process has printed, which must be no traceback."""
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        if "Traceback" in text:
            self.failures.append(f"the {name}'s log has a traceback: {text[text.index('Traceback') :][:1500]}")
        return text

    async def get(self, url: str, path: str) -> Any:
        """The answer to a GET, in JSON values."""
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=5) as http:
            return (await http.get(path)).raise_for_status().json()

    async def said(self, *paths: str) -> str:
        """The server's answers, for people."""
        answers: list[str] = []
        for path in paths:
            try:
                answers.append(f"{path}: {json.dumps(await self.get(self.server.url, path))}")
            except (httpx.HTTPError, ValueError) as error:
                answers.append(f"{path}: {error!r}")
        return "\n".join(answers)

    # --- phases ---

    async def _live(self) -> None:
        """Faults happen until all processes have ended; every survivor is through in time."""
        through = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for fault in self._plan.faults:
                group.create_task(self._happen(fault, through))
            try:
                async with asyncio.timeout(LIVE_S):
                    while any(process.poll() is None for process in self.processes):  # noqa: ASYNC110 - processes
                        await asyncio.sleep(_POLL_S)
            except TimeoutError:
                self.failures.append(f"not all agents were through after {LIVE_S:g} s; {await self.seen()}")
                for process in self.processes:
                    process.kill()
            finally:
                through.set()
        self._metrics.unlink(missing_ok=True)
        for number, process in enumerate(self.processes):
            killed = number in self.killed and process.wait() == -signal.SIGKILL
            if process.wait() != 0 and not killed and not self.failures:
                log = self.folder / f"client-{number}.log"
                self.failures.append(f"client {number} ended with {process.returncode}:\n{_tail(log)}")

    async def _happen(self, fault: Fault, through: asyncio.Event) -> None:
        if await _set_within(through, fault.at_s):
            return  # nobody is left to be hurt
        while fault.at_work and not self.at_work(fault.who):
            if await _set_within(through, _POLL_S / 5):
                return
        if fault.kind == "metrics":
            self._metrics.write_text(fault.metrics)
            await _set_within(through, fault.lasts_s)
            self._metrics.unlink(missing_ok=True)
        else:
            await self.happen(fault)

    async def happen(self, fault: Fault) -> None:
        """Have a fault, from its begin to its end."""
        verb, _, whom = fault.kind.partition(" ")
        service = self.engine if whom == "engine" else self.server if whom == self._called else None
        if fault.kind == "drop connections":
            with contextlib.suppress(httpx.HTTPError):  # this connection is one of them
                await self.get(self.engine.url, DROP)
        elif service is not None and verb == "kill":
            await service.restart(signal.SIGKILL, fault.lasts_s)
        elif service is not None and verb == "end":
            await self._end(service, fault.lasts_s)
        elif service is not None and verb == "stop":
            await freeze(service.process, fault.lasts_s)
        elif fault.who is not None and verb == "kill":
            self.killed.add(fault.who)
            self.processes[fault.who].kill()
        else:
            await self.faults()[fault.kind](fault)

    def at_work(self, who: int | None) -> bool:
        """Whether the engine executes something, of one process or of any."""
        prefix = "" if who is None else f"c{who}a"
        return any(each.end_s is None and each.agent.startswith(prefix) for each in self.executions())

    async def _end(self, service: Service, lasts_s: float) -> None:
        try:
            await asyncio.wait_for(service.restart(signal.SIGTERM, lasts_s), STOP_S + lasts_s)
        except TimeoutError:
            self.failures.append(f"the {self._called} did not end within {STOP_S:g} s of SIGTERM; {await self.seen()}")
            await service.restart(signal.SIGKILL, lasts_s)

    async def _stopped(self) -> None:
        """It ends when it is told to."""
        self.server.process.terminate()
        try:
            status = await asyncio.wait_for(self.server.ended(), STOP_S)
        except TimeoutError:
            self.server.abort()
            await self.server.ended()
            raise FailedError(
                f"the {self._called} did not end within {STOP_S:g} s of SIGTERM: "
                f"{_tail(self.folder / f'{self._called}.log')}"
            ) from None
        if status != 0:
            self.failures.append(f"the {self._called} ended with {status} when told to")


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
        return True
    return False


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])
