"""Whose the CPU time of the agents' process is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

import jinja2
import pytest

import benchmarks.interrupts
import concur_agents.turns
from benchmarks.swebench.own_cpu import CpuShares, CpuWatch, owner_of
from benchmarks.swebench.report.notes import own_shares


def frame_in(file: str, inner: str | None = None) -> FrameType:
    """A frame of code from ``file``, called from this one; below it one from ``inner``."""
    code = "import sys\ndef call(deeper=None): return deeper() if deeper else sys._getframe()"
    names: dict[str, Callable[..., FrameType]] = {}
    exec(compile(code, file, "exec"), names)
    return names["call"](None if inner is None else lambda: frame_in(inner))


INSTALLED, OURS, HARNESS = jinja2.__file__, concur_agents.turns.__file__, benchmarks.interrupts.__file__


@pytest.mark.parametrize(
    ("outer", "inner", "owner"),
    [
        (HARNESS, None, "harness"),
        (HARNESS, INSTALLED, "framework"),
        (INSTALLED, HARNESS, "harness"),
        (INSTALLED, OURS, "concur"),
        (OURS, INSTALLED, "framework"),
        (INSTALLED, "/usr/lib/python3/asyncio/events.py", "framework"),
        ("/x/site-packages/langgraph/a.py", "/x/site-packages/concur_agents_langgraph/b.py", "concur"),
    ],
)
def test_the_innermost_frame_that_is_not_pythons_own_says_whose(outer: str, inner: str | None, owner: str) -> None:
    assert owner_of(frame_in(outer, inner)) == owner


def test_where_nobody_is_known_it_is_the_harness() -> None:
    assert owner_of(None) == "harness"


def test_work_is_told_apart_by_how_much_it_is() -> None:
    busy: dict[str, Callable[[float], None]] = {}
    code = "import time\ndef work(s):\n u = time.thread_time() + s\n while time.thread_time() < u: pass"
    exec(compile(code, INSTALLED, "exec"), busy)
    with CpuWatch() as watch:
        busy["work"](0.5)
    shares = watch.shares()
    assert shares.total_s >= 0.5
    assert shares.framework_s is not None
    assert 0.3 < shares.framework_s <= shares.total_s
    assert shares.concur_s == 0
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_outside_the_main_thread_nothing_is_told_apart() -> None:
    found: list[CpuShares] = []

    def watched() -> None:
        with CpuWatch() as watch:
            sum(range(100_000))
        found.append(watch.shares())

    thread = threading.Thread(target=watched)
    thread.start()
    thread.join()
    assert (found[0].framework_s, found[0].concur_s) == (None, None)
    assert found[0].total_s >= 0


def test_shares_are_of_all_cores_and_told_apart() -> None:
    arm = {"harness_cpu_s": 10.0, "framework_cpu_s": 6.0, "concur_cpu_s": 1.0, "makespan_s": 50.0}
    assert own_shares(arm, 2) == pytest.approx({"harness": 0.03, "Concur": 0.01, "agents' framework": 0.06})


@pytest.mark.parametrize(
    ("arm", "shares"),
    [
        ({"harness_cpu_s": 10.0, "makespan_s": 50.0}, {"harness with frameworks": 0.1}),  # a run of an older version
        ({"harness_cpu_s": None, "makespan_s": 50.0}, {}),
        ({"harness_cpu_s": 10.0, "makespan_s": None}, {}),
    ],
)
def test_what_was_not_noted_is_not_told(arm: dict[str, float | None], shares: dict[str, float]) -> None:
    assert own_shares(arm, 2) == pytest.approx(shares)
