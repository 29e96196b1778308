"""Builds what tasks run on: workspaces (buggy sources, fixed release's tests) and the packages that tests import.

All in the cache, made once: a folder carries a digest of what it was made of, and appears whole or not at all. No
script of an archive is run.
"""

from __future__ import annotations

import compileall
import fnmatch
import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from benchmarks.swebench.archives import below, read_sdist, read_wheel, write_files
from benchmarks.swebench.edits import Edit, EditError, edits_between
from benchmarks.swebench.fetch import Archive, Fetcher
from benchmarks.swebench.specs import TaskSpec

__all__ = ["Sources", "prepare_packages", "prepare_workspace", "solution_of"]

logger = logging.getLogger(__name__)


class Sources:
    """The two source archives of a task, read from the cache or fetched into it.

    Raises:
        FetchError: neither cached nor to be had.
    """

    def __init__(self, spec: TaskSpec, fetcher: Fetcher) -> None:
        self.spec = spec
        self.buggy = read_sdist(fetcher.fetch(spec.buggy))
        self.fixed = read_sdist(fetcher.fetch(spec.fixed))

    def workspace(self) -> dict[str, bytes]:
        """The files an agent starts with."""
        return self._with_tests(self.buggy)

    def fixed_workspace(self) -> dict[str, bytes]:
        """The same with the fixed release's sources, for the proof."""
        return self._with_tests(self.fixed)

    def _with_tests(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        tests = below(files, self.spec.tests)
        together = {name: data for name, data in files.items() if name not in tests} | below(
            self.fixed, self.spec.tests
        )
        return {name: data for name, data in together.items() if not _matches(name, self.spec.leave_out)}


def prepare_workspace(sources: Sources, cache: Path) -> Path:
    """The task's template folder, made when it is not there."""
    spec = sources.spec
    digest = _digest(spec.buggy.sha256, spec.fixed.sha256, *spec.tests, "-", *spec.leave_out)
    return _once(cache / "workspaces" / f"{spec.task_id}-{digest}", lambda at: write_files(sources.workspace(), at))


def prepare_packages(wheels: Iterable[Archive], cache: Path, fetcher: Fetcher) -> Path:
    """A folder with the wheels' contents and their bytecode, for PYTHONPATH in a sandbox.

    Raises:
        FetchError: a wheel is neither cached nor to be had.
    """
    wheels = tuple(wheels)

    def fill(at: Path) -> None:
        for wheel in wheels:
            write_files(read_wheel(fetcher.fetch(wheel)), at)
        # Without bytecode each pytest of each agent would compile pytest anew: 1 s of CPU a time.
        compileall.compile_dir(str(at), quiet=2)

    return _once(cache / f"packages-{_digest(*(wheel.sha256 for wheel in wheels))}", fill)


def solution_of(sources: Sources) -> tuple[Edit, ...]:
    """The fix: what differs between the two releases in the spec's ``sources``.

    Raises:
        EditError: nothing differs, a file went away, or a file is no UTF-8 text.
    """
    spec = sources.spec
    before, after = below(sources.buggy, spec.sources), below(sources.fixed, spec.sources)
    if gone := sorted(set(before) - set(after)):
        raise EditError(f"{spec.task_id}: the fix removes files, which edits cannot: {', '.join(gone)}")
    edits: list[Edit] = []
    for path in sorted(after):
        if before.get(path) != after[path]:
            old = before.get(path)
            edits += edits_between(path, None if old is None else _text(path, old), _text(path, after[path]))
    if not edits:
        raise EditError(f"{spec.task_id}: the two releases do not differ in {', '.join(spec.sources)}")
    return tuple(edits)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EditError(f"{path} is no UTF-8 text: {error}") from error


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _once(target: Path, fill: Callable[[Path], None]) -> Path:
    """Fill a folder beside ``target`` and rename it, unless ``target`` is there."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    logger.info("preparing %s", target.name)
    making = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fill(making)
        making.chmod(0o755)
        making.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was quicker, with the same content
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return target
