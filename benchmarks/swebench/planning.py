"""What a run consists of: its tasks, loaded and checked, and which agent does which."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.config import ALL_TASKS, LONG_TASKS, RunConfig
from benchmarks.swebench.edits import hunks_of
from benchmarks.swebench.sandbox import BUBBLEWRAP, check_available, check_kind
from benchmarks.swebench.tasks import Task, load_recorded, load_rows, load_tasks, split_source

__all__ = ["load_plans", "plan_agents"]


def load_plans(console: Console, config: RunConfig, cache: Path) -> tuple[AgentPlan, ...]:
    """Load what a run works on, once it is sure that there is a sandbox for it.

    Raises:
        ValueError: the tasks, rows or recordings do not fit the configuration, or cannot be read or scored.
        SandboxUnavailable: this machine has no such sandbox.
        FetchError: an archive is neither cached nor to be had.
        EditError: a built-in task's sources hold no usable fix.
        OSError: the cache cannot be made.
    """
    if config.recordings:
        recorded = load_recorded(Path(config.recordings))
        if len(recorded) < config.agents:
            raise ValueError(
                f"agents must be at most {len(recorded)}, as many as {config.recordings} has, not {config.agents}: "
                "the same one twice would find its twin's prompts cached"
            )
        return plan_agents(config, recorded)
    source, names = split_source(config.tasks)
    if source is not None and config.sandbox == BUBBLEWRAP:
        raise ValueError(
            f"the tasks of {source} run in containers of their own images: add --sandbox docker or --sandbox podman"
        )
    if config.sandbox == BUBBLEWRAP:
        check_available()
    else:
        check_kind(config.sandbox)
    if source is not None:
        with console.status(f"Reading {source}"):
            return _with_work(config, plan_agents(config, load_rows(source, names)))
    with console.status("Preparing the tasks (the first time some 7 MB are fetched)"):
        return plan_agents(config, load_tasks(cache))


def _with_work(config: RunConfig, plans: tuple[AgentPlan, ...]) -> tuple[AgentPlan, ...]:
    """The plans, if there is something for scripts to do. Raises ValueError."""
    lacking = [
        plan.task.task_id for plan in plans if config.replies == "scripted" and not any(hunks_of(plan.task.patch))
    ]
    if lacking:
        raise ValueError(f"{lacking[0]} has no patch for a scripted agent to make: let the model work, --replies model")
    return plans


def plan_agents(config: RunConfig, tasks: Sequence[Task]) -> tuple[AgentPlan, ...]:
    """Who does what: decided by the seed alone, with every task equally often (give or take one).

    Raises:
        ValueError: no tasks, or ``config.tasks`` names one that does not exist.
    """
    by_id = {task.task_id: task for task in sorted(tasks, key=lambda task: task.task_id)}
    source, names = split_source(config.tasks)
    if names == (ALL_TASKS,) or (source and not names):
        chosen = list(by_id.values())
    elif not names:
        chosen = [task for name, task in by_id.items() if name not in LONG_TASKS]
    elif unknown := [name for name in names if name not in by_id]:
        more = "" if source else "; or name a file or a data set of rows"
        raise ValueError(f"unknown task {unknown[0]!r}: choose from {', '.join(by_id)}{more}")
    else:
        chosen = [by_id[name] for name in names]
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
