"""Runs the batch through each arm: the same agents on the same tasks, with an engine that has seen nothing before.

One arm, in order: fresh engine, fresh workspaces and sandboxes, one warm-up agent whose figures are thrown away,
flush; then the clock starts and all agents at once; when the last has ended the clock stops, and only then the tasks'
tests run, so that judging costs no arm anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from benchmarks.engines.engine import Engine
from benchmarks.engines.kinds import Needs
from benchmarks.engines.servers import Servers
from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.arm_run import ArmRun, Progress
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.engine import open_engine
from benchmarks.swebench.judge import judge
from benchmarks.swebench.records import ArmFolder, RunFolder
from benchmarks.swebench.sandbox import BUBBLEWRAP, BubblewrapSandboxes, Sandboxes, sandboxes_of
from benchmarks.swebench.setting import open_setting
from benchmarks.swebench.summary import figures_of

__all__ = ["run_arms"]


async def run_arms(
    config: RunConfig,
    plans: Sequence[AgentPlan],
    folder: RunFolder,
    progress: Progress,
    *,
    python: Path | None = None,
) -> None:
    """Run every arm ``config.repeats`` times. What ends, and what is interrupted, leaves its records in ``folder``.

    What is there already is not run again: an arm that got to its end is left alone, and one that did not goes on with
    the agents that have not ended.

    Args:
        config: of the run.
        plans: the batch.
        folder: for the records.
        progress: told how it goes.
        python: interpreter of the environment that has the server to launch.

    Raises:
        EngineError: the engine cannot be started or reached, or has ended.
        SandboxError: sandboxes cannot be set up.
        RecordError: what happens cannot be recorded.
    """
    arms = parse_arms(",".join(config.arms))
    log = folder.path / "engine.log"

    def start(needs: Needs) -> AbstractAsyncContextManager[Engine]:
        return open_engine(config, log, needs, python=python)

    async with _sandboxes(config, plans) as sandboxes, Servers(start) as servers:
        for repeat in range(1, config.repeats + 1):
            shift = (repeat - 1) % len(arms)  # each arm goes first in turn: a machine that warms up favours nobody
            for arm in (*arms[shift:], *arms[:shift]):
                where = folder.arm(arm.name, repeat)
                closing = where.closing()
                if closing is not None and closing.get("judged", True):
                    continue
                progress.preparing(arm.name, repeat)
                if closing is None:
                    left = _left_to_run(where, plans)
                    closing = {"resumed": len(left) < len(plans)}
                    if left:
                        if config.embedded:
                            await servers.close()  # a new one takes a second, and has nothing of the arm before
                        engine = await servers.get(arm.needs)
                        async with open_setting(config, engine, left, sandboxes, arm.proxy) as setting:
                            closing |= await ArmRun(config, arm, where, setting, progress, arm.requests()).run()
                    where.write_closing({**closing, "judged": False})
                if sandboxes is not None:
                    progress.judging(arm.name)
                    await judge(where, plans, sandboxes)
                where.write_closing({**closing, "judged": True})
                figures = figures_of(where.agents(), expected=config.agents, closing=closing)
                progress.finished(arm.name, repeat, figures)


def _sandboxes(config: RunConfig, plans: Sequence[AgentPlan]) -> AbstractAsyncContextManager[Sandboxes | None]:
    """None where all agents are recorded: then nothing runs."""
    running = [plan.task for plan in plans if plan.task.recording is None]
    if not running:
        return contextlib.nullcontext()
    packages = None if running[0].image else running[0].packages
    if config.sandbox == BUBBLEWRAP:
        return BubblewrapSandboxes(packages=packages)
    return sandboxes_of(config.sandbox, packages=packages)


def _left_to_run(where: ArmFolder, plans: Sequence[AgentPlan]) -> Sequence[AgentPlan]:
    """Who has not ended in what is recorded of an arm. Where nobody has, it begins anew, and is as good as any."""
    ended = {record.agent_id for record in where.agents() if record.outcome != "cancelled"}
    if not ended:
        where.remove()
        where.create()
    return [plan for plan in plans if plan.agent_id not in ended]
