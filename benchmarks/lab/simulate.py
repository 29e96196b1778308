"""One cell: a batch on an engine under an arm, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.clock import Loop
from benchmarks.lab.engines import Engine
from benchmarks.lab.gate import Gate
from concur_agents import TokenUsage
from concur_agents.emulator import FinishReason, QueueFullError, Request, TooLongError
from concur_agents.emulator.core import EngineCore
from concur_agents.emulator.driver import Driver
from concur_agents.emulator.radix import TOKEN_BYTES

__all__ = ["AgentResult", "Result", "simulate"]

MOST_NEW = 4096
"""Tokens that an agent's client allows a reply, unless it takes more: what most of them send as max_tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """How one agent fared. Seconds since its batch began."""

    agent_id: str
    wave: int
    arrived_s: float
    ended_s: float
    steps: int
    prompt_tokens: int
    cached_tokens: int
    recomputed_tokens: int
    """Had been in its context, and was computed again."""
    lost: bool
    """It did not get through all its steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a cell came out."""

    makespan_s: float
    agents: tuple[AgentResult, ...]
    retractions: int
    evicted_tokens: int

    @property
    def hit_rate(self) -> float:
        """Of all prompt tokens, the share found cached."""
        return sum(agent.cached_tokens for agent in self.agents) / max(1, sum(a.prompt_tokens for a in self.agents))

    @property
    def recomputed_tokens(self) -> int:
        """Of all agents."""
        return sum(agent.recomputed_tokens for agent in self.agents)

    @property
    def lost(self) -> int:
        """Agents that did not get through."""
        return sum(agent.lost for agent in self.agents)


def simulate(batch: Batch, engine: Engine, arm: Arm, *, tick_s: float = 1.0) -> Result:
    """Run a batch. Deterministic; takes about a millisecond a step of wall-clock time."""
    loop = Loop()
    try:
        result: Result = loop.run_until_complete(_Cell(batch, arm.flags(engine), arm, loop, tick_s).run())
    finally:
        loop.close()
    return result


class _Cell:
    def __init__(self, batch: Batch, engine: Engine, arm: Arm, loop: Loop, tick_s: float) -> None:
        self._batch, self._loop, self._tick_s = batch, loop, tick_s
        self._scheduler: EngineCore = engine.scheduler()
        self._driver = Driver(self._scheduler, until_next=loop.until_next)
        scene = Scene(
            batch=batch,
            reader=engine.reader(self._scheduler),
            clock=loop.time,
            capacity_tokens=engine.config.max_total_tokens,
            tick_s=tick_s,
        )
        self._make_gate = partial(arm.gate, scene)
        self._results: list[AgentResult] = []
        self._cores = contextlib.nullcontext() if batch.cores is None else asyncio.Semaphore(batch.cores)

    async def run(self) -> Result:
        gate = self._make_gate()
        ticking = asyncio.ensure_future(self._tick(gate))
        numbers = {plan.agent_id: number for number, plan in enumerate(self._batch.plans)}
        try:
            for wave, plans in enumerate(self._batch.waves):
                if wave:
                    await self._update_weights()
                await asyncio.gather(*(self._live(gate, plan, numbers[plan.agent_id], wave) for plan in plans))
        finally:
            makespan = self._loop.time()
            ticking.cancel()
            gate.close()
        stats = self._scheduler.stats
        return Result(
            makespan_s=makespan,
            agents=tuple(self._results),
            retractions=stats.retracted_requests,
            evicted_tokens=self._scheduler.cache.evicted_total,
        )

    async def _tick(self, gate: Gate) -> None:
        while True:
            gate.tick()  # the real control loop reads at once too
            await asyncio.sleep(self._tick_s)

    async def _update_weights(self) -> None:
        self._driver.pause()
        await asyncio.sleep(self._batch.update_s)
        self._scheduler.flush()
        self._driver.resume()

    async def _live(self, gate: Gate, plan: Plan, number: int, wave: int) -> None:
        if plan.arrival_s:
            await asyncio.sleep(plan.arrival_s)
        arrived, done, context = self._loop.time(), 0, 0
        prompts = cached = recomputed = 0
        tokens = plan.tokens(number)
        async with gate.agent(plan.agent_id) as run:
            for index, step in enumerate(plan.steps):
                if index:
                    async with self._cores:
                        await asyncio.sleep(plan.steps[index - 1].tool_s)
                async with run.step() as generation:
                    split, end = step.prompt * TOKEN_BYTES, (step.prompt + step.output) * TOKEN_BYTES
                    request = Request(
                        f"{plan.agent_id}/{index}",
                        tokens[:split],
                        tokens[split:end],
                        max_new_tokens=max(step.output, MOST_NEW),
                    )
                    try:
                        await self._driver.submit(request).done.wait()
                    except (TooLongError, QueueFullError):
                        break
                    generation.observe(TokenUsage(prompt=step.prompt, cached=request.cached_tokens, output=request.out))
                if request.finish_reason is not FinishReason.STOP:
                    break
                done += 1
                prompts += step.prompt
                cached += request.cached_tokens
                recomputed += max(0, min(context, step.prompt) - request.cached_tokens)
                context = step.prompt + step.output
        self._results.append(
            AgentResult(
                agent_id=plan.agent_id,
                wave=wave,
                arrived_s=arrived,
                ended_s=self._loop.time(),
                steps=done,
                prompt_tokens=prompts,
                cached_tokens=cached,
                recomputed_tokens=recomputed,
                lost=done < len(plan.steps),
            )
        )
