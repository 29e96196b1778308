"""One run of the batch: every agent a coroutine with an OpenAI client, all through one controller."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from benchmarks.engines.engine import Engine
from benchmarks.real.record import AgentRecord, BatchRecord, WindowRecord
from benchmarks.real.workload import AgentPlan, StepPlan
from concur_agents import Controller, EngineReadError, EngineSample, Law, TokenUsage, WindowChange
from concur_agents.engines import EngineReader, SGLang

__all__ = ["TICK_S", "run_batch"]

TICK_S = 1.0
"""Engine seconds between two readings: the controller's default."""
MIN_TICK_S = 0.05
"""Wall seconds, for an emulator that runs fast: a reading takes some milliseconds of our own time."""
STALE_S = 30.0
"""Engine seconds without news until the fallback: the controller's default."""
REQUEST_TIMEOUT_S = 600.0
"""Wall seconds. Uncontrolled agents may wait long inside the engine; only a hung engine takes this long."""


@dataclass(slots=True)
class _Tally:
    """What one agent has seen so far."""

    steps: int = 0
    prompt: int = 0
    cached: int | None = None
    output: int = 0
    recomputed: int | None = None
    wait_s: float = 0.0
    context: int | None = None

    def count(self, usage: TokenUsage) -> None:
        self.steps += 1
        self.prompt += usage.prompt or 0
        self.output += usage.output or 0
        if usage.cached is not None:
            self.cached = (self.cached or 0) + usage.cached
            self.recomputed = (self.recomputed or 0) + max(0, (self.context or 0) - usage.cached)
        self.context = usage.context


class _Counted:
    """A reader that counts its readings."""

    def __init__(self, reader: EngineReader) -> None:
        self._reader = reader
        self.readings = self.missed = 0

    def read(self, timeout: float) -> EngineSample:
        self.readings += 1
        try:
            return self._reader.read(timeout)
        except EngineReadError:
            self.missed += 1
            raise

    def close(self) -> None:
        self._reader.close()


async def run_batch(
    plans: Sequence[AgentPlan],
    engine: Engine,
    law: Law,
    *,
    ended: Callable[[AgentRecord], None] | None = None,
) -> BatchRecord:
    """Start all agents at once, and wait for the last one. Times in the record are engine seconds from the start.

    Args:
        plans: the agents.
        engine: idle, and with an empty cache.
        law: who may be active.
        ended: called as each agent ends.
    """
    rate = engine.speedup
    reader = _Counted(SGLang(engine.url))
    tick = max(MIN_TICK_S, TICK_S / rate)
    controller = Controller(reader, law=law, tick=tick, stale_after=STALE_S / rate, history=10_000)
    client = AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0, timeout=REQUEST_TIMEOUT_S)
    async with client, controller:
        start = time.monotonic()

        async def live(plan: AgentPlan) -> AgentRecord:
            tally = _Tally()
            error = None
            try:
                await _live(plan, engine, client, controller, tally)
            except Exception as failure:  # noqa: BLE001 - whatever ends an agent is a figure; the others go on
                error = f"{type(failure).__name__}: {failure}"[:300]
            record = AgentRecord(
                agent_id=plan.agent_id,
                steps=tally.steps,
                ended_s=(time.monotonic() - start) * rate,
                wait_s=tally.wait_s * rate,
                prompt_tokens=tally.prompt,
                cached_tokens=tally.cached,
                output_tokens=tally.output,
                recomputed_tokens=tally.recomputed,
                error=error,
            )
            if ended is not None:
                ended(record)
            return record

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(live(plan)) for plan in plans]
        agents = tuple(task.result() for task in tasks)
        changes = tuple(_window(change, start, rate) for change in controller.history())
    return BatchRecord(
        makespan_s=max(agent.ended_s for agent in agents),
        agents=agents,
        window=changes,
        readings=reader.readings,
        missed=reader.missed,
    )


async def _live(plan: AgentPlan, engine: Engine, client: AsyncOpenAI, concur: Controller, tally: _Tally) -> None:
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": plan.system},
        {"role": "user", "content": plan.task},
    ]
    async with concur.agent(plan.agent_id) as agent:
        for step in plan.steps:
            asked = time.monotonic()
            async with agent.step() as seat:
                tally.wait_s += time.monotonic() - asked
                reply, usage = await _generate(client, engine.model, messages, step, agent.headers)
                seat.observe(usage)
                tally.count(usage)
            if step is plan.steps[-1]:
                return
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": step.observation}]
            await asyncio.sleep(step.tool_s / engine.speedup)  # the tool


async def _generate(
    client: AsyncOpenAI,
    model: str,
    messages: list[ChatCompletionMessageParam],
    step: StepPlan,
    headers: dict[str, str],
) -> tuple[str, TokenUsage]:
    """The reply and its usage. Of forced length, since random weights do not know when to stop.

    Raises:
        RuntimeError: the engine gave another length, so the work would not be the same in each run.
    """
    reply = await client.chat.completions.create(
        model=model,
        messages=messages,
        max_tokens=step.output_tokens,
        temperature=0,
        extra_body={"ignore_eos": True},
        extra_headers=headers,
    )
    usage = TokenUsage.of(reply.usage)
    if usage.output != step.output_tokens:
        reason = reply.choices[0].finish_reason
        raise RuntimeError(f"{usage.output} tokens came instead of {step.output_tokens} (finish reason {reason!r})")
    return reply.choices[0].message.content or "", usage


def _window(change: WindowChange, start: float, rate: float) -> WindowRecord:
    sample, population = change.sample, change.population
    return WindowRecord(
        at_s=(change.at - start) * rate,
        window=change.after if math.isfinite(change.after) else None,
        reason=str(change.reason),
        pinned_usage=None if sample is None else sample.pinned_usage,
        occupied_usage=None if sample is None else sample.occupied_usage,
        hit_rate=None if sample is None else sample.hit_rate,
        reuse=None if population is None else population.reuse,
        seated=None if population is None else population.seated,
        waiting=None if population is None else population.waiting,
    )
