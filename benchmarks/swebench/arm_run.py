"""One arm from the moment its clock starts: agents are let go, watched, and recorded as they end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from asyncio_throttle.throttler import Throttler

from benchmarks.engines.latency import NOTHING_YET, read_latency
from benchmarks.engines.wire import EngineError
from benchmarks.swebench.agents import AgentPlan, Recorder, run_agent
from benchmarks.swebench.arms import Arm
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.judge import MOST_LEFT
from benchmarks.swebench.own_cpu import CpuWatch
from benchmarks.swebench.records import AgentRecord, ArmFolder, TimelinePoint, append_point
from benchmarks.swebench.sandbox import Sandbox
from benchmarks.swebench.sandbox.finishing import finish
from benchmarks.swebench.setting import Setting
from benchmarks.swebench.summary import ArmFigures
from concur_agents import Controller, EngineSample, Stats, WindowChange

__all__ = ["ArmRun", "Progress"]

_log = logging.getLogger(__name__)


class Progress(Protocol):
    """Is told how the run goes."""

    def preparing(self, arm: str, repeat: int) -> None:
        """An arm's engine and sandboxes are being set up."""

    def sampled(self, arm: str, point: TimelinePoint) -> None:
        """The arm runs; this is how it stands."""

    def judging(self, arm: str) -> None:
        """All agents have ended; the tests run."""

    def finished(self, arm: str, repeat: int, figures: ArmFigures) -> None:
        """The arm is over."""


