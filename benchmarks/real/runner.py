"""All arms, interleaved: repeat by repeat, each repeat beginning with another arm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from benchmarks.engines.engine import Engine
from benchmarks.engines.wire import EngineError
from benchmarks.engines.words import text
from benchmarks.machine import Usage
from benchmarks.real.batch import run_batch
from benchmarks.real.record import AgentRecord, RunRecord
from benchmarks.real.workload import AgentPlan, StepPlan, Workload
from benchmarks.swebench.arms import Arm
from concur_agents import Uncontrolled

__all__ = ["Watch", "order", "run_arms", "warm_up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who wants to know how it goes."""

    began: Callable[[int, Arm], None]
    """Called with repeat and arm before each run."""
    agent_ended: Callable[[AgentRecord], None]
    between: Callable[[], Awaitable[None]] | None = None
    """Called before each repeat and after the last, with the engine idle and its cache empty."""
    done: Callable[[RunRecord], None]
    """Called with each run that got to its end."""


def order(arms: Sequence[Arm], repeats: int) -> Iterator[tuple[int, Arm]]:
    """Repeat (from 1) and arm of each run. Each arm comes first, second, ... equally often if repeats allow it.

    So a machine that slowly changes its speed favours none.
    """
    for repeat in range(repeats):
        turn = repeat % len(arms)
        yield from ((repeat + 1, arm) for arm in (*arms[turn:], *arms[:turn]))


async def run_arms(
    engine: Engine,
    workload: Workload,
    arms: Sequence[Arm],
    repeats: int,
    watch: Watch,
) -> None:
    """Run every arm ``repeats`` times, each with an empty cache.

    Args:
        engine: what they run on.
        workload: the same in each run.
        arms: in the first repeat's order.
        repeats: >= 1.
        watch: told how it goes.

    Raises:
        EngineError: the engine cannot be used any more.
    """
    plans = workload.plan()
    await warm_up(engine)
    last = 0
    for repeat, arm in order(arms, repeats):
        await engine.flush()
        if repeat != last and watch.between is not None:
            await watch.between()
        last = repeat
        watch.began(repeat, arm)
        usage = Usage(engine.session)
        batch = await run_batch(plans, engine, arm.law, ended=watch.agent_ended)
        others = usage.others()
        engine.check()
        watch.done(RunRecord(arm=arm.name, repeat=repeat, batch=batch, others_cpu=others))
    await engine.flush()
    if watch.between is not None:
        await watch.between()


async def warm_up(engine: Engine) -> None:
    """Let two agents take three steps, and check that their conversations find their own KV again.

    The first requests load code and fill allocators. And where text does not turn back into the tokens it came from,
    every reply would be a miss of its own, which no admission can prevent.

    Raises:
        EngineError: an agent failed, or the second and third step found less than 95% of the context before them.
    """
    rng = Random("warm-up")
    plans = [_short_life(f"warm-up-{number}", rng) for number in range(2)]
    await engine.flush()
    batch = await run_batch(plans, engine, Uncontrolled())
    await engine.flush()
    for agent in batch.agents:
        if agent.error is not None:
            raise EngineError(f"the engine does not answer a chat: {agent.error}")
    if batch.recomputed_tokens is None:
        raise EngineError("the engine's replies do not tell cached tokens: start it with --enable-cache-report")
    held = sum(agent.prompt_tokens for agent in batch.agents) / 2  # at least that much was there before
    if batch.recomputed_tokens > 0.05 * held:
        raise EngineError(
            f"two agents alone had {batch.recomputed_tokens} of about {held:.0f} tokens recomputed: the engine's "
            "tokenizer does not turn text back into the tokens it came from, or its pool is too small"
        )


def _short_life(name: str, rng: Random) -> AgentPlan:
    step = StepPlan(output_tokens=16, tool_s=0.0, observation="")
    steps = [replace(step, observation=text(rng, 150)), replace(step, observation=text(rng, 150)), step]
    return AgentPlan(agent_id=name, system=text(rng, 100), task=text(rng, 900), steps=tuple(steps))
