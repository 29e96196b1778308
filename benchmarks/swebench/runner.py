"""Runs the batch through each arm: the same agents on the same tasks, with an engine that has seen nothing before.

One arm, in order: fresh engine, fresh workspaces and sandboxes, one warm-up agent whose figures are thrown away,
flush; then the clock starts and all agents at once; when the last has ended the clock stops, and only then the tasks'
tests run, so that judging costs no arm anything.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from benchmarks.swebench.agents import AgentPlan, Recorder, run_agent
from benchmarks.swebench.arms import Arm, parse_arms
from benchmarks.swebench.config import ALL_TASKS, LONG_TASKS, RunConfig
from benchmarks.swebench.records import AgentRecord, ArmFolder, RunFolder, TimelinePoint, append_point
from benchmarks.swebench.sandbox import BubblewrapSandboxes, Sandbox
from benchmarks.swebench.setting import Setting, open_setting
from benchmarks.swebench.summary import ArmFigures, figures_of
from benchmarks.swebench.tasks import Task
from concur_agents import Controller, EngineSample, Stats, WindowChange
from concur_agents.engines import SGLang

__all__ = ["Progress", "plan_agents", "run_arms"]

TEST_TIMEOUT_S = 300.0
"""A suite takes seconds; a wrong fix may loop for ever."""


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


def plan_agents(config: RunConfig, tasks: Sequence[Task]) -> tuple[AgentPlan, ...]:
    """Who does what: decided by the seed alone, with every task equally often (give or take one).

    Raises:
        ValueError: no tasks, or ``config.tasks`` names one that does not exist.
    """
    by_id = {task.task_id: task for task in sorted(tasks, key=lambda task: task.task_id)}
    if config.tasks == (ALL_TASKS,):
        chosen = list(by_id.values())
    elif not config.tasks:
        chosen = [task for name, task in by_id.items() if name not in LONG_TASKS]
    elif unknown := [name for name in config.tasks if name not in by_id]:
        raise ValueError(f"unknown task {unknown[0]!r}: choose from {', '.join(by_id)}")
    else:
        chosen = [by_id[name] for name in config.tasks]
    if not chosen:
        raise ValueError("there are no tasks")
    rng = random.Random(config.seed)
    order: list[Task] = []
    while len(order) < config.agents:  # a round of all tasks after the other, each in an order of its own
        rng.shuffle(chosen)
        order += chosen
    order = order[: config.agents]
    return tuple(
        AgentPlan(f"{number:03d}-{task.task_id}", task, rng.randrange(2**31)) for number, task in enumerate(order, 1)
    )


async def run_arms(config: RunConfig, plans: Sequence[AgentPlan], folder: RunFolder, progress: Progress) -> None:
    """Run every arm ``config.repeats`` times. What ends, and what is interrupted, leaves its records in ``folder``.

    Raises:
        EngineError: the engine cannot be started or reached.
        SandboxError: sandboxes cannot be set up.
    """
    arms = parse_arms(",".join(config.arms))
    async with BubblewrapSandboxes(packages=plans[0].task.packages) as sandboxes:
        for repeat in range(1, config.repeats + 1):
            shift = (repeat - 1) % len(arms)  # each arm goes first in turn: a machine that warms up favours nobody
            for arm in (*arms[shift:], *arms[:shift]):
                progress.preparing(arm.name, repeat)
                where = folder.arm(arm.name, repeat)
                where.create()
                async with open_setting(config, plans, sandboxes, folder.path / "engine.log") as setting:
                    figures = await _ArmRun(config, arm, where, setting, progress).run()
                progress.finished(arm.name, repeat, figures)


@dataclass(slots=True)
class _ArmRun:
    config: RunConfig
    arm: Arm
    folder: ArmFolder
    setting: Setting
    progress: Progress
    start: float = 0.0
    ended: dict[AgentPlan, AgentRecord] = field(default_factory=dict)

    async def run(self) -> ArmFigures:
        """Run the batch, then judge it."""
        own, engine, machine = time.process_time(), self.setting.engine.cpu_s(), _machine_s()
        reader = SGLang(self.setting.engine.url)
        async with Controller(reader, law=self.arm.law, tick=self.config.tick_s) as controller:
            self.start = time.monotonic()
            await self._batch(controller)
            closing: dict[str, Any] = {
                "harness_cpu_s": time.process_time() - own,
                "engine_cpu_s": _difference(self.setting.engine.cpu_s(), engine),
                "machine_busy": _busy_share(machine, _machine_s()),
                "capacity_tokens": await self.setting.engine.capacity_tokens(),
                "window_changes": [_change(change, self.start) for change in controller.history()],
            }
        self.progress.judging(self.arm.name)
        await self._judge()
        self.folder.write_closing(closing)
        return figures_of(self.folder.agents(), expected=self.config.agents, closing=closing)

    def _clock(self) -> float:
        return time.monotonic() - self.start

    async def _batch(self, controller: Controller) -> None:
        watching = asyncio.create_task(self._watch(controller))
        try:
            async with asyncio.TaskGroup() as group:
                for plan, sandbox in self.setting.sandboxes.items():
                    group.create_task(self._agent(plan, sandbox, controller))
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        if watching.done() and not watching.cancelled() and (error := watching.exception()):
            raise error

    async def _agent(self, plan: AgentPlan, sandbox: Sandbox | Exception, controller: Controller) -> None:
        recorder = Recorder(plan, self._clock, self.config.max_steps)
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
        self.ended[plan] = record
        self.folder.write_agent(record)

    async def _watch(self, controller: Controller) -> None:
        """Write a line a tick."""
        with self.folder.open_timeline() as stream:
            while True:
                point = _point(controller.stats(), at=self._clock(), finished=len(self.ended))
                append_point(stream, point)
                self.progress.sampled(self.arm.name, point)
                await asyncio.sleep(self.config.tick_s)

    async def _judge(self) -> None:
        """Run every ended agent's tests, a few at a time: a suite that waits for a core may time out."""
        free = asyncio.Semaphore(os.cpu_count() or 1)

        async def judge(plan: AgentPlan, record: AgentRecord) -> None:
            sandbox = self.setting.sandboxes[plan]
            if isinstance(sandbox, Exception):
                return
            async with free:
                try:
                    result = await sandbox.run(plan.task.test_command, timeout=TEST_TIMEOUT_S)
                except Exception as error:  # noqa: BLE001 - as above: recorded, and the run goes on
                    judged = replace(record, error=record.error or f"judging: {type(error).__name__}: {error}")
                else:
                    passed = result.exit_code == 0 and not result.timed_out
                    judged = replace(record, resolved=passed, test_exit_code=result.exit_code)
            self.folder.write_agent(judged)

        async with asyncio.TaskGroup() as group:
            for plan, record in self.ended.items():
                group.create_task(judge(plan, record))


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