@dataclass(slots=True)
class ArmRun:
    """The batch on its way through one arm."""

    config: RunConfig
    arm: Arm
    folder: ArmFolder
    setting: Setting
    progress: Progress
    requests: AbstractAsyncContextManager[object]
    start: float = 0.0
    finished: int = 0

    async def run(self) -> dict[str, Any]:
        """Run the batch, and say what only its end knows."""
        engine, machine = self.setting.engine.cpu_s(), _machine_s()
        latency = await read_latency(self.setting.engine)
        reader = self.setting.engine.reader()
        self.finished = self.config.agents - len(self.setting.sandboxes)
        async with Controller(reader, law=self.arm.law, tick=self.config.tick_s) as controller:
            self.start = time.monotonic() - self.folder.elapsed_s()
            with CpuWatch() as cpu:
                await self._batch(controller)
            own = cpu.shares()
            await self._check_engine()
            spent = await read_latency(self.setting.engine)
            return {
                "latency": None if spent is None else asdict(spent.since(latency or NOTHING_YET)),
                "harness_cpu_s": own.total_s,
                "framework_cpu_s": own.framework_s,
                "concur_cpu_s": own.concur_s,
                "engine_cpu_s": _difference(self.setting.engine.cpu_s(), engine),
                "machine_busy": _busy_share(machine, _machine_s()),
                "capacity_tokens": self.setting.engine.capacity_tokens,
                "engine": self.setting.engine.name,
                "engine_flags": self.setting.engine.about.get("flags"),
                "window_changes": [_change(change, self.start) for change in controller.history()],
            }

    async def _check_engine(self) -> None:
        """Of an engine that is gone, agents that failed are no figures: they are to run again. Raises EngineError."""
        try:
            await self.setting.engine.check_alive()
        except EngineError:
            for record in self.folder.agents():
                if record.outcome == "failed":
                    self.folder.forget_agent(record.agent_id)
            raise

    def _clock(self) -> float:
        return time.monotonic() - self.start

    async def _batch(self, controller: Controller) -> None:
        watching = asyncio.create_task(self._watch(controller))
        try:
            async with asyncio.TaskGroup() as group:
                async for plan, sandbox in self._paced():
                    group.create_task(self._agent(plan, sandbox, controller))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed  # no agent's own doing, which is recorded: one of them says it
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        if watching.done() and not watching.cancelled() and (error := watching.exception()):
            raise error

    async def _paced(self) -> AsyncIterator[tuple[AgentPlan, Sandbox | Exception]]:
        """Whom to start, when it is time."""
        rate = self.config.launch_rate
        pace: AbstractAsyncContextManager[object] = Throttler(1, period=1 / rate) if rate else contextlib.nullcontext()
        for plan, sandbox in self.setting.sandboxes.items():
            async with pace:
                yield plan, sandbox

    async def _agent(self, plan: AgentPlan, sandbox: Sandbox | Exception, controller: Controller) -> None:
        recorder = Recorder(plan, self._clock, self.config, self.requests, self.arm.proxy)
        if isinstance(sandbox, Exception):
            record = recorder.record("failed", sandbox)
        else:
            try:
                record = await run_agent(
                    recorder,
                    model=self.setting.model,
                    controller=controller,
                    sandbox=sandbox,
                    replies=self.setting.replies.get(plan),
                    config=self.config,
                )
            except asyncio.CancelledError:
                self.folder.write_agent(recorder.record("cancelled"))
                raise
        # Who has ended has ended, also when the run is interrupted at this very moment.
        await finish(self._ended(plan, sandbox, record))

    async def _ended(self, plan: AgentPlan, sandbox: Sandbox | Exception, record: AgentRecord) -> None:
        if not isinstance(sandbox, Exception):
            await self._keep(plan, sandbox)
        await self._release(plan)
        self.finished += 1
        self.folder.write_agent(record)

    async def _release(self, plan: AgentPlan) -> None:
        """Tell a proxy that the agent has ended; what it makes of it is its own matter."""
        if self.arm.proxy is not None:
            try:
                await self.arm.proxy.ended(plan.agent_id)
            except EngineError as error:
                _log.warning("%s was not released: %s", plan.agent_id, error)

    async def _keep(self, plan: AgentPlan, sandbox: Sandbox) -> None:
        """Write down what the agent left. Where that is not to be had there is nothing to judge, and the run goes on.

        Raises:
            RecordError: it cannot be written. The agent then counts as not run, or it would never be judged.
        """
        try:
            left = await sandbox.changes(limit=MOST_LEFT)
        except Exception as error:  # noqa: BLE001 - a strange file, too much of it: one agent's matter
            _log.warning("%s left nothing that can be judged: %s", plan.agent_id, error)
            return
        await asyncio.to_thread(self.folder.write_left, plan.agent_id, left)

    async def _watch(self, controller: Controller) -> None:
        """Write a line a tick."""
        with self.folder.open_timeline() as stream:
            while True:
                point = _point(controller.stats(), at=self._clock(), finished=self.finished)
                append_point(stream, point)
                self.progress.sampled(self.arm.name, point)
                await asyncio.sleep(self.config.tick_s)


def _point(stats: Stats, *, at: float, finished: int) -> TimelinePoint:
    sample, population = stats.sample or EngineSample(), stats.population
    return TimelinePoint(
        at_s=at,
        window=_finite(stats.window),
        seated=population.seated,
        generating=population.generating,
        waiting=population.waiting,
        finished=finished,
        pinned_usage=sample.pinned_usage,
        occupied_usage=sample.occupied_usage,
        hit_tokens=sample.hit_tokens_total,
        query_tokens=sample.query_tokens_total,
        running=sample.running,
        queued=sample.queued,
        problem=stats.problem,
    )


def _change(change: WindowChange, start: float) -> Mapping[str, Any]:
    """A change of the window, for the record."""
    return {
        "at_s": change.at - start,
        "before": _finite(change.before),
        "after": _finite(change.after),
        "reason": str(change.reason),
    }


def _finite(window: float) -> float | None:
    return window if math.isfinite(window) else None


def _machine_s() -> tuple[float, float] | None:
    """Seconds that all cores together were (busy, there) since boot; None where the system does not say."""
    try:
        times = [int(part) for part in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return sum(times) - times[3] - times[4], sum(times)  # idle and iowait are not busy


def _busy_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before
