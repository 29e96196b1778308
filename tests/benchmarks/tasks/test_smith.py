"""SWE-smith's rows: their bug is made from their patch, its tests are hidden, and the swesmith package decides.

With the real package (and swebench 4) where it is installed; everywhere with one of the same form.
"""

import importlib.metadata
import importlib.util
import json
import logging
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest

from benchmarks.swebench import smith
from benchmarks.swebench.official import END, START, ScoringError
from benchmarks.swebench.rows import read_rows
from benchmarks.swebench.smith import scoring_of_smith
from benchmarks.swebench.solver import LENGTHS, scripted_replies
from benchmarks.swebench.tasks import load_rows

GOOD, BAD = "def add(a, b):\n    return a + b\n\n", "def add(a, b):\n    return a - b\n\n"
FILES = {
    "adder.py": GOOD,
    "tests/test_one.py": "shows it\n",
    "tests/test_kept.py": "shows it not\n",
    "notes.txt": "not in git\n",
}
PATCH = """\
diff --git a/adder.py b/adder.py
--- a/adder.py
+++ b/adder.py
@@ -1,3 +1,3 @@
 def add(a, b):
-    return a + b
+    return a - b
{an empty line of the file}
""".replace("{an empty line of the file}", " ")
MAKES_A_FILE = """\
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+x"""
REMOVES_ONE = """\
diff --git a/adder.py b/adder.py
deleted file mode 100644
--- a/adder.py
+++ /dev/null
@@ -1,3 +0,0 @@
-def add(a, b):
-    return a + b
-
"""
ROW = {
    "instance_id": "mewwts__addict.75284f95.func_pm_x__a",
    "repo": "swesmith/mewwts__addict.75284f95",
    "problem_statement": "add(1, 1) is 0",
    "patch": PATCH,
    "FAIL_TO_PASS": ["tests/test_one.py::test_one"],
    "PASS_TO_PASS": ["tests/test_kept.py::test_kept", "tests/test_gone.py::test_gone"],
    "image_name": "swebench/swesmith.x86_64.mewwts_1776_addict.75284f95",
}


@pytest.fixture
def rows(tmp_path):
    def rows(*rows):
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return str(tmp_path / "rows.jsonl")

    return rows


@pytest.fixture
def row(rows):
    return lambda **more: read_rows(rows({**ROW, **more}))[0]


class Profile:
    """What the package knows of a repository."""

    exts = (".py",)
    timeout = 90

    def get_test_files(self, instance):
        return tuple([test.partition("::")[0] for test in instance[key]] for key in ("FAIL_TO_PASS", "PASS_TO_PASS"))

    def get_test_cmd(self, instance):
        return "source activate; conda activate testbed; pytest --verbose", []


@pytest.fixture
def profile():
    return Profile()


@pytest.fixture
def package(monkeypatch, profile):
    """One of the real one's form."""

    def get_from_inst(instance):
        return {ROW["repo"]: profile}[instance["repo"]]

    def report(prediction, instance, log):
        assert isinstance(instance["FAIL_TO_PASS"], list)
        return {"resolved": prediction["model_patch"] and "test_one PASSED" in Path(log).read_text()}

    modules = {
        "swesmith": {},
        "swesmith.harness": {},
        "swesmith.harness.grading": {"get_eval_report": report},
        "swesmith.profiles": {"registry": types.SimpleNamespace(get_from_inst=get_from_inst)},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(smith.importlib.metadata, "version", lambda name: "0.0.9")


@pytest.fixture
def repository(tmp_path):
    """The image's, without a bug; one commit."""
    root = tmp_path / "testbed"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "init", "-q")
    git(root, "add", "adder.py", "tests")
    git(root, "commit", "-qm", "Initial commit")
    return root


