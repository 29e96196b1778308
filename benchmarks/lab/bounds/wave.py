"""A lower bound on the time of one wave; each lemma named here is proved in docs/lab/lower-bound.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.lab.batch import Plan
from benchmarks.lab.bounds.costs import (
    alone_step_s,
    chunk_tokens,
    decode_least_s,
    prefill_work_s,
    private_area,
    recall_s,
)
from benchmarks.lab.bounds.host import host_bound_s
from benchmarks.lab.bounds.kept import kept_bound_s
from benchmarks.lab.bounds.served import Served, served
from benchmarks.lab.bounds.together import least_shared, lost_s, may_retract, shared_work_s
from benchmarks.lab.engines import Engine
from concur_agents.emulator.vllm import VllmConfig

__all__ = ["agent_alone_s", "wave_bound_s"]

_CHARGED = (128, 1024, math.inf)
"""Private tokens of a step's prompt from which on lemma 4 charges it with prefill passes. Each gives a bound."""
_HEADS = 16
"""Release times tried in lemma 6. More only cost time: heads matter where agents arrive over time."""


def agent_alone_s(agent: Served, engine: Engine, *, retracts: bool) -> float:
    """Lemma 1: an agent from its arrival to its end."""
    return sum(s.wait_s + alone_step_s(engine, s, retracts=retracts) for s in agent.steps) + agent.end_wait_s


def wave_bound_s(plans: Sequence[Plan], engine: Engine, *, cores: int | None = None) -> float:
    """Seconds that a wave takes at least, under any admission schedule.

    Args:
        plans: its agents.
        engine: what serves them.
        cores: of the machine that their tools run on; None for as many as there are tools.
    """
    wave = [served(plan, engine.config) for plan in plans]
    retracts = may_retract(wave, engine)
    bound = max(agent.plan.arrival_s + agent_alone_s(agent, engine, retracts=retracts) for agent in wave)
    if cores is not None:
        bound = max(bound, host_bound_s(wave, engine, cores, retracts=retracts))
    agents = [agent for agent in wave if agent.steps]
    if not agents:
        return bound
    mixed = isinstance(engine.config, VllmConfig)
    hosted = not mixed and getattr(engine.config, "hicache", None) is not None
    # A copy under way to host memory pins what a retracted request held: lemma 4 then holds for no step.
    for least in _CHARGED if retracts and not hosted else (math.inf,):
        machine = _Machine.of(agents, engine, least, retracts=retracts)
        bound = max(bound, _busy_bound_s(agents, machine, least, retracts=retracts))
        if not (mixed or hosted):
            bound = max(bound, kept_bound_s(agents, engine, least, retracts=retracts))
    return bound


@dataclass(frozen=True, slots=True)
class _Work:
    """What the engine spends on one step at least, and when."""

    head_s: float
    """It cannot begin earlier, in seconds since its wave began."""
    tail_s: float
    """Its wave cannot end sooner after it."""
    prefill_s: float
    """Without bases."""
    decode_s: float
    """Sum of w over its decode tokens."""
    kept_s: float
    """What these cost in decode passes, without bases; 0 where they need not come from one."""
    new: int
    decoded: int
    area: float
    """Sum over its decode tokens of the KV tokens that it alone holds."""
    agent: int
    """Whose it is."""


