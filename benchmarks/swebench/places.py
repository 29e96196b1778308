"""Opens the sandbox of a task, for its agent or for its tests: on a folder, or in its image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.swebench.sandbox import Limits, Sandbox, Sandboxes
from benchmarks.swebench.tasks import Task

__all__ = ["open_place"]

GIB = 2**30
OF_AGENTS = Limits(
    processes=1024, address_space_bytes=64 * GIB, memory_bytes=16 * GIB, growth_bytes=2 * GIB, open_files=1024
)
"""In an image. Numerical libraries reserve address space for each core of the machine; the memory cgroup holds."""
OF_TESTS = replace(OF_AGENTS, cpu_seconds=1800, kept_output_bytes=GIB // 16, read_output_bytes=GIB // 16)
"""For official scoring: suites take minutes in one process, and every line of their output may count."""


async def open_place(
    sandboxes: Sandboxes,
    task: Task,
    changes: Mapping[str, bytes | None] | None = None,
    *,
    tests: bool = False,
    workspace: Path | None = None,
) -> Sandbox:
    """The task's sandbox. An image is pulled when it is not here, and its repository copied out once.

    Args:
        sandboxes: of a kind that has images, if the task has one.
        task: whose.
        changes: made in its copy of the workspace.
        tests: it is for the official tests.
        workspace: in place of the task's.

    Raises:
        SandboxError: it cannot be opened.
    """
    if not task.image:
        return await sandboxes.open(workspace or task.workspace, changes)
    if workspace is None:
        workspace = await sandboxes.workspace_of(task.image, task.official.setup if task.official else "")
    return await sandboxes.open(workspace, changes, image=task.image, limits=OF_TESTS if tests else OF_AGENTS)
