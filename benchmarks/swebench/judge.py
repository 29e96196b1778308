"""Judging an arm: the task's own tests, on a fresh copy of its sources with what the agent left.

Like SWE-bench itself: by the files an agent has changed, not by the place it worked in. So an arm can be judged after
the run that played it was killed, and nothing that an agent left running or hidden has a say. Rows of SWE-bench are
scored by its own package, on what its own script prints.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.official import Official
from benchmarks.swebench.places import open_place
from benchmarks.swebench.records import AgentRecord, ArmFolder
from benchmarks.swebench.sandbox import Sandboxes

__all__ = ["MOST_LEFT", "judge"]

TEST_TIMEOUT_S = 300.0
"""A suite takes seconds; a wrong fix may loop for ever."""
OFFICIAL_TIMEOUT_S = 1800.0
"""As the swebench package has it by default."""
SCRIPT = ".git/concur-eval.sh"
"""Where the official script lies in the workspace: it may be too long for an argument, and no test looks there."""
MOST_LEFT = 16 * 2**20
"""Bytes that an agent may leave; a fix has some thousands."""


async def judge(folder: ArmFolder, plans: Sequence[AgentPlan], sandboxes: Sandboxes) -> None:
    """Run the tests of every agent that has ended and was not judged. A few at a time: they wait for cores.

    Raises:
        RecordError: a verdict cannot be written.
    """
    by_id = {plan.agent_id: plan for plan in plans}
    free = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(record: AgentRecord) -> None:
        async with free:
            try:
                judged = await _judged(record, by_id[record.agent_id], folder, sandboxes)
            except Exception as error:  # noqa: BLE001 - recorded, and the others go on
                judged = replace(record, error=record.error or f"judging: {type(error).__name__}: {error}")
        folder.write_agent(judged)

    unjudged = [
        record
        for record in folder.agents()
        if record.resolved is None and record.outcome != "cancelled" and record.agent_id in by_id
    ]
    try:
        async with asyncio.TaskGroup() as group:
            for record in unjudged:
                group.create_task(one(record))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed


async def _judged(record: AgentRecord, plan: AgentPlan, folder: ArmFolder, sandboxes: Sandboxes) -> AgentRecord:
    left = await asyncio.to_thread(folder.left, record.agent_id)
    if plan.task.official is not None and left is not None:
        return await _scored(record, plan, plan.task.official, left, folder, sandboxes)
    if left is None or not plan.task.test_command:
        return record
    sandbox = await open_place(sandboxes, plan.task, left)
    try:
        result = await sandbox.run(plan.task.test_command, timeout=TEST_TIMEOUT_S)
    finally:
        await sandbox.close()
    passed = result.exit_code == 0 and not result.timed_out
    return replace(record, resolved=passed, test_exit_code=result.exit_code)


async def _scored(
    record: AgentRecord,
    plan: AgentPlan,
    official: Official,
    left: Mapping[str, bytes | None],
    folder: ArmFolder,
    sandboxes: Sandboxes,
) -> AgentRecord:
    if not left:  # as officially: nothing was submitted
        return replace(record, resolved=False)
    changes = {**left, SCRIPT: official.script.encode()}
    sandbox = await open_place(sandboxes, plan.task, changes, tests=True)
    try:
        result = await sandbox.run(f"bash {SCRIPT}", timeout=OFFICIAL_TIMEOUT_S)
    finally:
        await sandbox.close()
    await asyncio.to_thread(folder.write_log, record.agent_id, result.output)
    passed = not result.timed_out and await asyncio.to_thread(official.resolved, result.output)
    return replace(record, resolved=passed, test_exit_code=result.exit_code)