def git(root, *arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def bash(root, script):
    """The script, run where the sandbox would run it; its global settings go nowhere."""
    return subprocess.run(
        ["bash", "-c", script.replace("/testbed", str(root))],
        cwd=root,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(root.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def made(root, scoring):
    done = bash(root, scoring.setup)
    assert done.returncode == 0, done.stderr
    return root


def test_the_patch_makes_the_bug_and_its_tests_are_gone(package, row, repository):
    made(repository, scoring_of_smith(row()))
    assert (repository / "adder.py").read_text() == BAD
    assert git(repository, "ls-files").split() == ["adder.py", "tests/test_kept.py"]
    assert git(repository, "status", "--short").split() == ["??", "notes.txt"]


@pytest.mark.parametrize(
    ("patch", "files"),
    [
        (MAKES_A_FILE, ["adder.py", "new.py", "tests/test_kept.py"]),
        (REMOVES_ONE, ["tests/test_kept.py"]),
    ],
)
def test_a_bug_may_be_a_file_too_many_or_one_that_is_missing(package, row, repository, patch, files):
    made(repository, scoring_of_smith(row(patch=patch)))
    assert git(repository, "ls-files").split() == files
    assert git(repository, "status", "--short").split() == ["??", "notes.txt"]


def test_a_bug_that_does_not_fit_the_image_is_said(package, row, repository):
    done = bash(repository, scoring_of_smith(row(patch=PATCH.replace("a + b", "a * b"))).setup)
    assert done.returncode != 0
    assert "adder.py: patch does not apply" in done.stderr


def test_all_tests_are_as_they_were_before_they_run(package, row, repository):
    scoring = scoring_of_smith(row())
    made(repository, scoring)
    (repository / "tests/test_one.py").write_text("an agent's\n")
    (repository / "tests/test_kept.py").unlink()
    bash(repository, scoring.script.replace("pytest", "true"))
    assert {name: (repository / name).read_text() for name in FILES} == {**FILES, "adder.py": BAD}


def test_the_scripts_form_is_the_packages(package, row):
    scoring = scoring_of_smith(row())
    assert scoring.test_command == "source activate; conda activate testbed; pytest --verbose"
    assert scoring.timeout_s == 90
    assert scoring.resolved("test_one PASSED")
    assert not scoring.resolved("test_one FAILED")


def test_a_scripted_agent_undoes_the_bug(package, rows, repository):
    (task,) = load_rows(rows(ROW))
    made(repository, task.official)
    replies = scripted_replies(task, seed=1, config=LENGTHS["short"])
    commands = [call["arguments"]["command"] for reply in replies for call in reply["tool_calls"] or ()]
    (fix,) = [command for command in commands if command.startswith("git apply")]
    assert bash(repository, fix).returncode == 0
    assert (repository / "adder.py").read_text() == GOOD
    assert task.image == f"docker.io/{ROW['image_name']}"


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"patch": ""}, "__a has no patch that makes its bug"),
        ({"repo": "swesmith/no__no.1"}, r"swesmith 0.0.9 does not know .*__a: it has no swesmith/no__no\.1"),
    ],
)
def test_a_row_that_cannot_be_scored_is_said(package, row, more, complaint):
    with pytest.raises(ScoringError, match=complaint):
        scoring_of_smith(row(**more))


def test_a_repository_that_would_have_to_be_cloned_is_refused(package, profile, row):
    profile.exts = (".go",)
    profile.get_test_files = None
    with pytest.raises(ScoringError, match="is Go's: swesmith would clone its repository"):
        scoring_of_smith(row())


def test_a_package_that_is_missing_is_named_with_what_to_install(row, monkeypatch):
    monkeypatch.setitem(sys.modules, "swesmith", None)
    with pytest.raises(ScoringError, match=r"needs the swesmith package .*'swesmith\[validate\]' 'swebench>=4,<5'"):
        scoring_of_smith(row())


def test_what_the_package_does_to_everybodys_log_is_undone(package, row, monkeypatch):
    root = logging.getLogger()
    before = root.level, root.handlers[:]

    class Loud(types.ModuleType):
        @property
        def registry(self):
            root.addHandler(logging.NullHandler())
            root.setLevel(logging.DEBUG)
            warnings.warn("no token", UserWarning, stacklevel=1)
            return types.SimpleNamespace(get_from_inst=lambda _: Profile())

    monkeypatch.setitem(sys.modules, "swesmith.profiles", Loud("swesmith.profiles"))
    scoring_of_smith(row())
    assert (root.level, root.handlers) == before


@pytest.mark.skipif(importlib.util.find_spec("swesmith") is None, reason="needs the swesmith package")
@pytest.mark.parametrize(
    ("lines", "resolved"),
    [
        (["tests/test_one.py::test_one PASSED [ 50%]", "tests/test_kept.py::test_kept PASSED [100%]"], True),
        (["tests/test_one.py::test_one FAILED [ 50%]", "tests/test_kept.py::test_kept PASSED [100%]"], False),
        (["tests/test_one.py::test_one PASSED [ 50%]", "tests/test_kept.py::test_kept FAILED [100%]"], False),
        (["tests/test_one.py::test_one PASSED [ 50%]"], False),
        ([], False),
    ],
)
def test_the_real_packages_verdict(row, lines, resolved):
    scoring = scoring_of_smith(row(PASS_TO_PASS=["tests/test_kept.py::test_kept"]))
    assert "pytest" in scoring.test_command
    said = "\n".join([f"+ : '{START}'", *lines, f"+ : '{END}'", ""])
    assert scoring.resolved(said) is resolved
    assert not scoring.resolved(said.replace(END, "killed"))
    assert importlib.metadata.version("swebench").startswith("4.")
