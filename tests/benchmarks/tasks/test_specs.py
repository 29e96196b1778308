import re
import shlex
from pathlib import Path, PurePosixPath

import pytest

from benchmarks.swebench.config import LONG_TASKS
from benchmarks.swebench.specs import SPECS, SpecError, read_packages, read_specs

PINNED = re.compile(r"[0-9a-f]{64}")
LICENSES = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "MPL-2.0"}


def test_the_task_list_is_whole_and_pinned() -> None:
    specs = read_specs()
    assert len({spec.task_id for spec in specs}) == len(specs) >= 25
    for spec in specs:
        assert spec.task_id == f"{spec.project.lower()}__{version(spec.buggy.filename)}"
        assert version(spec.buggy.filename) != version(spec.fixed.filename)
        assert 1000 <= len(spec.problem) <= 4000
        assert "diff --git" not in spec.problem
    assert all(PINNED.fullmatch(file.sha256) for spec in specs for file in (spec.buggy, spec.fixed))
    assert all(PINNED.fullmatch(wheel.sha256) for wheel in read_packages())


def test_the_tasks_are_of_as_many_projects_as_there_are_tasks() -> None:
    assert len({spec.project for spec in read_specs()}) == len(read_specs())


def test_each_spec_names_an_open_license() -> None:
    for spec in read_specs():
        first = (SPECS / f"{spec.task_id}.toml").read_text(encoding="utf-8").partition("\n")[0]
        assert first.removeprefix("# License: ") in LICENSES, spec.task_id


def test_the_tasks_left_out_by_default_exist() -> None:
    assert {spec.task_id for spec in read_specs()} > LONG_TASKS


def test_no_fix_is_in_the_tests_that_the_workspace_takes_from_the_fixed_release() -> None:
    for spec in read_specs():
        for source in map(PurePosixPath, spec.sources):
            for test in spec.tests:
                assert not source.is_relative_to(test), spec.task_id
                assert not PurePosixPath(test).is_relative_to(source), spec.task_id


def test_what_a_test_command_runs_is_taken_from_the_fixed_release() -> None:
    for spec in read_specs():
        files = [
            PurePosixPath(word if word.endswith(".py") else word.replace(".", "/") + ".py")
            for word in shlex.split(spec.test_command)
            if "." in word  # a file, or the module of one: no option or expression has a dot
        ]
        assert files, spec.task_id
        assert all(any(file.is_relative_to(test) for test in spec.tests) for file in files), spec.task_id


def version(filename: str) -> str:
    return filename.removesuffix(".tar.gz").rpartition("-")[2]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("project =", "projekt ="), "missing or unknown keys: project, projekt"),
        (("sha256", "sha"), "KeyError.*sha256"),
        (('problem = "', "problem = 3 # "), "AttributeError"),
        (("[buggy]", "[buggy"), "adder__1.0.toml: "),
    ],
)
def test_a_malformed_spec_is_named(project, change: tuple[str, str], says: str) -> None:
    project.spec.write_text(project.spec.read_text().replace(*change))
    with pytest.raises(SpecError, match=f"(?s)adder__1.0.toml.*{says}" if "adder" not in says else says):
        read_specs(project.specs)


def test_an_empty_folder_has_no_tasks(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no task specs"):
        read_specs(tmp_path)


def test_a_malformed_package_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "packages.toml").write_text("[[wheels]]\nproject = 'x'\n")
    with pytest.raises(SpecError, match=r"packages\.toml: each of"):
        read_packages(tmp_path)


def test_each_spec_file_is_listed_by_its_id() -> None:
    ids = {path.stem for path in SPECS.glob("*.toml")} - {"packages"}
    assert {spec.task_id for spec in read_specs()} == ids
