"""``python -m benchmarks.swebench.prove [TASK ...]``: each task's tests fail before the fix and pass after it.

For each task three workspaces are tested in the sandbox that agents get: as the agent finds it (must fail), with the
fixed release's sources (must pass), and as the agent finds it with the reference solution applied (must pass). Exit
status 1 when one of them is otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.swebench.archives import write_files
from benchmarks.swebench.edits import apply_edits
from benchmarks.swebench.fetch import Fetcher, FetchError
from benchmarks.swebench.prepare import Sources, prepare_packages, solution_of
from benchmarks.swebench.sandbox import BubblewrapSandboxes, CommandResult, SandboxError, Sandboxes
from benchmarks.swebench.specs import SPECS, SpecError, TaskSpec, read_packages, read_specs
from benchmarks.swebench.tasks import CACHE

__all__ = ["main", "prove"]

TIMEOUT_S = 60.0
"""Twenty times the longest."""


async def prove(specs: Sequence[TaskSpec], sandboxes: Sandboxes, fetcher: Fetcher) -> bool:
    """Print a line per task; whether all are proven."""
    good = True
    for spec in specs:
        sources = Sources(spec, fetcher)
        found = sources.workspace()
        before = await _test(found, spec, sandboxes)
        after = await _test(sources.fixed_workspace(), spec, sandboxes)
        edits = solution_of(sources)
        texts = {edit.path: found[edit.path].decode() for edit in edits if edit.path in found}
        solved = {path: text.encode() for path, text in apply_edits(texts, edits).items()}
        solution = await _test({**found, **solved}, spec, sandboxes)
        # 1 is "tests failed" for pytest and unittest; 2 and more mean that they did not even run.
        proven = before.exit_code == 1 and after.exit_code == 0 and solution.exit_code == 0
        good &= proven
        print(  # noqa: T201 - what the command is for
            f"{'proven' if proven else 'WRONG '} {spec.task_id:22} {len(edits):2} edits, "
            f"{sum(map(len, found.values())) // 1024:5} KiB in {len(found):3} files | "
            f"{_line(before)} | {_line(after)} | {_line(solution)}"
        )
    return good


async def _test(files: Mapping[str, bytes], spec: TaskSpec, sandboxes: Sandboxes) -> CommandResult:
    with tempfile.TemporaryDirectory() as folder:
        write_files(files, Path(folder))
        sandbox = await sandboxes.open(Path(folder))
    try:
        return await sandbox.run(spec.test_command, timeout=TIMEOUT_S)
    finally:
        await sandbox.close()


def _line(result: CommandResult) -> str:
    lines = result.output.strip().splitlines() or ["no output"]
    return f"exit {result.exit_code} ({lines[-1].strip(' =')}) {result.seconds:.2f} s"


async def _prove(chosen: Sequence[str]) -> bool:
    specs = {spec.task_id: spec for spec in read_specs(SPECS)}
    if unknown := sorted(set(chosen) - set(specs)):
        raise SpecError(f"no such task: {', '.join(unknown)}")
    cache = CACHE.resolve()
    fetcher = Fetcher(cache / "archives")
    packages = prepare_packages(read_packages(SPECS), cache, fetcher)
    async with BubblewrapSandboxes(packages=packages) as sandboxes:
        return await prove([specs[name] for name in chosen or specs], sandboxes, fetcher)


def main() -> int:
    """Prove the tasks named on the command line, or all."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        return 0 if asyncio.run(_prove(sys.argv[1:])) else 1
    except (FetchError, SandboxError, SpecError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1


if __name__ == "__main__":
    sys.exit(main())
