"""Judging an arm: the task's own tests, on a fresh copy of its sources with what the agent left.

Like SWE-bench itself: by the files an agent has changed, not by the place it worked in. So an arm can be judged after
the run that played it was killed, and nothing that an agent left running or hidden has a say. Rows of SWE-bench are
scored by its own package, on what its own script prints.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.official import Official
from benchmarks.swebench.places import open_place
from benchmarks.swebench.records import AgentRecord, ArmFolder
from benchmarks.swebench.sandbox import Sandbox, Sandboxes

__all__ = ["MOST_LEFT", "judge", "judge_each", "tested"]

TEST_TIMEOUT_S = 300.0
"""A suite takes seconds; a wrong fix may loop for ever."""
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
    unjudged = [
        record
        for record in folder.agents()
        if record.resolved is None and record.outcome != "cancelled" and record.agent_id in by_id
    ]
    await judge_each(
        unjudged, lambda record: _judged(record, by_id[record.agent_id], folder, sandboxes), folder.write_agent
    )


async def judge_each(
    records: Iterable[AgentRecord],
    judged: Callable[[AgentRecord], Awaitable[AgentRecord]],
    keep: Callable[[AgentRecord], None],
) -> None:
    """Have each record judged, and kept as soon as it is. A few at a time: a suite that waits for a core may time out.

    An agent that cannot be judged is kept with the reason, and the others go on.

    Raises:
        RecordError: a verdict cannot be written.
    """
    free = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(record: AgentRecord) -> None:
        async with free:
            try:
                verdict = await judged(record)
            except Exception as error:  # noqa: BLE001 - recorded, and the others go on
                verdict = replace(record, error=record.error or f"judging: {type(error).__name__}: {error}")
        keep(verdict)

    try:
        async with asyncio.TaskGroup() as group:
            for record in records:
                group.create_task(one(record))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed


async def tested(record: AgentRecord, command: str, sandbox: Sandbox) -> AgentRecord:
    """The record with what a task's own tests say of the sandbox's workspace; closes it.

    Raises:
        SandboxError: they cannot be run.
    """
    try:
        result = await sandbox.run(command, timeout=TEST_TIMEOUT_S)
    finally:
        await sandbox.close()
    passed = result.exit_code == 0 and not result.timed_out
    return replace(record, resolved=passed, test_exit_code=result.exit_code)


async def _judged(record: AgentRecord, plan: AgentPlan, folder: ArmFolder, sandboxes: Sandboxes) -> AgentRecord:
    left = await asyncio.to_thread(folder.left, record.agent_id)
    if plan.task.official is not None and left is not None:
        return await _scored(record, plan, plan.task.official, left, folder, sandboxes)
    if left is None or not plan.task.test_command:
        return record
    return await tested(record, plan.task.test_command, await open_place(sandboxes, plan.task, left))


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
        result = await sandbox.run(f"bash {SCRIPT}", timeout=official.timeout_s)
    finally:
        await sandbox.close()
    await asyncio.to_thread(folder.write_log, record.agent_id, result.output)
    passed = not result.timed_out and await asyncio.to_thread(official.resolved, result.output)
    return replace(record, resolved=passed, test_exit_code=result.exit_code)
