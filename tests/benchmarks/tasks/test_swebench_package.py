"""The real swebench package's verdicts on logs of known content; runs where it is installed, in versions 4 and 5.

With ``CONCUR_NEMO_GYM`` naming the wheel of nemo-gym 0.4.0, the rows that it ships are read and scored too.
"""

import importlib.metadata
import json
import os
import shlex
import subprocess
import zipfile

import pytest

from benchmarks.swebench.official import END, START, ScoringError, scoring_of
from benchmarks.swebench.rows import read_rows

pytest.importorskip("swebench", reason="needs the swebench package")
MAJOR = int(importlib.metadata.version("swebench").partition(".")[0])
pytestmark = [
    # What it imports (datasets, docker, ghapi) is not ours to mend.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
NAMES = "--- a/tests/test_a.py\n+++ b/tests/test_a.py\n"
PATCH = f"diff --git a/tests/test_a.py b/tests/test_a.py\n{NAMES}@@ -1 +1 @@\n-a\n+b\n"
ROW = {
    "instance_id": "pallets__flask-1",
    "repo": "pallets/flask",
    "version": "2.0",
    "base_commit": "ddb2936",
    "problem_statement": "Broken.",
    "patch": "",
    "test_patch": PATCH,
    "FAIL_TO_PASS": ["tests/test_a.py::test_fixed"],
    "PASS_TO_PASS": ["tests/test_a.py::test_kept"],
}
FOLDERS = {
    "verified": "responses_api_agents/mini_swe_agent_2/data/example.jsonl",
    "gym": "responses_api_agents/mini_swe_agent/data/example.jsonl",
}


def log(*lines, start=START, end=END):
    return "\n".join([f"+ : '{start}'", "===== short test summary info =====", *lines, f"+ : '{end}'", ""])


@pytest.fixture
def row(tmp_path):
    def row(**more):
        (tmp_path / "rows.jsonl").write_text(json.dumps({**ROW, **more}))
        return read_rows(str(tmp_path / "rows.jsonl"))[0]

    return row


FIXED, KEPT = "tests/test_a.py::test_fixed", "tests/test_a.py::test_kept"


@pytest.mark.parametrize(
    ("output", "resolved"),
    [
        (log(f"PASSED {FIXED}", f"PASSED {KEPT}"), True),
        (log(f"FAILED {FIXED} - AssertionError", f"PASSED {KEPT}"), False),
        (log(f"PASSED {FIXED}", f"FAILED {KEPT} - no"), False),
        (log(f"PASSED {FIXED}"), False),
        (log(), False),
        (log(f"PASSED {FIXED}", f"PASSED {KEPT}", end="killed"), False),
        ("error: patch failed\n", False),
        ("", False),
        ("\0\udcff", False),
    ],
)
def test_a_log_gets_the_packages_verdict(row, output, resolved):
    assert scoring_of(row()).resolved(output) is resolved


@pytest.mark.skipif(MAJOR < 5, reason="rows have scripts from 5 on")
def test_a_rows_own_script_and_parser_are_used(row):
    script = f"#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '{START}'\n./tests/runtests.py dbshell\n: '{END}'\n"
    more = {"eval_script": script, "log_parser": "parse_log_django", "eval_type": "pass_and_fail"}
    scoring = scoring_of(row(**more, FAIL_TO_PASS=["test_one (a.B)"], PASS_TO_PASS=[]))
    assert scoring.test_command == "./tests/runtests.py dbshell"
    assert "SWEBENCH_TEST_EXIT_CODE" in scoring.script
    subprocess.run(["bash", "-n"], input=scoring.script, text=True, check=True)
    assert scoring.resolved(log("test_one (a.B) ... ok"))
    assert not scoring.resolved(log("test_one (a.B) ... FAIL"))


@pytest.mark.skipif(MAJOR >= 5, reason="4 has a table of repositories")
def test_version_4_takes_script_and_parser_from_its_table_and_asks_no_network(row, monkeypatch):
    monkeypatch.setattr("socket.socket", None)
    scoring = scoring_of(row(repo="django/django", version="3.0", FAIL_TO_PASS=["test_one (a.B)"], PASS_TO_PASS=[]))
    assert "runtests.py" in scoring.test_command
    subprocess.run(["bash", "-n"], input=scoring.script, text=True, check=True)
    assert scoring.resolved(log("test_one (a.B) ... ok"))


@pytest.mark.skipif("CONCUR_NEMO_GYM" not in os.environ, reason="CONCUR_NEMO_GYM names no wheel")
@pytest.mark.parametrize("name", FOLDERS)
def test_the_rows_that_nemo_gym_ships_are_scored_or_say_what_is_needed(tmp_path, name):
    with zipfile.ZipFile(os.environ["CONCUR_NEMO_GYM"]) as wheel:
        (tmp_path / "rows.jsonl").write_bytes(wheel.read(FOLDERS[name]))
    rows = read_rows(str(tmp_path / "rows.jsonl"))
    assert len(rows) == 5
    for row in rows:
        by_pytest = all("::" in test for test in (*row.fail_to_pass, *row.pass_to_pass))
        if not (by_pytest if MAJOR >= 5 else name == "verified"):
            with pytest.raises(ScoringError, match="pip install 'swebench"):
                scoring_of(row)
            continue
        scoring = scoring_of(row)
        assert shlex.split(scoring.test_command)
        subprocess.run(["bash", "-n"], input=scoring.script, text=True, check=True)
        assert not scoring.resolved(log("FAILED nothing"))
        if by_pytest:
            assert scoring.resolved(log(*(f"PASSED {test}" for test in (*row.fail_to_pass, *row.pass_to_pass))))
