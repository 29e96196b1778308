"""Clocks that jump in another process, and not in this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.chaos.clock import Clock, real_monotonic

PROGRAM = """
import asyncio, sys, time
from benchmarks.chaos.clock import real_monotonic

def offsets():
    pairs = (time.time(), time.clock_gettime(time.CLOCK_REALTIME)), (time.monotonic(), real_monotonic())
    loop = asyncio.new_event_loop()
    shown = [*(round(shifted - real) for shifted, real in pairs), round(loop.time() - real_monotonic())]
    shown += [round(time.time_ns() / 1e9 - time.time()), round(time.monotonic_ns() / 1e9 - time.monotonic())]
    loop.close()
    return shown

print(offsets(), sys.argv[1:], flush=True)
for line in sys.stdin:
    print(offsets(), flush=True)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "shown_clocks.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path.cwd()}")
    return "shown_clocks"


def test_a_modules_clocks_jump_when_they_are_told_to(module: str, tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    before = real_monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.chaos.clock", clock.file, module, "--an", "argument"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def shown() -> str:
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    assert process.stdout.readline().strip() == "[0, 0, 0, 0, 0] ['--an', 'argument']"
    clock.jump(wall_s=-86_400)
    assert shown() == "[-86400, 0, 0, 0, 0]"
    clock.jump(monotonic_s=3600)
    assert shown() == "[-86400, 3600, 3600, 0, 0]"
    clock.jump(wall_s=60, monotonic_s=2)
    assert shown() == "[-86340, 3602, 3602, 0, 0]"
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert 0 <= real_monotonic() - before < 3600, "this one's did not"
