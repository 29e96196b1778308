"""The batch as mini-swe-agent's runner reads it: a local data set in SWE-bench's form, and what its model will say."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.solver import LENGTHS, scripted_replies
from benchmarks.swebench.tasks import Task

__all__ = ["marker", "script_of", "write_dataset"]

_GIT = ("git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost", "-c", "core.autocrlf=false")
_SUBMISSION = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""Printed first by a command that succeeds, it makes mini-swe-agent take the rest of the output as the patch."""


def write_dataset(plans: Sequence[AgentPlan], folder: Path, repositories: Path) -> None:
    """Write ``test.jsonl`` and the repositories it names.

    Args:
        plans: the batch.
        folder: made here for the one file: ``datasets`` takes any file below for data.
        repositories: made here.

    Raises:
        subprocess.CalledProcessError: git does not run.
    """
    folder.mkdir()
    repositories.mkdir()
    paths = {task: _repository(task, repositories / task.task_id) for task in {plan.task for plan in plans}}
    rows = [
        {
            "instance_id": plan.agent_id,
            "problem_statement": f"{plan.task.problem.strip()}\n\n{marker(plan)}\n",
            "repo_dir": str(paths[plan.task]),
        }
        for plan in plans
    ]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def marker(plan: AgentPlan) -> str:
    """The line of its problem statement that tells an instance from others of the same task: requests name nobody."""
    return f"(Reported as {plan.agent_id}.)"


def script_of(plan: AgentPlan) -> list[dict[str, Any]]:
    """The replies of ``benchmarks/swebench``, with two steps at the end in place of one: make a patch, submit it."""
    *replies, last = scripted_replies(plan.task, seed=plan.seed, config=LENGTHS["short"])
    paths = " ".join(sorted({shlex.quote(edit.path) for edit in plan.task.solution}))
    make = f"git add -N -- {paths}; git diff -- {paths} > patch.txt; wc patch.txt"
    content = "Now I make the patch."
    making = {"content": content, "tool_calls": [_bash(make)], "output_tokens": (len(content) + len(make)) // 4}
    return [*replies, making, {**last, "tool_calls": [_bash(f"echo {_SUBMISSION} && cat patch.txt")]}]


def _bash(command: str) -> Mapping[str, Any]:
    return {"name": "bash", "arguments": {"command": command}}


def _repository(task: Task, path: Path) -> Path:
    """The task's files in a repository with one commit, as patches are made against."""
    shutil.copytree(task.workspace, path, symlinks=True)
    for arguments in (("init", "-q"), ("add", "-A", "-f"), ("commit", "-q", "--no-verify", "-m", task.task_id)):
        subprocess.run([*_GIT, *arguments], cwd=path, check=True, capture_output=True)
    return path
