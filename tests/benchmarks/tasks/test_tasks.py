import shutil
from pathlib import Path

import pytest

from benchmarks.swebench import fetch, prove
from benchmarks.swebench.archives import write_files
from benchmarks.swebench.edits import EditError, apply_edits
from benchmarks.swebench.fetch import Fetcher, FetchError
from benchmarks.swebench.sandbox import BubblewrapSandboxes
from benchmarks.swebench.specs import read_specs
from benchmarks.swebench.tasks import Task, load_tasks


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "pip_settings", lambda: {"no-index": "true"})


def load(project) -> Task:
    (task,) = load_tasks(project.cache, specs=project.specs)
    return task


def test_a_workspace_is_the_buggy_source_with_the_fixed_releases_tests(project) -> None:
    task = load(project)
    files = {str(path.relative_to(task.workspace)) for path in task.workspace.rglob("*") if path.is_file()}
    assert files == {"README.md", "adder.py", "tests/__init__.py", "tests/test_adder.py"}
    assert "a - b" in (task.workspace / "adder.py").read_text()
    assert "unittest" in (task.workspace / "tests/test_adder.py").read_text()
    assert (task.task_id, task.package, task.problem) == ("adder__1.0", "Adder", "add(1, 2) is -1\n")


def test_the_solution_turns_the_workspaces_sources_into_the_fixed_ones(project) -> None:
    task = load(project)
    solved = apply_edits({"adder.py": (task.workspace / "adder.py").read_text()}, task.solution)
    assert "a + b" in solved["adder.py"]
    assert "a * 2" in solved["adder.py"]


def test_packages_are_unpacked_with_their_bytecode(project) -> None:
    packages = load(project).packages
    assert (packages / "worth.py").is_file()
    assert list(packages.glob("__pycache__/worth.*.pyc"))


def test_what_is_prepared_is_used_again_and_what_is_half_done_is_not(project) -> None:
    first = load(project)
    (first.workspace / "mark").touch()
    assert (load(project).workspace / "mark").is_file()
    shutil.rmtree(first.workspace)
    half = first.workspace.with_name(f".{first.workspace.name}-killed")
    half.mkdir()
    assert (load(project).workspace / "adder.py").is_file()


def test_a_changed_spec_gets_a_workspace_of_its_own(project) -> None:
    first = load(project).workspace
    project.spec.write_text(project.spec.read_text().replace('leave_out = ["docs/*.big"]', "leave_out = []"))
    second = load(project).workspace
    assert first != second
    assert (second / "docs/table.big").is_file()


def test_a_missing_archive_names_its_project(project) -> None:
    (project.archives / "adder-1.1.tar.gz").unlink()
    with pytest.raises(FetchError, match=r"cannot fetch adder-1\.1\.tar\.gz of Adder, and it is not cached"):
        load(project)


@pytest.mark.parametrize(
    ("sources", "says"), [('["README.md"]', "do not differ in README.md"), ('["tests"]', "removes files.*test_gone")]
)
def test_sources_without_a_usable_fix_are_refused(project, sources: str, says: str) -> None:
    project.spec.write_text(project.spec.read_text().replace('["adder.py"]', sources))
    with pytest.raises(EditError, match=says):
        load(project)


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out"])
def test_a_path_that_leads_outside_is_never_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="leads outside"):
        write_files({name: b""}, tmp_path / "in")
    assert not (tmp_path / "out").exists()


@pytest.mark.sandbox
async def test_the_proof_tells_a_proven_task_from_one_that_is_not(project, capsys: pytest.CaptureFixture[str]) -> None:
    task = load(project)
    fetcher = Fetcher(project.archives, {"no-index": "1"})
    async with BubblewrapSandboxes(packages=task.packages) as sandboxes:
        assert await prove.prove(read_specs(project.specs), sandboxes, fetcher)
        text = project.spec.read_text()
        project.spec.write_text(text.replace("python -m unittest -b tests.test_adder", "true"))
        assert not await prove.prove(read_specs(project.specs), sandboxes, fetcher)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("proven adder__1.0")
    assert second.startswith("WRONG  adder__1.0")
