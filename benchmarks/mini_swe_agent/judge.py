"""Judges a batch as SWE-bench does: the submitted patch on a fresh copy of the sources, then the task's tests."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.mini_swe_agent.trajectories import patches
from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.judge import judge_each, tested
from benchmarks.swebench.records import AgentRecord
from benchmarks.swebench.sandbox import Sandbox, Sandboxes

__all__ = ["judge"]


async def judge(
    records: Sequence[AgentRecord],
    plans: Sequence[AgentPlan],
    out: Path,
    sandboxes: Sandboxes,
    keep: Callable[[AgentRecord], None],
) -> None:
    """Have the tests say of each record whether its submission resolves the task.

    Args:
        records: of the agents that have ended.
        plans: the batch.
        out: the folder that the runner was told to write to.
        sandboxes: for the tests.
        keep: given each record with its verdict.
    """
    tasks = {plan.agent_id: plan.task for plan in plans}
    submitted = patches(out)

    async def judged(record: AgentRecord) -> AgentRecord:
        task = tasks[record.agent_id]
        sandbox = await _patched(task.workspace, submitted.get(record.agent_id, ""), sandboxes)
        return await tested(record, task.test_command, sandbox)

    await judge_each(records, judged, keep)


async def _patched(workspace: Path, patch: str, sandboxes: Sandboxes) -> Sandbox:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "workspace"
        await asyncio.to_thread(_copy, workspace, patch, copy)
        return await sandboxes.open(copy)


def _copy(workspace: Path, patch: str, copy: Path) -> None:
    shutil.copytree(workspace, copy, symlinks=True)
    if patch.strip():
        # The runner reads a command's output as text, which makes line ends of one kind.
        command = ["git", "apply", "--ignore-whitespace", "-"]
        subprocess.run(command, cwd=copy, input=patch, text=True, check=True, capture_output=True)
