"""SWE-smith's rows: how their bug is made in their image, and their scoring by the swesmith package.

An image holds the repository without a bug, and the row's patch makes it. SWE-smith itself takes it from a branch of a
mirror on GitHub, with two commits: the bug, and the removal of the files whose tests show it. Both are made here in the
image's repository, so that nothing is fetched. The tests come back before they run.
"""

# mypy: disable-error-code="import-not-found"
# The package is the user's to install.

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.swebench.edits import hunks_of, whole_lines
from benchmarks.swebench.official import END, START, Official, ScoringError, plain
from benchmarks.swebench.rows import Instance

__all__ = ["scoring_of_smith"]

WANTED = "'swesmith[validate]' 'swebench>=4,<5'"
"""As pip takes it: swesmith 0.0.9 says nothing of swebench's version, and cannot import 5."""
WHO = "-c user.name=swesmith -c user.email=swesmith@localhost"
END_OF_BUG = "END_OF_THE_BUG"


def scoring_of_smith(row: Instance) -> Official:
    """How the installed swesmith package scores a row, and what makes its bug; asks no network.

    Raises:
        ScoringError: it is not installed, or does not know how this row is tested.
    """
    if not any(hunks_of(row.patch)):
        raise ScoringError(f"{row.instance_id} has no patch that makes its bug")
    try:
        version = importlib.metadata.version("swesmith")
        with _silent():
            from swesmith.harness.grading import get_eval_report
            from swesmith.profiles import registry
    except ImportError as error:  # a missing distribution is one as well
        raise ScoringError(
            f"scoring {row.instance_id} needs the swesmith package ({error}): pip install {WANTED}"
        ) from None
    instance = plain(row)
    try:
        profile = registry.get_from_inst(instance)
    except KeyError:
        raise ScoringError(f"swesmith {version} does not know {row.instance_id}: it has no {row.repo}") from None
    if ".go" in profile.exts:
        raise ScoringError(f"{row.instance_id} is Go's: swesmith would clone its repository to find its tests' files")
    fail, passing = profile.get_test_files(instance)
    command, _ = profile.get_test_cmd(instance)

    def report(said: Mapping[str, Any], log: str) -> bool:
        return bool(get_eval_report(dict(said), instance, log)["resolved"])

    return Official(
        row.instance_id,
        _script(command, sorted({*fail, *passing})),
        report,
        setup=_setup(row.patch, fail),
        timeout_s=float(profile.timeout),
    )


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Imported, it asks for a token of GitHub's, which nothing here needs, and has every library's log printed."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            root.setLevel(level)
            root.handlers[:] = handlers


def _setup(patch: str, hidden: Iterable[str]) -> str:
    """Makes the bug, and takes away the files with the tests that show it."""
    lines = [
        "set -euo pipefail",
        "cd /testbed",
        "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=/testbed",
        f"git apply -v - <<'{END_OF_BUG}'\n{whole_lines(patch)}{END_OF_BUG}",
        f"git add -A -- {shlex.join(sorted({path for path, _ in hunks_of(patch)}))}",
        f"git {WHO} commit -q --no-verify -m 'Bug Patch'",
    ]
    if files := shlex.join(sorted(hidden)):
        lines.append(f"git rm -q -f --ignore-unmatch -- {files}")
    lines.append(f"git {WHO} commit -q --no-verify --allow-empty -m 'Remove F2P Tests'")
    return "\n".join(lines) + "\n"


def _script(command: str, tests: Iterable[str]) -> str:
    """In the form that the package reads: all files with tests as they were, then the row's command."""
    lines = [
        "#!/bin/bash",
        "set -uxo pipefail",
        "cd /testbed",
        "git config --global --add safe.directory /testbed",
        # One at a time: git would take none of them if one is not there.
        *(f"git checkout HEAD~1 -- {shlex.quote(path)}" for path in tests),
        f": '{START}'",
        command,
        f": '{END}'",
    ]
    return "\n".join(lines) + "\n"
