"""A proven lower bound on the makespan of a batch: what no admission schedule can beat.

The proof is in ``docs/lab/lower-bound.md``: for SGLang's scheduler, where prefill and decode passes take turns on one
engine, and for vLLM's, where a pass may be both. With a host tier it holds too, and is weaker.
"""

from __future__ import annotations

from benchmarks.lab.batch import Batch, Plan
from benchmarks.lab.bounds.served import served
from benchmarks.lab.bounds.wave import agent_alone_s, wave_bound_s
from benchmarks.lab.engines import Engine

__all__ = ["alone_s", "lower_bound_s"]


def lower_bound_s(batch: Batch, engine: Engine) -> float:
    """Seconds that a batch takes at least, whoever admits its agents and in whatever order.

    It holds for every run in which no agent is lost that the engine could have served. The lab's virtual loop rounds
    arrivals to a microsecond in the engine's favour: a makespan may be lower by a microsecond a step.

    Raises:
        ValueError: what the engine's decode steps cost is measured and no line (``decode_batch_s``): nothing is proven.
    """
    _check(engine)
    waves = sum(wave_bound_s(plans, engine, cores=batch.cores) for plans in batch.waves)
    return waves + batch.update_s * (len(batch.waves) - 1)


def alone_s(plan: Plan, engine: Engine) -> float:
    """Seconds that an agent takes from its arrival to its end with the engine to itself.

    Its shared prefix is cached, and all it has computed itself. Its stretch is what it took over this.

    Raises:
        ValueError: as above.
    """
    _check(engine)
    return agent_alone_s(served(plan, engine.config), engine, retracts=False)


def _check(engine: Engine) -> None:
    if engine.cost.decode_batch_s:
        raise ValueError(f"no bound is proven for {engine.name}, whose cost model has decode_batch_s")
