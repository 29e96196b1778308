"""The parts of the benchmark. Each adds to a record and keeps it on disk: an interrupt loses one run at most."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.engines.emulated import emulated
from benchmarks.engines.engine import Engine
from benchmarks.machine import describe
from benchmarks.real.batch import TICK_S
from benchmarks.real.calibrate import Points, sweep
from benchmarks.real.fit import fit
from benchmarks.real.record import FitRecord, Record, RunRecord
from benchmarks.real.runner import Watch, run_arms, warm_up
from benchmarks.real.workload import Workload
from benchmarks.swebench.arms import LAW_ARMS, Arm, parse_arms
from concur_agents.emulator import CostModel

__all__ = ["Bench", "new_record"]

SWEEPS = 4
"""Of a calibration without runs in between: about two minutes on a CPU."""


def new_record(engine: Engine, workload: Workload, arms: Sequence[Arm], repeats: int) -> Record:
    """A record without runs."""
    plans = workload.plan()
    return Record(
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        engine={"name": engine.name, "scheduling": dict(engine.scheduling), **engine.about},
        machine=describe(),
        workload={
            **asdict(workload),
            "total_steps": sum(len(plan.steps) for plan in plans),
            "final_tokens": sum(plan.final_tokens for plan in plans),
        },
        tick_s=TICK_S,
        arms=tuple(arm.name for arm in arms),
        repeats=repeats,
    )


class Bench:
    """One record in the making.

    Args:
        record: as far as it is.
        path: where it is kept.
        console: for progress and one line a run.
    """

    def __init__(self, record: Record, path: Path, console: Console) -> None:
        self.path = path
        self._console = console
        self._keep(record)

    @property
    def record(self) -> Record:
        """As far as it is."""
        return self._record

    async def fit(self, engine: Engine) -> None:
        """Calibrate on ``engine``, and fit the emulator's cost model to it. Raises EngineError."""
        await warm_up(engine)
        with self._progress() as progress:
            calibration = _Calibration(self, engine, progress)
            for _ in range(SWEEPS):
                await calibration.sweep()
        self._keep(replace(self._record, predicted=(), prediction={}))

    async def run(self, engine: Engine, *, fit: bool) -> None:
        """Run the record's arms on ``engine``, in place of what runs it has.

        Args:
            engine: idle.
            fit: also calibrate, before each repeat and after the last, and fit the emulator's cost model.

        Raises:
            EngineError: the engine cannot be used any more.
        """
        self._keep(replace(self._record, runs=(), predicted=(), prediction={}))

        def done(run: RunRecord) -> None:
            self._keep(self._record.with_run(run))

        await self._run_arms(engine, self._record.repeats, done, fit=fit)

    async def predict(self, speedup: float) -> None:
        """Run the record's arms, as often as they were run, on the emulator with the record's cost model.

        Args:
            speedup: engine seconds per wall second. > 0. The agents' own work, some milliseconds a step, counts as
                so much more.

        Raises:
            ValueError: the record has no cost model.
        """
        fitted = self._record.fit
        if fitted is None:
            raise ValueError("the record has no cost model to predict with: run `fit` first")
        found: list[RunRecord] = []
        async with emulated(fitted.scheduling, CostModel(**fitted.cost), speedup=speedup) as engine:
            await self._run_arms(engine, self._record.repeats, found.append, fit=False)
        self._keep(replace(self._record, predicted=tuple(found), prediction={"speedup": speedup}))

    def fitted(self, found: FitRecord) -> None:
        """Keep a cost model."""
        self._keep(replace(self._record, fit=found))

    async def _run_arms(self, engine: Engine, repeats: int, keep: Callable[[RunRecord], None], *, fit: bool) -> None:
        workload, arms = _workload(self._record), parse_arms(",".join(self._record.arms), LAW_ARMS)
        with self._progress() as progress:
            task = progress.add_task("warming up", total=workload.agents)

            def began(repeat: int, arm: Arm) -> None:
                progress.reset(task, description=f"{engine.name}, repeat {repeat} of {repeats}: {arm.name}")

            def done(run: RunRecord) -> None:
                keep(run)
                self._say(f"{engine.name}, repeat {run.repeat}, {run.arm}: {_line(run)}")

            watch = Watch(
                began=began,
                agent_ended=lambda _: progress.advance(task),
                between=_Calibration(self, engine, progress).sweep if fit else None,
                done=done,
            )
            await run_arms(engine, workload, arms, repeats, watch)

    def _progress(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        return Progress(*columns, console=self._console, transient=True)

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def _keep(self, record: Record) -> None:
        self._record = record
        record.save(self.path)


class _Calibration:
    """Sweep after sweep, the cost model of a bench's record is fitted to all points so far."""

    def __init__(self, bench: Bench, engine: Engine, progress: Progress) -> None:
        self._bench = bench
        self._engine = engine
        self._progress = progress
        self._points = Points()
        self._sweeps = 0

    async def sweep(self) -> None:
        """Measure once more, and fit again."""
        task = self._progress.add_task("calibrating", total=None)
        await sweep(
            self._engine,
            self._points,
            lambda text: self._progress.update(task, description=f"calibrating: {text}"),
            seed=self._sweeps,
        )
        self._progress.remove_task(task)
        self._sweeps += 1
        self._bench.fitted(fit(self._points, self._engine.scheduling))


def _workload(record: Record) -> Workload:
    """The record's, so that nothing else can be run into it. Raises ValueError where it is none."""
    return _WORKLOAD.validate_python({field.name: record.workload.get(field.name) for field in fields(Workload)})


_WORKLOAD = TypeAdapter(Workload)


def _line(run: RunRecord) -> str:
    batch = run.batch
    hits = "?" if batch.hit_rate is None else f"{batch.hit_rate:.2f}"
    lost = f", {batch.lost} lost" if batch.lost else ""
    return f"{batch.makespan_s:.1f} s, hit rate {hits}{lost}"
