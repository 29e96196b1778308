"""Rows are scored by the swebench package: which version, with what script, and what is said where it cannot."""

import importlib.metadata
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from benchmarks.swebench import official
from benchmarks.swebench.official import ScoringError, scoring_of
from benchmarks.swebench.rows import RowError, read_rows
from benchmarks.swebench.tasks import load_rows, split_source

SCRIPT = """#!/bin/bash
set -uxo pipefail
cd /testbed
: '>>>>> Start Test Output'
./first
./tests/runtests.py dbshell
: '>>>>> End Test Output'
git checkout x
"""
PATCH = """\
diff --git a/tests/test_a.py b/tests/test_a.py
--- a/tests/test_a.py
+++ b/tests/test_a.py
@@ -1 +1 @@
-old
+new
diff --git a/tests/test_made.py b/tests/test_made.py
new file mode 100644
--- /dev/null
+++ b/tests/test_made.py
@@ -0,0 +1 @@
+new
"""
ROW = {
    "instance_id": "a__a-1",
    "repo": "a/a",
    "base_commit": "ddb2936",
    "version": "3.0",
    "problem_statement": " It is broken.\n\n",
    "patch": "--- a/x.py\n+++ b/x.py\n@@ -7 +7 @@\n-a\n+b\n",
    "test_patch": PATCH,
    "FAIL_TO_PASS": ["tests/test_a.py::test_one[a b]"],
    "PASS_TO_PASS": ["tests/test_b.py::test_two"],
}
WITH_SCRIPT = {**ROW, "eval_script": SCRIPT, "log_parser": "parse_log_django", "eval_type": "pass_and_fail"}
BY_NAME = {**ROW, "FAIL_TO_PASS": ["test_one (dbshell.test)"]}


@pytest.fixture
def rows(tmp_path):
    def rows(*rows):
        file = tmp_path / "rows.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        return str(file)

    return rows


@pytest.fixture
def row(rows):
    return lambda row: read_rows(rows(row))[0]


