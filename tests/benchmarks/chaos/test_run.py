"""The command: one real run, and one that is interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

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


def test_a_run_passes_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    done = subprocess.run(
        [*COMMAND, "run", "--runs", "1", "--seed", "0", "--keep", folder], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    line, summary = done.stdout.splitlines()
    assert line.split()[:3] == ["seed", "0", "ok"]
    assert summary == "1 of 1 runs passed"
    assert not folder.exists()
    assert belonging_to(tmp_path) == []


def test_interrupting_a_run_ends_all_its_processes(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "replay", "0", "--keep", tmp_path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "0" / "gateway.log").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
    assert belonging_to(tmp_path) == []
