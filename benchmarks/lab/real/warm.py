"""Before the first run on a server: its code is loaded, and it is seen to keep and to tell what is cached."""

from __future__ import annotations

from benchmarks.engines.engine import Engine
from benchmarks.engines.wire import EngineError
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.gate import OpenGate
from benchmarks.lab.real.client import Client
from benchmarks.lab.real.play import Clock, play

__all__ = ["warm_up"]

STEPS = (Step(900, 16, 0.0), Step(1100, 16, 0.0), Step(1300, 16, 0.0))
MOST = 0.05
"""Of what both agents held: the last token of a reply is always computed again."""


async def warm_up(engine: Engine, client: Client) -> None:
    """Two agents take three steps: a conversation must find its own KV again.

    Raises:
        EngineError: it does not answer as it should, or computes what it had.
    """
    batch = Batch.of([Plan(f"warm-up-{number}", STEPS) for number in range(2)])
    await engine.flush()
    played = await play(batch, client, OpenGate(), Clock(engine.speedup), seed=0, tick_s=1.0)
    await engine.flush()
    if played.errors:
        raise EngineError(f"the engine does not answer as it should: {played.errors[0]}")
    recomputed = sum(agent.recomputed_tokens for agent in played.agents)
    held = len(batch.plans) * sum(step.prompt for step in STEPS[:-1])
    if recomputed > MOST * held:
        raise EngineError(
            f"two agents alone had {recomputed} of {held} tokens recomputed: the engine does not tell cached "
            "tokens (SGLang: --enable-cache-report, vLLM: --enable-prompt-tokens-details), or its pool is too small"
        )
