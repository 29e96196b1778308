"""The command: one real run of each kind, and one that is interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.chaos.gateway.plan import Plan as GatewayPlan
from benchmarks.chaos.kinds import Kind, draw, kind_of
from benchmarks.chaos.shared.plan import Plan as SharedPlan

COMMAND = (sys.executable, "-m", "benchmarks.chaos")


def belonging_to(folder: Path) -> list[str]:
    """Command lines of processes that were given the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended while we looked
        if str(folder) in line:
            found.append(line)
    return found


def test_seeds_are_of_both_kinds_in_turn_unless_it_is_said() -> None:
    assert [kind_of(seed) for seed in range(4)] == [Kind.GATEWAY, Kind.SHARED] * 2
    assert [type(draw(kind, 3)) for kind in Kind] == [GatewayPlan, SharedPlan]


def test_a_run_of_each_kind_passes_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    done = subprocess.run(
        [*COMMAND, "run", "--runs", "2", "--seed", "0", "--keep", folder], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, summary = done.stdout.splitlines()
    assert [line.split()[:4] for line in lines] == [["seed", "0", "gateway", "ok"], ["seed", "1", "shared", "ok"]]
    assert summary == "2 of 2 runs passed"
    assert not folder.exists()
    assert belonging_to(tmp_path) == []


@pytest.mark.parametrize(("kind", "log"), [(Kind.GATEWAY, "gateway.log"), (Kind.SHARED, "client-1.log")])
def test_interrupting_a_run_ends_all_its_processes(tmp_path: Path, kind: Kind, log: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "replay", "0", "--kind", kind, "--keep", tmp_path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / f"{kind}-0" / log).exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
    assert belonging_to(tmp_path) == []
