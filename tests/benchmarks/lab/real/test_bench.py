"""Measuring, on an emulator over HTTP that takes next to no time, and on one that dies."""

import contextlib
import dataclasses

import pytest

from benchmarks.engines.wire import EngineError
from benchmarks.lab.arms import parse_arms
from benchmarks.lab.real.backends import get_backend
from benchmarks.lab.real.bench import ATTEMPTS, Bench, Settings, turned
from benchmarks.lab.real.cases import CASES
from benchmarks.lab.real.store import Store

SPEEDUP = 400.0


def settings(arms="uncontrolled,fixed:1", **more):
    more = {"cases": (CASES["judge"],), "repeats": 2, "agents": 2, "calibrate": False, **more}
    return Settings(arms=parse_arms(arms), **more)


async def measured(path, wanted, backend=None):
    """Lines said; what was measured is in the file."""
    said = []
    backend = backend or get_backend("emulator", speedup=SPEEDUP)
    await Bench(backend, wanted, Store.load(path), said.append).run()
    return said


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.jsonl"


async def test_every_arm_runs_once_a_repeat_and_each_repeat_begins_with_another(path) -> None:
    await measured(path, settings())
    runs = Store.load(path).runs
    assert [(run.repeat, run.arm) for run in runs] == [
        (1, "uncontrolled"),
        (1, "fixed:1"),
        (2, "fixed:1"),
        (2, "uncontrolled"),
    ]
    assert all(run.lost == 0 and run.makespan_s > 0 and run.readings for run in runs)
    assert 0 < runs[0].hit_rate < 1


async def test_what_is_there_is_not_run_again(path) -> None:
    await measured(path, settings(repeats=1))
    first = Store.load(path).runs
    said = await measured(path, settings(repeats=1, arms="uncontrolled,fixed:1,fixed:2"))
    runs = Store.load(path).runs
    assert runs[:2] == first
    assert [run.arm for run in runs[2:]] == ["fixed:2"]
    assert sum("hit rate" in line for line in said) == 1


async def test_where_nothing_is_left_no_engine_is_started(path) -> None:
    await measured(path, settings(repeats=1))

    def refused(flags):
        raise AssertionError("started")

    backend = dataclasses.replace(get_backend("emulator", speedup=SPEEDUP), open=refused)
    assert await measured(path, settings(repeats=1), backend) == []


async def test_an_engine_is_calibrated_before_each_repeat_and_after_the_last(path) -> None:
    await measured(path, settings(repeats=1, arms="uncontrolled", calibrate=True))
    assert len(Store.load(path).sweeps) == 2


async def test_an_arm_that_the_server_cannot_serve_is_left_out_and_said(path) -> None:
    said = await measured(path, settings(repeats=1, arms="uncontrolled,requests:2"))
    assert [run.arm for run in Store.load(path).runs] == ["uncontrolled"]
    assert any("requests:2 needs another flag" in line for line in said)


async def test_other_settings_do_not_go_into_the_same_file(path) -> None:
    await measured(path, settings(repeats=1, arms="uncontrolled"))
    with pytest.raises(ValueError, match="another engine, tick or seed"):
        await measured(path, settings(seed=1))
    with pytest.raises(ValueError, match="judge with other lengths"):
        await measured(path, settings(agents=3))


class Mortal:
    """Opens the emulator; of each server the first ``checks`` looks find it alive."""

    def __init__(self, lives: list[int]) -> None:
        self._lives = iter(lives)
        self.started = 0

    @contextlib.asynccontextmanager
    async def open(self, flags):
        left = next(self._lives)
        self.started += 1

        def check() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise EngineError("the server ended")

        async with get_backend("emulator", speedup=SPEEDUP).open(flags) as engine:
            yield dataclasses.replace(engine, check=check)

    def backend(self):
        return dataclasses.replace(get_backend("emulator", speedup=SPEEDUP), open=self.open)


async def test_a_server_that_dies_is_started_again_and_the_run_repeated(path) -> None:
    mortal = Mortal([3, 1000])  # two flushes of the warm-up and one before the run
    said = await measured(path, settings(repeats=1), mortal.backend())
    assert mortal.started == 2
    assert [run.arm for run in Store.load(path).runs] == ["uncontrolled", "fixed:1"]
    assert any("is run again: the server ended" in line for line in said)


async def test_a_server_that_keeps_dying_ends_the_benchmark(path) -> None:
    mortal = Mortal([3] + [0] * 10)
    with pytest.raises(EngineError, match="the server ended"):
        await measured(path, settings(repeats=1), mortal.backend())
    assert mortal.started == ATTEMPTS
    assert Store.load(path).runs == []


def test_turning_gives_each_item_every_place_once() -> None:
    rounds = [turned("abc", repeat) for repeat in (1, 2, 3)]
    assert rounds == [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")]
    assert turned([], 2) == ()
