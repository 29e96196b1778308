"""What an agent leaves in its workspace: read without following it anywhere, removed whatever it is."""

from pathlib import Path

import pytest

from benchmarks.swebench.sandbox import Sandbox, SandboxError
from benchmarks.swebench.sandbox.copies import CopiedSandboxes

MAKE_TRAPS = """
mkdir real && echo inside > real/file && head -c 100 /dev/zero > long
ln -s /etc/passwd link; ln -s / up; ln -s real folder; ln -s loop loop; mkfifo fifo; mkdir empty
"""


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("link", "cannot read"),
        ("up/etc/passwd", "cannot read"),
        ("folder/file", "cannot read"),
        ("loop", "cannot read"),
        ("absent", "cannot read"),
        ("real/file/deeper", "cannot read"),
        ("nul\0byte", "cannot read"),
        ("fifo", "not a regular file"),
        ("empty", "not a regular file"),
        ("/etc/passwd", "not a path inside"),
        ("real/../../given.txt", "not a path inside"),
        ("..", "not a path inside"),
        ("", "not a path inside"),
    ],
)
async def test_a_result_that_is_no_plain_file_is_refused(sandbox: Sandbox, path: str, why: str) -> None:
    await sandbox.run(MAKE_TRAPS, timeout=60)
    with pytest.raises(SandboxError, match=why):
        await sandbox.read(path, limit=100)


async def test_a_plain_file_is_read_up_to_the_limit(sandbox: Sandbox) -> None:
    await sandbox.run(MAKE_TRAPS, timeout=60)
    assert await sandbox.read("real/file", limit=100) == b"inside\n"
    assert await sandbox.read("./long", limit=7) == b"\0" * 7


@pytest.mark.parametrize(
    "command",
    [
        "mkdir -p locked/in && touch locked/in/file && chmod 0 locked/in locked",
        "python -c \"import os\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')\"",
        "ln -s / all; touch ./-rf $'new\\nline' $'\\xff'",
        MAKE_TRAPS,
    ],
)
async def test_closing_removes_whatever_was_made(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.run(command, timeout=60)
    assert result.exit_code == 0, result.output
    await sandbox.close()
    assert not sandbox._root.exists()


async def test_links_of_the_template_are_copied_as_links(sandboxes: CopiedSandboxes, tmp_path: Path) -> None:
    (tmp_path / "to-host").symlink_to("/etc/hostname")
    (tmp_path / "tool").write_text("#!/bin/bash\necho ran\n")
    (tmp_path / "tool").chmod(0o700)
    sandbox = await sandboxes.open(tmp_path)
    result = await sandbox.run("readlink to-host; ./tool", timeout=60)
    await sandbox.close()
    assert result.output == "/etc/hostname\nran\n"


async def test_a_workspace_that_cannot_be_copied_is_an_error_that_leaves_nothing(
    sandboxes: CopiedSandboxes, tmp_path: Path
) -> None:
    before = set(sandboxes._scratch.root.iterdir())
    with pytest.raises(SandboxError, match=r"cannot copy the workspace .*absent"):
        await sandboxes.open(tmp_path / "absent")
    assert set(sandboxes._scratch.root.iterdir()) == before


# What is judged


async def changes(sandbox: Sandbox, command: str, limit: int = 10_000) -> dict[str, bytes | None]:
    result = await sandbox.run(command, timeout=60)
    assert result.exit_code == 0, result.output
    return await sandbox.changes(limit=limit)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("true", {}),
        ("touch given.txt", {}),
        ("echo other > given.txt", {"given.txt": b"other\n"}),
        ("mkdir -p a/b && printf 'x\\0' > a/b/new", {"a/b/new": b"x\0"}),
        ("rm given.txt", {"given.txt": None}),
        ("rm given.txt && ln -s /etc/passwd given.txt", {"given.txt": None}),
        ("rm given.txt && mkdir given.txt", {"given.txt": None}),
        ("mkdir __pycache__ .pytest_cache && touch __pycache__/a .pytest_cache/b", {}),
        ("mkdir locked && echo in > locked/file && chmod 0 locked/file locked", {"locked/file": b"in\n"}),
        ("ln -s / up; ln -s loop loop; mkfifo fifo; mkdir empty", {}),
    ],
)
async def test_changes_are_the_plain_files_that_differ(
    sandbox: Sandbox, command: str, expected: dict[str, bytes | None]
) -> None:
    assert await changes(sandbox, command) == expected


async def test_changes_made_in_another_copy_are_all_there_is_to_judge(
    sandboxes: CopiedSandboxes, sandbox: Sandbox, template: Path
) -> None:
    left = await changes(sandbox, "rm given.txt; mkdir a; echo 1 > a/b; sleep 60 & disown; ln -s /etc/passwd link")
    other = await sandboxes.open(template, left)
    try:
        result = await other.run("find . -type f -o -type l | sort; cat a/b; id -u; stat -c %u a/b", timeout=60)
        *found, one, uid, owner = result.output.split()
        assert (found, one, uid) == (["./a/b"], "1", owner)
    finally:
        await other.close()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("head -c 10001 /dev/zero > big", "more than 10,000 bytes"),
        ("for i in 1 2 3; do head -c 4000 /dev/zero > $i; done", "more than 10,000 bytes"),
        ("python -c \"import os\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')\"", "cannot look through"),
        ("mkdir many && cd many && seq 20100 | xargs touch", "more than 20,000 files"),
    ],
)
async def test_what_is_too_much_to_judge_is_refused(sandbox: Sandbox, command: str, why: str) -> None:
    with pytest.raises(SandboxError, match=why):
        await changes(sandbox, command)


@pytest.mark.parametrize("path", ["../given.txt", "/etc/x", "", "link/x"])
async def test_a_change_goes_nowhere_but_into_the_copy(sandboxes: CopiedSandboxes, tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to("/tmp")
    with pytest.raises(SandboxError, match="cannot copy"):
        await sandboxes.open(tmp_path, {path: b""})
