"""The tasks of the benchmark: a bug, the place to fix it in, and the command that decides whether it is fixed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.swebench.edits import Edit
from benchmarks.swebench.fetch import Fetcher
from benchmarks.swebench.prepare import Sources, prepare_packages, prepare_workspace, solution_of
from benchmarks.swebench.recordings import Recording, RecordingError, read_recordings
from benchmarks.swebench.specs import SPECS, read_packages, read_specs

__all__ = ["CACHE", "Edit", "Task", "load_recorded", "load_tasks"]

CACHE = Path(".cache/swebench")
"""Where archives and workspaces are kept between runs, from the checkout's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One bug to fix."""

    task_id: str
    package: str
    """Its name on PyPI."""
    problem: str
    """What the agent is told: an issue, as its reporter would write it."""
    test_command: str
    """Run in the workspace; exit status 0 means resolved. Empty where nobody can tell."""
    workspace: Path
    """Template folder: copied for each agent, never run in."""
    packages: Path
    """What tests import beside workspace and standard library (pytest): the same folder for all tasks."""
    solution: tuple[Edit, ...]
    """The fix of the release. For the scripted solver only; no agent sees it."""
    recording: Recording | None = None
    """What the agent did when it was recorded: it is played again, and nothing runs."""

    @classmethod
    def recorded(cls, recording: Recording) -> Task:
        """A recorded agent as a task."""
        name = re.sub(r"[^\w.-]+", "-", recording.name)
        nowhere = Path()
        return cls(
            task_id=name,
            package="",
            problem=recording.problem,
            test_command="",
            workspace=nowhere,
            packages=nowhere,
            solution=(),
            recording=recording,
        )


def load_recorded(path: Path) -> tuple[Task, ...]:
    """Every recorded agent of a file or folder as a task.

    Raises:
        RecordingError: it cannot be read, or two have the same name.
    """
    tasks = [Task.recorded(recording) for recording in read_recordings(path)]
    names = [task.task_id for task in tasks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RecordingError(f"{path}: two recordings are called {twice[0]!r}")
    return tuple(tasks)


def load_tasks(cache: Path = CACHE, *, specs: Path = SPECS) -> tuple[Task, ...]:
    """All tasks, by id, ready to be copied. The first call fetches 7 MB; later ones need no network.

    Args:
        cache: folder for archives and workspaces; made when missing.
        specs: folder of task specs.

    Raises:
        FetchError: an archive is neither cached nor to be had; the message names the project.
        SpecError: a spec file is malformed.
        EditError: a spec's sources hold no usable fix.
    """
    cache = cache.resolve()
    fetcher = Fetcher(cache / "archives")
    packages = prepare_packages(read_packages(specs), cache, fetcher)
    tasks = []
    for spec in read_specs(specs):
        sources = Sources(spec, fetcher)
        tasks.append(
            Task(
                task_id=spec.task_id,
                package=spec.project,
                problem=spec.problem,
                test_command=spec.test_command,
                workspace=prepare_workspace(sources, cache),
                packages=packages,
                solution=solution_of(sources),
            )
        )
    return tuple(tasks)