@dataclass(slots=True)
class _Sum:
    """Of a set of steps."""

    prefill_s: float = 0.0
    decode_s: float = 0.0
    kept_s: float = 0.0
    new: int = 0
    decoded: int = 0
    area: float = 0.0
    most_decoded: int = 0
    """By one agent: it is in a pass once."""
    _by_agent: dict[int, int] = field(default_factory=dict)

    def add(self, work: _Work) -> None:
        """One step more."""
        self.prefill_s += work.prefill_s
        self.decode_s += work.decode_s
        self.kept_s += work.kept_s
        self.new += work.new
        self.decoded += work.decoded
        self.area += work.area
        own = self._by_agent[work.agent] = self._by_agent.get(work.agent, 0) + work.decoded
        self.most_decoded = max(self.most_decoded, own)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """How the engine's work adds up (lemma 5)."""

    engine: Engine
    room: int
    """Tokens of the pool that are left for what requests hold alone."""
    prefill_base_s: float
    """Of a prefill pass's base, what lemma 4 has not given to tokens already."""
    lost_s: float = 0.0
    """Most that decode tokens can cost less than their w together (lemma 4)."""
    mixed_base_s: float
    """Mixed passes: of a decode pass's base, what retracted tokens cannot have saved."""
    mixed_lost_s: float = 0.0

    @classmethod
    def of(cls, agents: Sequence[Served], engine: Engine, least: float, *, retracts: bool) -> _Machine:
        """For a wave, with lemma 4 for steps of ``least`` private tokens and more."""
        cost = engine.cost
        room = engine.config.max_total_tokens - least_shared(agents)
        if not retracts or least == math.inf:
            return cls(engine=engine, room=room, prefill_base_s=cost.prefill_base_s, mixed_base_s=cost.decode_base_s)
        longest = max(agent.longest for agent in agents)
        gain = cost.decode_seq_s - cost.prefill_token_s + cost.prefill_pair_s / 2
        gain = max(0.0, gain, gain + longest * (cost.decode_token_s - cost.prefill_pair_s))
        whole = cost.decode_seq_s + longest * cost.decode_token_s
        partner = min(cost.decode_base_s, max(cost.prefill_base_s, cost.prefill_floor_s))
        return cls(
            engine=engine,
            room=room,
            prefill_base_s=cost.prefill_base_s - min(cost.prefill_base_s, gain),
            lost_s=lost_s(agents, engine, least),
            mixed_base_s=cost.decode_base_s - whole / 2,
            mixed_lost_s=lost_s(agents, engine, least, whole=True) if whole / 2 <= partner else math.inf,
        )

    def busy_s(self, total: _Sum) -> float:
        """Seconds the engine is busy with these steps."""
        config = self.engine.config
        prefills = total.prefill_s + math.ceil(total.new / chunk_tokens(config)) * self.prefill_base_s
        passes = max(total.area / self.room, total.decoded / config.max_running_requests, total.most_decoded)
        if not isinstance(config, VllmConfig):
            return prefills + total.decode_s + passes * self.engine.cost.decode_base_s - self.lost_s
        return max(
            prefills + total.decode_s - self.lost_s,
            total.kept_s + passes * self.mixed_base_s - self.mixed_lost_s,
        )


def _busy_bound_s(agents: Sequence[Served], machine: _Machine, least: float, *, retracts: bool) -> float:
    """Lemmas 5 and 6."""
    engine = machine.engine
    works = [
        work for number, agent in enumerate(agents) for work in _works(agent, number, engine, least, retracts=retracts)
    ]
    total = _Sum(prefill_s=shared_work_s(agents, engine))
    for work in works:
        total.add(work)
    works.sort(key=lambda work: -work.tail_s)
    heads = sorted({work.head_s for work in works})
    tried = heads[:: max(1, len(heads) // _HEADS)]
    return max(machine.busy_s(total), *(_with_tails_s(machine, works, head) for head in tried))


def _with_tails_s(machine: _Machine, works: Sequence[_Work], head_s: float) -> float:
    """Lemma 6: after ``head_s`` come all steps that cannot begin earlier, and after those the least of their tails."""
    best, total = 0.0, _Sum()
    for work in works:  # the longest tail first, so that each beginning of the list is a set worth trying
        if work.head_s >= head_s:
            total.add(work)
            best = max(best, head_s + machine.busy_s(total) + work.tail_s)
    return best


def _works(agent: Served, number: int, engine: Engine, least: float, *, retracts: bool) -> list[_Work]:
    cost = engine.cost
    times = [alone_step_s(engine, step, retracts=retracts) for step in agent.steps]
    tail = agent.end_wait_s + sum(times) + sum(step.wait_s for step in agent.steps)
    head = agent.plan.arrival_s
    works = []
    for index, (step, alone) in enumerate(zip(agent.steps, times, strict=True)):
        head += step.wait_s
        tail -= step.wait_s + alone
        prefill = prefill_work_s(cost, step.prompt, step.new) if step.fresh else 0.0
        charged = step.prompt - agent.plan.prefix_tokens >= least
        kept = decode_least_s(cost, step, retracts=False, charged=True)
        works.append(
            _Work(
                head_s=head,
                tail_s=max(0.0, tail),
                prefill_s=prefill + (recall_s(cost, step.prompt - step.new) if index else 0.0),
                decode_s=decode_least_s(cost, step, retracts=retracts, charged=charged),
                kept_s=kept if charged or not retracts else 0.0,
                new=step.new if step.fresh else 0,
                decoded=step.decoded,
                area=private_area(step, agent.plan.prefix_tokens),
                agent=number,
            )
        )
        head += alone
    return works
