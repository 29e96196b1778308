"""The emulator's side: the lab's own simulation, with everything that Dynamo does not know made equal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.batch import Batch
from benchmarks.lab.dynamo.rules import dynamos_rules
from benchmarks.lab.dynamo.timing import Timing, sglang_timing, vllm_timing
from benchmarks.lab.engines import Engine, get_engine
from benchmarks.lab.simulate import Result, simulate
from concur_agents.emulator import EngineConfig, Request, Scheduler
from concur_agents.emulator.radix import TOKEN_BYTES
from concur_agents.emulator.vllm import VllmConfig

__all__ = ["Side", "run", "side"]

UNCHUNKED = 1 << 20
"""Tokens of a prefill pass that bind nobody (see README, what is made equal)."""


class KnownLengths(Scheduler):
    """Clients ask for as many tokens as they are going to get: Dynamo has no other limit to reserve memory by."""

    def submit(self, request: Request) -> None:
        """See :meth:`Scheduler.submit`."""
        request.max_new_tokens = len(request.output) // TOKEN_BYTES
        super().submit(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One engine, and how to say it to Dynamo."""

    engine: Engine
    timing: Timing
    kind: str
    """Dynamo's word for it."""
    page: int
    pool: int
    """Tokens that requests can have."""
    batched: int
    running: int
    spare: int
    """Output tokens of a turn that Dynamo is spared (see :func:`benchmarks.lab.dynamo.trace.turns`)."""


def side(name: str, pool: int, *, chunk: int = UNCHUNKED) -> Side:
    """An engine of the lab with a pool of about so many tokens.

    Args:
        name: as in ``--engines``; one with a host tier has no counterpart.
        pool: tokens.
        chunk: most tokens that a prefill pass of SGLang's kind takes; vLLM's keeps its own limit.

    Raises:
        ValueError: there is no such engine.
    """
    engine = get_engine(name)
    config = engine.config
    if isinstance(config, VllmConfig):
        page = config.page_size
        whole = pool // page * page
        timing = vllm_timing(engine.cost)
        config = replace(config, max_total_tokens=whole + page, context_length=whole)  # a block is vLLM's own
        return Side(
            engine=replace(engine, config=config, cost=timing.cost),
            timing=timing,
            kind="vllm",
            page=page,
            pool=whole,
            batched=config.max_batched_tokens,
            running=config.max_running_requests,
            spare=0,
        )
    timing = sglang_timing(engine.cost)
    config = EngineConfig(
        max_total_tokens=pool, context_length=1 << 20, chunked_prefill_size=chunk, max_prefill_tokens=max(chunk, 16_384)
    )
    return Side(
        engine=replace(engine, config=config, cost=timing.cost, build=KnownLengths),
        timing=timing,
        kind="sglang",
        page=1,
        pool=pool,
        batched=chunk,
        running=config.max_running_requests,
        spare=1,
    )


def run(batch: Batch, our: Side, *, cap: int, as_dynamo: bool = False) -> Result:
    """The lab's own cell under ``fixed:cap``.

    Args:
        batch: what the agents do.
        our: the engine.
        cap: agents at a time.
        as_dynamo: with six rules of SGLang replaced by Dynamo's (``rules.py``); only for SGLang's kind, without chunks.
    """
    (arm,) = parse_arms(f"fixed:{cap}")
    engine = replace(our.engine, build=dynamos_rules(KnownLengths)) if as_dynamo else our.engine
    return simulate(batch, engine, arm)