@pytest.fixture
def installed(monkeypatch):
    """A package of this version in the place of the real one, as far as it is used; None for none."""
    asked = []

    def report(*, test_spec, prediction, test_log_path, include_tests_status):
        asked.append(test_spec)
        return {prediction["instance_id"]: {"resolved": "all passed" in Path(test_log_path).read_text()}}

    def spec_4(**fields):
        return types.SimpleNamespace(**fields, eval_script="\n".join(fields["eval_script_list"]))

    modules = {
        "grading": {"get_eval_report": report},
        "utils": {"make_test_spec": lambda row: types.SimpleNamespace(**row)},
        "constants": {"MAP_REPO_TO_EXT": {"a/a": "py"}, "MAP_REPO_VERSION_TO_SPECS": {"a/a": {"3.0": {}}}},
        "test_spec.create_scripts": {"make_eval_script_list": lambda row, *_: SCRIPT.splitlines()},
        "test_spec.test_spec": {"TestSpec": spec_4},
    }

    def install(version):
        def say(name):
            if version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(official.importlib.metadata, "version", say)
        for name in ("swebench", "swebench.harness", "swebench.harness.test_spec"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        for name, content in modules.items():
            monkeypatch.setitem(sys.modules, f"swebench.harness.{name}", types.SimpleNamespace(**content))
        return asked

    return install


def test_a_row_that_says_how_it_is_tested_is_scored_so(installed, row):
    asked = installed("5.0.2")
    scoring = scoring_of(row(WITH_SCRIPT))
    assert scoring.script == SCRIPT
    assert scoring.test_command == "./first; ./tests/runtests.py dbshell"
    assert scoring.resolved("all passed")
    assert not scoring.resolved("one failed")
    spec = asked[0]
    assert (spec.instance_id, spec.log_parser, spec.FAIL_TO_PASS) == ("a__a-1", "parse_log_django", ROW["FAIL_TO_PASS"])


def test_version_4_knows_its_repositories_by_itself(installed, row):
    asked = installed("4.1.0")
    scoring = scoring_of(row(BY_NAME))
    assert scoring.test_command == "./first; ./tests/runtests.py dbshell"
    assert scoring.resolved("all passed")
    assert (asked[0].FAIL_TO_PASS, asked[0].env_script_list) == (["test_one (dbshell.test)"], [])


def test_tests_with_pytests_names_are_run_by_pytest(installed, row):
    asked = installed("5.0.2")
    scoring = scoring_of(row(ROW))
    assert scoring.test_command == "python -m pytest -rA tests/test_a.py tests/test_b.py"
    assert scoring.script.count("git checkout ddb2936 tests/test_a.py\n") == 2  # and not the file that it makes
    assert PATCH in scoring.script
    subprocess.run(["bash", "-n"], input=scoring.script, text=True, check=True)
    assert scoring.resolved("all passed")
    assert (asked[0].log_parser, asked[0].eval_type) == ("parse_log_pytest", "pass_and_fail")


@pytest.mark.parametrize("end", ["\n \n", "\n", ""])
def test_a_test_patch_is_handed_on_to_its_last_line(installed, row, end):
    installed("5.0.2")
    patch = PATCH.rstrip("\n") + end
    assert (
        f"\n{patch.removesuffix(chr(10))}\n{official.END_OF_PATCH}\n"
        in scoring_of(row({**ROW, "test_patch": patch})).script
    )


@pytest.mark.parametrize(
    ("version", "given", "complaint"),
    [
        (None, ROW, r"scoring a__a-1 needs the swebench package \(.*\): pip install 'swebench>=5'"),
        (None, BY_NAME, "pip install 'swebench>=4,<5'"),
        ("5.0.2", BY_NAME, "swebench 5.0.2 does not know how a__a-1 is tested: pip install 'swebench>=4,<5', or take"),
        ("5.0.2", {**ROW, "test_patch": ""}, "does not know how a__a-1 is tested"),
        ("4.1.0", {**ROW, "version": "9"}, "swebench 4.1.0 does not know .* pip install 'swebench>=5', or take"),
        ("4.1.0", {**WITH_SCRIPT, "repo": "b/b"}, "pip install 'swebench>=5'$"),
    ],
)
def test_what_cannot_be_scored_is_told_what_to_install(installed, row, version, given, complaint):
    installed(version)
    with pytest.raises(ScoringError, match=complaint):
        scoring_of(row(given))


def test_a_package_that_is_broken_is_told_too(installed, row, monkeypatch):
    installed("5.0.2")
    monkeypatch.setitem(sys.modules, "swebench.harness.utils", None)
    with pytest.raises(ScoringError, match=r"needs the swebench package \(.*swebench.harness.utils"):
        scoring_of(row(WITH_SCRIPT))


# Rows as tasks


def test_a_row_is_a_task_in_its_image(installed, rows):
    installed("5.0.2")
    (task,) = load_rows(rows(WITH_SCRIPT))
    assert (task.task_id, task.package, task.problem) == ("a__a-1", "a/a", "It is broken.\n")
    assert (task.image, task.patch) == ("docker.io/swebench/sweb.eval.x86_64.a_1776_a-1:latest", ROW["patch"])
    assert (task.test_command, task.official.script) == ("./first; ./tests/runtests.py dbshell", SCRIPT)
    assert {task: 1}[task]  # agents' plans are keys, and the package's own things are not


def test_only_the_rows_that_are_asked_for_must_be_good(installed, rows):
    installed("5.0.2")
    source = rows(ROW, {**BY_NAME, "instance_id": "b__b-1"})
    assert [task.task_id for task in load_rows(source, ["a__a-1"])] == ["a__a-1"]
    for chosen in ((), ("all",)):
        with pytest.raises(ScoringError, match="b__b-1"):
            load_rows(source, chosen)
    with pytest.raises(RowError, match=r"rows.jsonl has no task 'c': it has a__a-1, b__b-1"):
        load_rows(source, ["c"])


def test_rows_without_a_problem_are_left_out_and_refused_when_asked_for(installed, rows):
    installed("5.0.2")
    smith = {**ROW, "image_name": "swebench/swesmith.x86_64.x", "problem_statement": ""}
    source = rows({**smith, "instance_id": "b"}, ROW)
    for chosen in ((), ("all",)):
        assert [task.task_id for task in load_rows(source, chosen)] == ["a__a-1"]
    with pytest.raises(RowError, match="b has no problem_statement"):
        load_rows(source, ["b"])
    with pytest.raises(RowError, match=r"rows\.jsonl: no row has a problem_statement"):
        load_rows(rows(smith))


@pytest.mark.parametrize(
    ("names", "source"),
    [
        ((), None),
        (("all",), None),
        (("click__8.4.0", "h11__0.15.0"), None),
        (("verified",), "verified"),
        (("rows.jsonl", "a__a-1"), "rows.jsonl"),
        (("me/mine:dev", "all"), "me/mine:dev"),
    ],
)
def test_a_source_of_rows_is_told_from_task_ids(names, source):
    found, left = split_source(names)
    assert found == source
    assert left == (names if source is None else names[1:])
