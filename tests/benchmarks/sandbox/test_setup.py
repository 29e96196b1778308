"""What a sandbox needs of the machine, what it says when that is missing, and what Python finds inside."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.swebench.sandbox import (
    BubblewrapSandboxes,
    Limits,
    Sandbox,
    SandboxError,
    SandboxUnavailable,
    bubblewrap,
    check_available,
    check_kind,
    sandboxes_of,
)
from benchmarks.swebench.sandbox.copies import CopiedSandboxes

ROOT = Path(__file__).parents[3]


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path, **programs: str) -> None:
    """Let the sandbox find only these programs."""
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setitem(bubblewrap.HOST_ENVIRONMENT, "PATH", str(folder))


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path(monkeypatch, tmp_path)
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap util-linux"):
        check_available()


def test_a_bwrap_that_cannot_is_quoted_and_the_settings_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refuses = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    on_path(monkeypatch, tmp_path, bwrap=refuses, setpriv=refuses, prlimit="", choom="")
    with pytest.raises(SandboxUnavailable, match=r"No permissions.*kernel\.unprivileged_userns_clone"):
        check_available()


async def test_entering_says_so_too_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path(monkeypatch, tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="apt-get install"):
        async with BubblewrapSandboxes():
            pass
    assert is_empty(tmp_path)


async def test_a_broken_setup_is_an_error_not_a_result(sandboxes: CopiedSandboxes, template: Path) -> None:
    sandbox = await sandboxes.open(template)
    sandbox._arguments = (*sandbox._arguments, "--absent-flag")
    with pytest.raises(SandboxError, match=r"did not start.*--absent-flag"):
        await sandbox.run("true", timeout=60)
    await sandbox.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user reaches its own temporary folder")
async def test_an_unreachable_temporary_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=f"cannot reach {tmp_path}: set TMPDIR"):
        async with BubblewrapSandboxes():
            pass


async def test_opening_outside_the_block_is_refused(kind: str, template: Path) -> None:
    with pytest.raises(SandboxError, match="use `async with`"):
        await sandboxes_of(kind).open(template)


async def test_python_inside_is_ours_without_its_packages_but_with_those_lent(sandbox: Sandbox) -> None:
    code = "import lent, sys; print(lent.WORTH, sys.version_info[:3], flush=True); import pytest"
    result = await sandbox.run(f"python -c '{code}'; python3 -c 'import pip'; awk 'BEGIN {{print 6}}'", timeout=60)
    assert result.output.startswith(f"42 {sys.version_info[:3]}\n")
    assert "No module named 'pytest'" in result.output
    assert "No module named 'pip'" in result.output
    assert result.output.endswith("\n6\n")


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    for refuse in (check_kind, sandboxes_of):
        with pytest.raises(ValueError, match=r"one of .*podman.*, not 'chroot'"):
            refuse("chroot")


@pytest.mark.parametrize(
    ("field", "value"), [("processes", 0), ("cpu_seconds", 0), ("file_bytes", 10), ("open_files", -1)]
)
def test_limits_name_the_field_and_its_value(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field} must be at least .*{value}"):
        Limits(**{field: value})


def test_kept_output_cannot_exceed_what_is_read() -> None:
    with pytest.raises(ValueError, match=r"kept_output_bytes must be at most .*5000"):
        Limits(kept_output_bytes=5000, read_output_bytes=4096)


AS_A_PERSON = """
import asyncio, os, sys
from pathlib import Path
from benchmarks.swebench.sandbox import BubblewrapSandboxes
async def main():
    home = Path(sys.argv[1])
    (home / "ws").mkdir()
    (home / "secret").write_text("mine")
    async with BubblewrapSandboxes() as sandboxes:
        sandbox = await sandboxes.open(home / "ws")
        result = await sandbox.run(f"cat {home}/secret; touch /x {home}/x; mkdir -p a/b; chmod 0 a; id -u", timeout=60)
        late = await sandbox.run("setsid sleep 999 & sleep 999", timeout=0.2)
        await sandbox.close()
        assert not sandbox._root.exists()
    assert os.getuid() == 60998 and "mine" not in result.output, result
    assert result.output.endswith("1000\\n") and result.output.count("No such file") == 2, result
    assert late.timed_out
    print("contained")
asyncio.run(main())
"""


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A copy of the sandbox's code that another user can read, with a folder for that user."""
    with tempfile.TemporaryDirectory() as name:
        code = Path(name, "benchmarks", "swebench")
        shutil.copytree(ROOT / "benchmarks/swebench/sandbox", code / "sandbox")
        for package in (code, code.parent):
            (package / "__init__.py").touch()
        home = Path(name, "home")
        home.mkdir()
        shutil.chown(home, 60_998)
        subprocess.run(["chmod", "-R", "a+rX", name], check=True)
        yield home


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests already run as an ordinary user")
def test_it_works_for_an_ordinary_user(everybodys: Path) -> None:
    python = next((p for p in (sys._base_executable, "/usr/bin/python3") if reachable(Path(p))), None)
    if python is None:
        pytest.skip("no Python that another user may run")
    become = ["setpriv", "--reuid=60998", "--regid=60998", "--clear-groups"]
    done = subprocess.run(
        [*become, python, "-B", "-c", AS_A_PERSON, str(everybodys)],
        env={"PYTHONPATH": str(everybodys.parent), "PATH": os.environ["PATH"]},
        cwd=everybodys,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "contained\n", done.stderr


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


def lock(folder: Path) -> None:
    folder.chmod(0o700)


def reachable(program: Path) -> bool:
    program = program.resolve()
    return program.is_file() and all(path.stat().st_mode & stat.S_IXOTH for path in (program, *program.parents))
