"""A batch under a gate, on whatever engine and clock: the same program on a real server and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.gate import Gate, GateRun
from benchmarks.lab.real.client import Client, ClientError
from benchmarks.lab.real.tokens import token_ids
from benchmarks.lab.simulate import AgentResult

__all__ = ["Clock", "Played", "play"]


@dataclass(frozen=True, slots=True)
class Clock:
    """The running loop's time, in engine seconds."""

    rate: float = 1.0
    """Engine seconds in one second of the loop: above 1 for an emulator that runs fast."""

    def __call__(self) -> float:
        """Now."""
        return asyncio.get_running_loop().time() * self.rate

    async def sleep(self, seconds: float) -> None:
        """Let so many engine seconds pass."""
        await asyncio.sleep(max(0.0, seconds) / self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How it went. Engine seconds since the beginning."""

    makespan_s: float
    agents: tuple[AgentResult, ...]
    """In the batch's order."""
    errors: tuple[str, ...]
    """What ended agents before their time."""


async def play(
    batch: Batch,
    client: Client,
    gate: Gate,
    clock: Clock,
    *,
    seed: int,
    tick_s: float,
    before_tick: Callable[[], Awaitable[None]] | None = None,
) -> Played:
    """Run all agents to their ends, and tick the gate meanwhile.

    Args:
        batch: the agents.
        client: an idle engine with an empty cache.
        gate: who may generate; closed by the caller.
        clock: of the loop.
        seed: of the prompts' tokens.
        tick_s: engine seconds between two ticks.
        before_tick: awaited first: reads the engine.

    Raises:
        Exception: what a tick raised; the agents are then cancelled.
    """
    return await _Play(batch, client, gate, clock, seed).run(tick_s, before_tick)


class _Play:
    def __init__(self, batch: Batch, client: Client, gate: Gate, clock: Clock, seed: int) -> None:
        self._batch, self._client, self._gate, self._clock, self._seed = batch, client, gate, clock, seed
        self._start = clock()
        self._errors: list[str] = []

    async def run(self, tick_s: float, before_tick: Callable[[], Awaitable[None]] | None) -> Played:
        ticking = asyncio.ensure_future(self._tick(tick_s, before_tick))
        lives = asyncio.ensure_future(self._live_all())
        try:
            await asyncio.wait({ticking, lives}, return_when=asyncio.FIRST_COMPLETED)
            if not lives.done():
                ticking.result()  # a tick never ends but by an error
            agents = await lives
            makespan = self._now()
        finally:
            for task in (ticking, lives):
                task.cancel()
            await asyncio.gather(ticking, lives, return_exceptions=True)
        return Played(makespan_s=makespan, agents=agents, errors=tuple(self._errors))

    def _now(self) -> float:
        return self._clock() - self._start

    async def _tick(self, tick_s: float, before: Callable[[], Awaitable[None]] | None) -> None:
        due = 0.0
        while True:
            due = max(due + tick_s, self._now())  # a reading that took long puts the next tick off, none is made up for
            await self._clock.sleep(due - self._now())
            if before is not None:
                await before()
            self._gate.tick()

    async def _live_all(self) -> tuple[AgentResult, ...]:
        results: list[AgentResult] = []
        for wave, plans in enumerate(self._batch.waves):
            if wave:
                await self._client.update_weights(self._batch.update_s / self._clock.rate)
            results += await asyncio.gather(*(self._live(plan, wave) for plan in plans))
        return tuple(results)

    async def _live(self, plan: Plan, wave: int) -> AgentResult:
        if plan.arrival_s:
            await self._clock.sleep(plan.arrival_s)
        life = _Life(plan, self._seed)
        arrived = self._now()
        try:
            async with self._gate.agent(plan.agent_id) as run:
                await self._steps(life, run)
        except Exception as error:  # noqa: BLE001 - whatever ends an agent is a figure; the others go on
            told = str(error) if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
            self._errors.append(f"{plan.agent_id}: {told}"[:300])
        return AgentResult(
            agent_id=plan.agent_id,
            wave=wave,
            arrived_s=arrived,
            ended_s=self._now(),
            steps=life.done,
            prompt_tokens=life.prompts,
            cached_tokens=life.cached,
            recomputed_tokens=life.recomputed,
            lost=life.done < len(plan.steps),
        )

    async def _steps(self, life: _Life, run: GateRun) -> None:
        plan = life.plan
        for index, step in enumerate(plan.steps):
            if index:
                await self._clock.sleep(plan.steps[index - 1].tool_s)
            async with run.step() as generation:
                end = step.prompt + step.output
                prompt, planned = life.ids[: step.prompt], life.ids[step.prompt : end]
                reply = await self._client.generate(f"{plan.agent_id}/{index}", prompt, planned)
                generation.observe(reply.usage)
            life.ids[step.prompt : end] = reply.ids
            life.count(step.prompt, step.output, reply.usage.cached or 0)


class _Life:
    """What one agent has seen so far."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.ids = token_ids(plan, seed)
        self.done = self.prompts = self.cached = self.recomputed = self._context = 0

    def count(self, prompt: int, output: int, cached: int) -> None:
        self.done += 1
        self.prompts += prompt
        self.cached += cached
        self.recomputed += max(0, min(self._context, prompt) - cached)
        self._context = prompt + output
