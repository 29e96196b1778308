"""One run of a shared controller."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.chaos.clock import Clock
from benchmarks.chaos.kinds import Kind
from benchmarks.chaos.plan import Fault
from benchmarks.chaos.processes import Service, free_ports, freeze, spawn
from benchmarks.chaos.running import Run
from benchmarks.chaos.shared.checks import links, unheard_of
from benchmarks.chaos.shared.notes import WorkerNotes, read_notes
from benchmarks.chaos.shared.plan import IN_FLIGHT_S, LEASE_S, Plan
from benchmarks.chaos.shared.watch import Watch
from benchmarks.chaos.shared.window import above_window
from benchmarks.chaos.wire import Wire

__all__ = ["SharedRun"]

CLEAN_S = LEASE_S + IN_FLIGHT_S + 10.0
"""Seconds after the last survivor's end in which those are forgotten that were killed."""
_CLOCK = "benchmarks.chaos.clock"


class SharedRun(Run):
    """Workers, the controller that they share, and the engine that they all use."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        engine, self._port = free_ports(2)
        self._shared_plan = plan
        self._wires: list[Wire] = []
        self._clocks: list[Clock] = []
        """Of the workers."""
        self._begun: dict[int, float] = {}
        self._moments: list[float] = []
        self._stats: dict[str, Any] = {}
        super().__init__(Kind.SHARED, plan, folder, engine, "controller")

    async def go(self) -> None:
        """See ``Run``."""
        async with contextlib.AsyncExitStack() as self._stack:
            await super().go()

    async def begin(self) -> None:
        """Start the controller, and the workers."""
        plan, folder = self._shared_plan, self.folder
        self._clock = Clock(folder / "clock-controller")
        self.server = Service(
            [
                *(_CLOCK, str(self._clock.file), "concur_agents.cli", "serve"),
                *("--engine", self.engine.url, "--port", str(self._port), "--law", plan.law),
                *("--config", str(folder / "concur.yaml"), "--lease", str(LEASE_S), "--in-flight", str(IN_FLIGHT_S)),
            ],
            self._port,
            folder / "controller.log",
        )
        go = folder / "go"
        for number in range(len(plan.workers)):
            clock, wire = Clock(folder / f"clock-{number}"), await self._stack.enter_async_context(Wire(self._port))
            self._clocks.append(clock)
            self._wires.append(wire)
            self.processes.append(
                spawn(
                    [
                        *(_CLOCK, str(clock.file), "benchmarks.chaos.shared.worker"),
                        *("--seed", str(plan.seed), "--worker", str(number), "--url", wire.url),
                        *("--engine", self.engine.url, "--notes", str(folder / f"client-{number}.jsonl")),
                        *("--go", str(go)),
                    ],
                    folder / f"client-{number}.log",
                )
            )
        await self.ready()
        go.touch()
        pids = [process.pid for process in self.processes]
        self._watch = Watch(plan, self.server.url, pids, self.executions, self._notes)
        watching = asyncio.create_task(self._watch.run())
        self._stack.callback(watching.cancel)

    def faults(self) -> dict[str, Callable[[Fault], Awaitable[object]]]:
        """Those that only workers and a shared controller have."""

        def everybody(fault: Fault) -> None:
            for clock in (self._clock, *self._clocks):
                clock.jump(monotonic_s=fault.by_s)

        return {
            "stop worker": lambda fault: freeze(self.processes[fault.who or 0], fault.lasts_s),
            "cut connections": lambda _: _now(self._cut),
            "hold-up worker": lambda fault: self._wires[fault.who or 0].hold(fault.lasts_s, lost=False),
            "cut-off worker": lambda fault: self._wires[fault.who or 0].hold(fault.lasts_s, lost=True),
            "set-clock worker": lambda fault: _now(lambda: self._clocks[fault.who or 0].jump(wall_s=fault.by_s)),
            "set-clock controller": lambda fault: _now(lambda: self._clock.jump(wall_s=fault.by_s)),
            "jump-clock worker": lambda fault: _now(lambda: self._clocks[fault.who or 0].jump(monotonic_s=fault.by_s)),
            "jump-clock controller": lambda fault: _now(lambda: self._clock.jump(monotonic_s=fault.by_s)),
            "jump-clock everybody": lambda fault: _now(lambda: everybody(fault)),
        }

    def _cut(self) -> None:
        for wire in self._wires:
            wire.cut()

    async def happen(self, fault: Fault) -> None:
        """See ``Run``; when is noted."""
        at_s = time.monotonic()
        self._begun[self._shared_plan.faults.index(fault)] = at_s
        self._moments.append(at_s)
        try:
            await super().happen(fault)
        finally:
            self._moments.append(time.monotonic())

    async def clean(self) -> None:
        """The controller knows nobody, and nobody waits for it."""
        await self.until_empty(self._left, CLEAN_S)

    async def seen(self) -> str:
        """What the controller says of itself."""
        return await self.said("/concur/v1/stats", "/concur/v1/agents")

    def check(self) -> None:
        """See ``Run``."""
        super().check()
        plan, notes = self._shared_plan, self._notes()
        log = (self.folder / "controller.log").read_text(errors="replace")
        moments = [*self._moments, *self.server.births, *self.server.deaths]
        moments += [at_s for worker in notes for at_s in (*worker.lost, *worker.back)]
        for number, worker in enumerate(notes):
            self.check_log(f"client-{number}")
            self.failures += [f"{step} was done twice" for step in worker.twice]
        if plan.window is not None:
            self.failures += above_window(self.executions(), notes, plan.window, moments)
        pids = [process.pid for process in self.processes]
        self.failures += links(notes, plan.faults, self._begun, self._watch.lags)
        self.failures += unheard_of(log, pids, notes, plan.faults, self._begun)
        self.failures += self._watch.seatless()
        self.failures += self._watch.forgotten
        if not self._watch.looks:
            self.failures.append("the controller was never seen")
        if plan.gentle and self._stats:
            self._check_counts(notes)

    def _check_counts(self, notes: list[WorkerNotes]) -> None:
        """What was said is said again, and counts once."""
        agents, tokens = len(self._shared_plan.agents()), sum(worker.prompt_tokens for worker in notes)
        counted = (self._stats["finished"], self._stats["prompt_tokens"])
        if counted != ({"completed": agents}, tokens):
            self.failures.append(f"{agents} agents with {tokens} prompt tokens were counted as {counted}")

    async def _left(self) -> dict[str, Any]:
        """What is left there when nobody should be."""
        self._stats = stats = await self.get(self.server.url, "/concur/v1/stats")
        counts = stats["population"] | {"known": stats["known"]}
        return {name: counts[name] for name in ("known", "seated", "waiting", "parked") if counts[name]}

    def _notes(self) -> list[WorkerNotes]:
        return [read_notes(self.folder / f"client-{number}.jsonl") for number in range(len(self.processes))]


async def _now(action: Callable[[], object]) -> None:
    action()
