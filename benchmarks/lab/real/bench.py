"""All runs: repeat by repeat, workload by workload, each time beginning with another arm; what is there is left out."""

from __future__ import annotations

import contextlib
import datetime
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.engines.engine import Engine
from benchmarks.engines.servers import Servers
from benchmarks.engines.wire import EngineError
from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.batch import Batch
from benchmarks.lab.real.backends import Backend, server_flags
from benchmarks.lab.real.cases import Case
from benchmarks.lab.real.play import Clock, Played, play
from benchmarks.lab.real.polled import PolledReader
from benchmarks.lab.real.predict import emulator_of, run_of, sweep_of
from benchmarks.lab.real.store import Head, Run, Store
from benchmarks.lab.real.warm import warm_up
from benchmarks.machine import Usage, describe
from benchmarks.real.calibrate import Points, sweep
from concur_agents.emulator import CostModel

__all__ = ["Bench", "Settings", "turned"]

READING_SHARE = 0.8
"""Of a tick: what a reading may take, as in the controller."""
ATTEMPTS = 3
"""At one run, before a server that keeps dying ends the benchmark."""

_Item = TypeVar("_Item")
_ANY_COST = CostModel(prefill_token_s=1.0, decode_base_s=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is to be run."""

    cases: Sequence[Case]
    arms: Sequence[Arm]
    repeats: int
    seed: int = 0
    agents: int | None = None
    """In place of each case's own number."""
    tick_s: float = 1.0
    """Engine seconds; the controller's default."""
    calibrate: bool = True
    """Before each repeat and after the last: a machine that changes its speed is measured along the way."""


class Bench:
    """Runs settings into a store.

    Args:
        backend: where.
        settings: what.
        store: where to, and what is there already.
        say: told of each run, and of what takes long.
    """

    def __init__(self, backend: Backend, settings: Settings, store: Store, say: Callable[[str], None]) -> None:
        self._backend, self._settings, self._store, self._say = backend, settings, store, say
        self._servers = Servers(backend.open, lambda flags: say(" ".join(["starting", backend.kind, *flags])))
        self._batches = {
            (case.workload, repeat): case.batch(settings.seed, settings.agents, repeat=repeat)
            for case in settings.cases
            for repeat in range(1, settings.repeats + 1)
        }

    async def run(self) -> None:
        """Everything that is not there yet.

        Raises:
            EngineError: the engine cannot be started, or kept failing.
            ValueError: the store has other things in it.
        """
        if not self._pending():
            return
        async with self._servers:
            engine = await self._servers.get(())
            self._begin(engine)
            client = self._backend.client(engine)
            try:
                await warm_up(engine, client)
            finally:
                await client.close()
            groups = self._groups(engine)
            calibrate = self._settings.calibrate
            for repeat in range(1, self._settings.repeats + 1):
                if calibrate and len(self._store.sweeps) < repeat:
                    await self._calibrate()
                for flags, case, arm in self._order(groups, repeat):
                    if not self._store.has(case.workload, arm.name, repeat):
                        await self._attempt(flags, case, arm, repeat)
            if calibrate and len(self._store.sweeps) <= self._settings.repeats:
                await self._calibrate()

    def _pending(self) -> bool:
        """Whether anything is to be started: an arm that is left out every time does count."""
        settings, store = self._settings, self._store
        if store.head is None or (settings.calibrate and len(store.sweeps) <= settings.repeats):
            return True
        return not all(
            store.has(case.workload, arm.name, repeat)
            for case in settings.cases
            for arm in settings.arms
            for repeat in range(1, settings.repeats + 1)
        )

    def _begin(self, engine: Engine) -> None:
        settings = self._settings
        self._store.begin(
            Head(
                started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                engine={
                    "kind": self._backend.kind,
                    "name": engine.name,
                    "scheduling": dict(engine.scheduling),
                    **engine.about,
                },
                machine=describe(),
                tick_s=settings.tick_s,
                seed=settings.seed,
            )
        )
        for case in settings.cases:
            for repeat in range(1, settings.repeats + 1):
                self._store.begin_case(case.line(self._batches[case.workload, repeat], repeat))

    def _groups(self, engine: Engine) -> dict[tuple[str, ...], list[Arm]]:
        """Arms by the flags that their server needs, those without any first."""
        groups: dict[tuple[str, ...], list[Arm]] = defaultdict(list, {(): []})
        plain = emulator_of(self._backend.kind, engine.scheduling, _ANY_COST)
        for arm in self._settings.arms:
            try:
                groups[server_flags(arm, plain, self._backend.starts)].append(arm)
            except EngineError as error:
                self._say(f"left out: {error}")
        return groups

    def _order(
        self, groups: dict[tuple[str, ...], list[Arm]], repeat: int
    ) -> Iterator[tuple[tuple[str, ...], Case, Arm]]:
        """The runs of a repeat. A server is started anew for each set of flags, so these are the outermost."""
        for flags, arms in turned(list(groups.items()), repeat):
            for case in turned(self._settings.cases, repeat):
                for arm in turned(arms, repeat):
                    yield flags, case, arm

    async def _attempt(self, flags: tuple[str, ...], case: Case, arm: Arm, repeat: int) -> None:
        where = f"repeat {repeat}, {case.workload}, {arm.name}"
        for attempt in range(1, ATTEMPTS + 1):
            try:
                engine = await self._servers.get(flags)
                run = await self._run(engine, case, arm, repeat)
            except EngineError as error:
                await self._servers.close()
                if attempt == ATTEMPTS:
                    raise
                self._say(f"{where}: failed, and is run again: {error}")
            else:
                self._store.add(run)
                lost = f", {run.lost} agents lost ({run.error})" if run.lost else ""
                self._say(f"{where}: {run.makespan_s:.1f} s, hit rate {run.hit_rate:.2f}{lost}")
                return

    async def _run(self, engine: Engine, case: Case, arm: Arm, repeat: int) -> Run:
        await engine.flush()
        usage = Usage(engine.session)
        played, reader = await self._play(engine, self._batches[case.workload, repeat], arm)
        others = usage.others()
        engine.check()
        if played.errors and all(not agent.steps for agent in played.agents):
            raise EngineError(f"no agent got an answer: {played.errors[0]}")
        return run_of(
            played,
            workload=case.workload,
            arm=arm.name,
            repeat=repeat,
            others_cpu=others,
            readings=reader.readings,
            missed=reader.missed,
        )

    async def _play(self, engine: Engine, batch: Batch, arm: Arm) -> tuple[Played, PolledReader]:
        tick_s, clock = self._settings.tick_s, Clock(engine.speedup)
        client, reader = self._backend.client(engine), PolledReader(engine.reader())
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(reader.close)
            stack.push_async_callback(client.close)

            async def poll() -> None:
                await reader.poll(READING_SHARE * tick_s)

            await poll()
            gate = arm.gate(
                Scene(
                    batch=batch,
                    reader=reader,
                    clock=clock,
                    capacity_tokens=engine.scheduling["max_total_tokens"],
                    tick_s=tick_s,
                )
            )
            stack.callback(gate.close)
            seed = self._settings.seed
            return await play(batch, client, gate, clock, seed=seed, tick_s=tick_s, before_tick=poll), reader

    async def _calibrate(self) -> None:
        engine = await self._servers.get(())
        points = Points()
        self._say("calibrating: half a minute")
        await sweep(self._backend.probe(engine), points, lambda _: None, seed=len(self._store.sweeps))
        self._store.add(sweep_of(points))


def turned(items: Sequence[_Item], repeat: int) -> Sequence[_Item]:
    """The items beginning with another one in each repeat, so that a machine that slows down favours none."""
    turn = (repeat - 1) % len(items) if items else 0
    return (*items[turn:], *items[:turn])
