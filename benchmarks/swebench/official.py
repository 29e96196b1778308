"""The scoring of SWE-bench itself: the swebench package's script for a task's tests, and its verdict on their output.

What it is asked for is only that: containers, patches and logs are ours. So a task is judged like the built-in ones, on
a fresh copy of its sources with the files that the agent changed, and neither Docker's API nor root is needed.

Which version scores a row: from 5 on, rows say themselves how they are tested (``eval_script``); version 4 knows the
repositories of SWE-bench. Rows of neither, such as SWE-Gym's, whose tests have pytest's names, are run by pytest and
judged by version 5.
"""

# mypy: disable-error-code="import-not-found"
# The package is the user's to install, and no two of its versions have the same modules.

from __future__ import annotations

import importlib.metadata
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.swebench.edits import whole_lines
from benchmarks.swebench.rows import Instance

__all__ = ["Official", "ScoringError", "plain", "scoring_of"]

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
EXIT_CODE = "SWEBENCH_TEST_EXIT_CODE"
"""Variable in which version 5 keeps the exit code of the tests."""
END_OF_PATCH = "END_OF_THE_TEST_PATCH"
TIMEOUT_S = 1800.0
"""As the swebench package has it by default."""
KNOWN_FILE = re.compile(r"^--- a/(.*)$", re.MULTILINE)
"""In a patch: a file that was there before it."""


class ScoringError(ValueError):
    """The swebench package is not there, or cannot score a row. The message says what to install."""


@dataclass(frozen=True, slots=True)
class Official:
    """How one row is scored."""

    instance_id: str
    script: str
    """Runs the tests in ``/testbed``, where the agent's changes are; what it prints is for :meth:`resolved`."""
    _verdict: Callable[[Mapping[str, Any], str], bool] = field(compare=False, repr=False)
    """The package's, on a prediction and the path of a log."""
    setup: str = ""
    """Makes the bug in the image's repository, once; empty where the image has it."""
    timeout_s: float = TIMEOUT_S
    """Wall seconds until the tests are killed, and nothing is resolved."""

    @property
    def test_command(self) -> str:
        """What the script runs between its marks: the row's test command."""
        lines = self.script.splitlines()
        marks = [number for number, line in enumerate(lines) if START in line or END in line]
        inside = lines[marks[0] + 1 : marks[1]] if len(marks) > 1 else []
        return "; ".join(line.strip() for line in inside if line.strip() and not line.startswith(EXIT_CODE))

    def resolved(self, output: str) -> bool:
        """The package's verdict on what the script printed. Blocks for as long as a file takes to write and read."""
        said = {"instance_id": self.instance_id, "model_name_or_path": "concur", "model_patch": "its files"}
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "test_output.txt"
            log.write_text(output, encoding="utf-8", errors="replace")
            return self._verdict(said, str(log))


def scoring_of(row: Instance) -> Official:
    """How the installed swebench package scores a row; asks no network.

    Raises:
        ScoringError: it is not installed, or its version does not know how this row is tested.
    """
    try:
        version = importlib.metadata.version("swebench")
        major = int(version.partition(".")[0])
        spec = _spec_5(row) if major >= 5 else _spec_4(row)
    except ImportError as error:  # a missing distribution is one as well
        raise ScoringError(
            f"scoring {row.instance_id} needs the swebench package ({error}): pip install {_wanted(row)}"
        ) from None
    if spec is None:
        raise ScoringError(
            f"swebench {version} does not know how {row.instance_id} is tested: pip install {_wanted(row)}"
            + ("" if row.eval_script else ", or take its row from the hub, where it has an eval_script")
        )
    return Official(row.instance_id, spec.eval_script, lambda said, log: _resolved(spec, said, log))


def _resolved(spec: Any, said: Mapping[str, Any], log: str) -> bool:
    from swebench.harness.grading import get_eval_report

    report = get_eval_report(test_spec=spec, prediction=said, test_log_path=log, include_tests_status=False)
    return bool(report[said["instance_id"]]["resolved"])


def _wanted(row: Instance) -> str:
    """The version that can score a row, as pip takes it."""
    return "'swebench>=5'" if row.eval_script or _by_pytest(row) else "'swebench>=4,<5'"


def _spec_5(row: Instance) -> Any:
    """As the row says, or by pytest; None where it says nothing and pytest would not know its tests."""
    from swebench.harness.utils import make_test_spec

    if row.eval_script:
        return make_test_spec(plain(row))
    script = _by_pytest(row)
    if not script:
        return None
    how = {"eval_script": script, "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail"}
    return make_test_spec({**plain(row), **how})


def _spec_4(row: Instance) -> Any:
    """As the package's tables say; None for a repository or version that they have not."""
    from swebench.harness.constants import MAP_REPO_TO_EXT, MAP_REPO_VERSION_TO_SPECS
    from swebench.harness.test_spec.create_scripts import make_eval_script_list
    from swebench.harness.test_spec.test_spec import TestSpec

    specs = MAP_REPO_VERSION_TO_SPECS.get(row.repo, {}).get(row.version)
    if specs is None:
        return None
    # Its own make_test_spec would also write the scripts that build the image, and ask GitHub for their parts.
    return TestSpec(
        instance_id=row.instance_id,
        repo=row.repo,
        version=row.version,
        repo_script_list=[],
        eval_script_list=make_eval_script_list(
            plain(row), specs, "testbed", "/testbed", row.base_commit, row.test_patch
        ),
        env_script_list=[],
        arch="x86_64",
        FAIL_TO_PASS=list(row.fail_to_pass),
        PASS_TO_PASS=list(row.pass_to_pass),
        language=MAP_REPO_TO_EXT[row.repo],
        docker_specs=specs.get("docker_specs", {}),
        namespace=None,
    )


def plain(row: Instance) -> dict[str, Any]:
    """The row as the packages take it."""
    return {
        **row.model_dump(by_alias=True),
        "FAIL_TO_PASS": list(row.fail_to_pass),
        "PASS_TO_PASS": list(row.pass_to_pass),
    }


def _by_pytest(row: Instance) -> str:
    """A script of the package's form for a row whose tests all have pytest's names; else empty."""
    tests = (*row.fail_to_pass, *row.pass_to_pass)
    if not row.test_patch or not row.base_commit or not all("::" in test for test in tests):
        return ""
    run = shlex.join(sorted({test.partition("::")[0] for test in tests}))
    files = sorted(set(KNOWN_FILE.findall(row.test_patch)))
    reset = f"git checkout {shlex.quote(row.base_commit)} {shlex.join(files)}" if files else "true"
    lines = (
        "#!/bin/bash",
        "set -uxo pipefail",
        "source /opt/miniconda3/bin/activate",
        "conda activate testbed",
        "cd /testbed",
        "git config --global --add safe.directory /testbed",
        reset,
        f"git apply -v - <<'{END_OF_PATCH}'\n{whole_lines(row.test_patch)}{END_OF_PATCH}",
        f": '{START}'",
        f"python -m pytest -rA {run}",
        f": '{END}'",
        reset,
    )
    return "\n".join(lines) + "\n"
