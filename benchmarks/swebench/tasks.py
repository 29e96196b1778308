"""The tasks of the benchmark: a bug, the place to fix it in, and the command that decides whether it is fixed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.swebench.config import ALL_TASKS
from benchmarks.swebench.edits import Edit
from benchmarks.swebench.fetch import Fetcher
from benchmarks.swebench.official import Official, scoring_of
from benchmarks.swebench.prepare import Sources, prepare_packages, prepare_workspace, solution_of
from benchmarks.swebench.recordings import Recording, RecordingError, read_recordings
from benchmarks.swebench.rows import RowError, is_source, read_rows
from benchmarks.swebench.smith import scoring_of_smith
from benchmarks.swebench.specs import SPECS, read_packages, read_specs

__all__ = ["CACHE", "Edit", "Task", "load_recorded", "load_rows", "load_tasks", "split_source"]

CACHE = Path(".cache/swebench")
"""Where archives and workspaces are kept between runs, from the checkout's root."""
NOWHERE = Path()
"""Of a task that has no folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One bug to fix."""

    task_id: str
    package: str
    """Its name on PyPI, or its repository's."""
    problem: str
    """What the agent is told: an issue, as its reporter would write it."""
    test_command: str
    """Run in the workspace; exit status 0 means resolved, unless ``official`` decides. Empty where nobody can tell."""
    workspace: Path
    """Template folder: copied for each agent, never run in."""
    packages: Path
    """What tests import beside workspace and standard library (pytest): the same folder for all tasks without image."""
    solution: tuple[Edit, ...]
    """The fix of the release. For the scripted solver only; no agent sees it."""
    patch: str = ""
    """The same as a unified diff, where there is no folder to make edits from."""
    patch_is_bug: bool = False
    """``patch`` has made the bug: to undo it is the fix."""
    image: str = ""
    """Container image that commands run in, with the workspace at its ``/testbed``; empty for the host's programs."""
    official: Official | None = None
    """Decides in place of ``test_command``: the benchmark's own scoring."""
    recording: Recording | None = None
    """What the agent did when it was recorded: it is played again, and nothing runs."""

    @classmethod
    def recorded(cls, recording: Recording) -> Task:
        """A recorded agent as a task."""
        name = re.sub(r"[^\w.-]+", "-", recording.name)
        return cls(
            task_id=name,
            package="",
            problem=recording.problem,
            test_command="",
            workspace=NOWHERE,
            packages=NOWHERE,
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


def split_source(names: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """What a run's tasks name: a source of rows (a file or a data set, named first) if any, and ids."""
    return (names[0], names[1:]) if names and is_source(names[0]) else (None, names)


def load_rows(source: str, chosen: Sequence[str] = ()) -> tuple[Task, ...]:
    """Rows of SWE-bench's form as tasks: their commands run in their images, and the swebench package scores them.

    Args:
        source: as :func:`~benchmarks.swebench.rows.read_rows` takes it.
        chosen: ids of those to load; empty or ``("all",)`` for all.

    Raises:
        RowError: it cannot be read, has no such row, or one that cannot be run.
        ScoringError: the swebench (SWE-smith's: swesmith) package is missing, or cannot score one of them.
    """
    rows = {row.instance_id: row for row in read_rows(source)}
    if tuple(chosen) in ((), (ALL_TASKS,)):
        rows = {name: row for name, row in rows.items() if row.problem_statement}
        if not rows:
            raise RowError(f"{source}: no row has a problem_statement for an agent")
    else:
        if unknown := [name for name in chosen if name not in rows]:
            raise RowError(f"{source} has no task {unknown[0]!r}: it has {', '.join(list(rows)[:10])} ...")
        rows = {name: rows[name] for name in chosen}
    tasks = []
    for row in rows.values():
        if not row.problem_statement:
            raise RowError(f"{row.instance_id} has no problem_statement for an agent: only some rows of SWE-smith have")
        official = scoring_of_smith(row) if row.of_smith else scoring_of(row)
        tasks.append(
            Task(
                task_id=row.instance_id,
                package=row.repo,
                problem=row.problem_statement.strip() + "\n",
                test_command=official.test_command,
                workspace=NOWHERE,
                packages=NOWHERE,
                solution=(),
                patch=row.patch,
                patch_is_bug=row.of_smith,
                image=row.image,
                official=official,
            )
        )
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
