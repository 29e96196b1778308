"""Judges a batch as SWE-bench does: the submitted patch on a fresh copy of the sources, then the task's tests."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.mini_swe_agent.trajectories import patches
from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.records import AgentRecord
from benchmarks.swebench.sandbox import Sandboxes
from benchmarks.swebench.tasks import Task

__all__ = ["judge"]

TEST_TIMEOUT_S = 300.0
"""A suite takes seconds; a wrong fix may loop for ever."""


async def judge(
    records: Sequence[AgentRecord], plans: Sequence[AgentPlan], out: Path, sandboxes: Sandboxes
) -> list[AgentRecord]:
    """The records, with what the tests say. A few at a time: a suite that waits for a core may time out."""
    tasks = {plan.agent_id: plan.task for plan in plans}
    submitted = patches(out)
    free = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(record: AgentRecord) -> AgentRecord:
        async with free:
            try:
                code = await _test(tasks[record.agent_id], submitted.get(record.agent_id, ""), sandboxes)
            except Exception as error:  # noqa: BLE001 - recorded, and the others go on
                return replace(record, error=record.error or f"judging: {type(error).__name__}: {error}")
            return replace(record, resolved=code == 0, test_exit_code=code)

    return list(await asyncio.gather(*map(one, records)))


async def _test(task: Task, patch: str, sandboxes: Sandboxes) -> int | None:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "workspace"
        await asyncio.to_thread(_patched, task.workspace, patch, copy)
        sandbox = await sandboxes.open(copy)
    try:
        result = await sandbox.run(task.test_command, timeout=TEST_TIMEOUT_S)
    finally:
        await sandbox.close()
    return None if result.timed_out else result.exit_code


def _patched(workspace: Path, patch: str, copy: Path) -> None:
    shutil.copytree(workspace, copy, symlinks=True)
    if patch.strip():
        # The runner reads a command's output as text, which makes line ends of one kind.
        command = ["git", "apply", "--ignore-whitespace", "-"]
        subprocess.run(command, cwd=copy, input=patch, text=True, check=True, capture_output=True)
