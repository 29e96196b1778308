"""All runs: repeat by repeat, each time beginning with another arm; what is there and counts is left out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engines.engine import Engine
from benchmarks.engines.wire import EngineError
from benchmarks.fleet.real.fronts import AGENT_HEADER, FINAL_HEADER, Front, opened
from benchmarks.fleet.real.record import Record, Run, Setting, Share
from benchmarks.lab.batch import Batch
from benchmarks.lab.gate import OpenGate
from benchmarks.lab.real.bench import turned
from benchmarks.lab.real.cases import Case
from benchmarks.lab.real.client import SGLangClient
from benchmarks.lab.real.play import Clock, Played, play
from benchmarks.lab.real.warm import warm_up
from benchmarks.machine import Usage, describe, session_cpu_s
from concur_agents import EngineReadError

__all__ = ["Bench", "Others", "headers_of"]

READ_S = 10.0
"""Of one reading of the counters, between runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is to be run, on servers that run already."""

    engines: Sequence[Engine]
    case: Case
    fronts: Sequence[Front]
    repeats: int
    agents: int
    seed: int
    path: Path
    """Of the record."""
    folder: Path
    """For what the fronts write."""
    say: Callable[[str], None]

    async def run(self) -> None:
        """Everything that is not there yet.

        Raises:
            EngineError: a server or a front fails.
            ValueError: the record has other things in it.
        """
        record = Record.load(self.path)
        batches = {
            repeat: self.case.batch(self.seed, self.agents, repeat=repeat) for repeat in range(1, self.repeats + 1)
        }
        record.begin(self._setting(), {repeat: self.case.line(batch, repeat) for repeat, batch in batches.items()})
        missing = [
            (front, repeat)
            for repeat in batches
            for front in turned(self.fronts, repeat)
            if not record.has(front.name, repeat)
        ]
        if missing:
            for engine in self.engines:
                await _warm_up(engine)
        for front, repeat in missing:
            run = await self._run(front, batches[repeat], repeat)
            record.add(run)
            record.save(self.path)
            self.say(_line(run))

    def _setting(self) -> Setting:
        first = self.engines[0]
        return Setting(
            workload=self.case.workload,
            seed=self.seed,
            engine={"name": first.name, "scheduling": dict(first.scheduling), **first.about},
            servers=len(self.engines),
            machine=describe(),
        )

    async def _run(self, front: Front, batch: Batch, repeat: int) -> Run:
        urls = [engine.url for engine in self.engines]
        async with opened(front, urls, self.folder / front.name) as running:
            for engine in self.engines:
                await engine.flush()
            before = [await _counted(engine) for engine in self.engines]
            usage = Others([running.session, *(s for engine in self.engines if (s := engine.session) is not None)])
            spent = session_cpu_s(running.session)
            played = await self._play(running.url, batch)
            others, spent = usage.share(), session_cpu_s(running.session) - spent
        for engine in self.engines:
            engine.check()
        after = [await _counted(engine) for engine in self.engines]
        agents = played.agents
        return Run(
            arm=front.name,
            repeat=repeat,
            makespan_s=round(played.makespan_s, 2),
            hit_rate=round(sum(a.cached_tokens for a in agents) / max(1, sum(a.prompt_tokens for a in agents)), 4),
            recomputed_tokens=sum(agent.recomputed_tokens for agent in agents),
            lost=sum(agent.lost for agent in agents),
            servers=tuple(
                Share(prompt_tokens=now.prompt_tokens - was.prompt_tokens, hit_tokens=now.hit_tokens - was.hit_tokens)
                for was, now in zip(before, after, strict=True)
            ),
            front_cpu_s=round(spent, 2),
            others_cpu=None if others is None else round(others, 4),
            error=played.errors[0] if played.errors else None,
        )

    async def _play(self, url: str, batch: Batch) -> Played:
        client = SGLangClient(url, self.engines[0].model, _nothing, headers_of(batch))
        try:
            clock = Clock(self.engines[0].speedup)
            return await play(batch, client, OpenGate(), clock, seed=self.seed, tick_s=1.0)
        finally:
            await client.close()


def headers_of(batch: Batch) -> Callable[[str], Mapping[str, str]]:
    """What requests say beside their bodies, the same in every arm: whose they are, and which is an agent's last."""
    last = {f"{plan.agent_id}/{len(plan.steps) - 1}" for plan in batch.plans}

    def headers(name: str) -> Mapping[str, str]:
        agent, _, _ = name.rpartition("/")
        return {AGENT_HEADER: agent} | ({FINAL_HEADER: "true"} if name in last else {})

    return headers


async def _nothing() -> None:
    """Between two waves a cache would be emptied; here batches have one."""


async def _warm_up(engine: Engine) -> None:
    client = SGLangClient(engine.url, engine.model, engine.flush)
    try:
        await warm_up(engine, client)
    finally:
        await client.close()


async def _counted(engine: Engine) -> Share:
    """The server's own counters of prompt tokens, since it started. Raises EngineError."""
    reader = engine.reader()
    try:
        sample = await asyncio.to_thread(reader.read, READ_S)
    except EngineReadError as error:
        raise EngineError(f"{engine.url}/metrics: {error}") from None
    finally:
        with contextlib.suppress(EngineReadError):
            reader.close()
    return Share(prompt_tokens=sample.query_tokens_total or 0.0, hit_tokens=sample.hit_tokens_total or 0.0)


class Others:
    """CPU time from here on of programs that are not the benchmark's, of which several sessions are.

    Args:
        sessions: process sessions, beside this process itself.
    """

    def __init__(self, sessions: Sequence[int]) -> None:
        self._sessions = sessions
        self._all = Usage(None)
        self._start = time.monotonic(), self._spent_s()

    def share(self) -> float | None:
        """Of all cores, 0..1; None where Linux does not tell."""
        everybody = self._all.others()
        if everybody is None:
            return None
        began, spent = self._start
        ours = (self._spent_s() - spent) / (time.monotonic() - began) / (os.cpu_count() or 1)
        return max(0.0, everybody - ours)

    def _spent_s(self) -> float:
        return sum(map(session_cpu_s, self._sessions))


def _line(run: Run) -> str:
    lost = f", {run.lost} agents lost ({run.error})" if run.lost else ""
    doubt = "" if run.counts else f", disturbed by others ({run.others_cpu:.0%}): it does not count"
    return f"repeat {run.repeat}, {run.arm}: {run.makespan_s:.1f} s, hit rate {run.hit_rate:.2f}{lost}{doubt}"
