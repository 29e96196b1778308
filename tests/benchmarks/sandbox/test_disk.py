"""Filling the disk, in files that are seen and in files that are not."""

from pathlib import Path

import pytest

from benchmarks.swebench.sandbox import Limits, Sandbox, SandboxUnavailable, disk, sandboxes_of

FILL = "for ((i = 0; ; i++)); do head -c 500000 /dev/zero > big$i; done"
LITTLE = "i=0; while :; do echo x > small$((i++)); done"
UNSEEN = "exec 3> big; rm big; touch started; while :; do head -c 1000 /dev/zero >&3; done"


async def test_a_command_that_fills_the_workspace_is_killed_and_told_why(tight: Sandbox) -> None:
    result = await tight.run(FILL, timeout=60)
    assert (result.exit_code, result.timed_out) == (None, False)
    assert "used up the disk" in result.output


async def test_in_a_full_workspace_nothing_can_be_added_until_something_is_deleted(tight: Sandbox) -> None:
    await tight.run(FILL, timeout=60)
    result = await tight.run("head -c 500000 /dev/zero > more; wc -c < more", timeout=60)
    assert result.output.splitlines()[-1] == "4096"
    result = await tight.run(LITTLE, timeout=60)
    assert "used up the disk" in result.output
    await tight.run("rm -f *", timeout=60)
    result = await tight.run("head -c 500000 /dev/zero > more; wc -c < more", timeout=60)
    assert result.output == "500000\n"


async def test_what_the_workspace_began_with_does_not_count(kind: str, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 3_000_000)
    async with sandboxes_of(kind, limits=Limits(growth_bytes=1_000_000)) as sandboxes:
        sandbox = await sandboxes.open(tmp_path)
        result = await sandbox.run("head -c 500000 /dev/zero > more; sleep 0.3; wc -c < more", timeout=60)
    assert result.output == "500000\n"


async def test_a_deleted_file_that_goes_on_growing_is_met_by_the_reserve(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_left(folder: Path, limits: Limits) -> bool:
        return not (folder / "started").exists()

    monkeypatch.setattr(disk, "reserve_is_left", is_left)
    result = await sandbox.run(UNSEEN, timeout=60)
    assert "used up the disk" in result.output


async def test_a_disk_that_is_nearly_full_is_refused_at_once(kind: str) -> None:
    with pytest.raises(SandboxUnavailable, match=r"are free in .*set TMPDIR"):
        async with sandboxes_of(kind, limits=Limits(reserve_bytes=2**60)):
            pass
