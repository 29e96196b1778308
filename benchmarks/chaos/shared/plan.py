"""What happens in one run of a shared controller, all of it drawn from a seed before it begins."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import Final

from benchmarks.chaos.plan import LONG_STALL, Fault, StepPlan, draw_metrics_faults, draw_step

__all__ = [
    "FAULTS",
    "FAULTS_WITHIN_S",
    "IN_FLIGHT_S",
    "LEASE_S",
    "PATIENCE_S",
    "AgentPlan",
    "Plan",
    "WorkerPlan",
    "draw_plan",
    "family_of",
    "worker_of",
]

LAWS: Final = ("fixed:1", "fixed:2", "fixed:3", "fixed:4", "budget", "concur")
LEASE_S: Final = 4.0
IN_FLIGHT_S: Final = 2.0
PATIENCE_S: Final = 2.0
FAULTS_WITHIN_S: Final = 5.0
"""After controller and engine are there."""

GENTLE: Final = (
    "cut connections",
    "drop connections",
    "kill engine",
    "stop engine",
    "set-clock controller",
    "set-clock worker",
)
"""Faults after which the controller still knows everything, exactly. ``cut``: of all workers, to the controller;
``drop``: all of the engine's; ``set-clock``: the wall clock jumps."""
FAULTS: Final = (
    *GENTLE,
    "kill worker",
    "kill controller",
    "kill controller",
    "end controller",
    "stop worker",
    "stop worker",
    "stop controller",
    "stop controller",
    "hold-up worker",
    "cut-off worker",
    "jump-clock worker",
    "jump-clock controller",
    "jump-clock everybody",
)
"""``kill``: SIGKILL, ``end``: SIGTERM, and servers come back; ``stop``: SIGSTOP for a while; ``hold-up``: what a worker
and the controller say to one another comes late, ``cut-off``: or never; ``jump-clock``: the monotonic clock jumps."""
STOPS_S: Final = {
    "engine": (1.0,),
    "controller": (0.5, PATIENCE_S + 1, LEASE_S + 2),
    "worker": (0.5, LEASE_S + 1.5, LEASE_S + IN_FLIGHT_S + 2),
}
"""Shorter and longer than what others take for gone."""
JUMPS_S: Final = (2.0, LEASE_S + 1, 40.0, 3600.0)
_LONG = 0.06
"""Share of steps that take long."""
_WALL_JUMPS_S: Final = (-86_400.0, -60.0, 60.0, 86_400.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """One agent, or sub-agent."""

    name: str
    agent_id: str
    """What it calls itself to Concur: two workers may give the same."""
    starts_s: float
    steps: tuple[StepPlan, ...]
    streams: bool
    inside: bool
    """Whether a request that failed is sent again within the same step, or in another one."""
    own_loop: bool
    """Whether it lives in an event loop and a thread of its own."""
    waits_s: float | None
    """After which it gives up waiting for a seat, and asks again; None for never."""
    timeout_s: float
    """After which it gives up on a request to the engine."""
    parks_after: tuple[int, ...]
    """Steps after which it gives its seat back by itself."""
    subs: tuple[tuple[int, AgentPlan], ...] = ()
    """Sub-agents, each with the step after which it runs."""


def worker_of(agent: str) -> int:
    """By an agent's name."""
    return int(agent[1 : agent.index("a")])


def family_of(agent: str) -> str:
    """Sub-agents share the seat of the agent that began them."""
    return agent.partition("s")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """One process with several agents."""

    agents: tuple[AgentPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run."""

    seed: int
    law: str
    pool: int
    """Tokens of the engine's KV pool."""
    speedup: float
    workers: tuple[WorkerPlan, ...]
    faults: tuple[Fault, ...]
    """In order of time."""

    @property
    def window(self) -> int | None:
        """Agents that may be seated; None where the law decides."""
        kind, _, number = self.law.partition(":")
        return int(number) if kind == "fixed" else None

    @property
    def gentle(self) -> bool:
        """Whether the controller knows everything all the time."""
        return {fault.kind for fault in self.faults} <= {*GENTLE, "metrics"}

    def agents(self) -> tuple[AgentPlan, ...]:
        """All of them, sub-agents too."""
        those = [agent for worker in self.workers for agent in worker.agents]
        return (*those, *(sub for agent in those for _, sub in agent.subs))

    def step(self, agent: str, number: int) -> StepPlan | None:
        """A step of an agent; None where there is none."""
        for each in self.agents():
            if each.name == agent:
                return each.steps[number] if 0 <= number < len(each.steps) else None
        return None

    def steps(self) -> tuple[tuple[StepPlan, ...], ...]:
        """Every agent's."""
        return tuple(agent.steps for agent in self.agents())


def draw_plan(seed: int) -> Plan:
    """The plan of a seed: the same, whoever draws it and whenever."""
    random_ = random.Random(f"chaos shared {seed}")
    law = random_.choice(LAWS)
    most = 2 if law == "fixed:1" else 3  # one after the other they take longest
    twins = random_.random() < 0.25
    workers = tuple(
        WorkerPlan(
            agents=tuple(
                _agent(random_, f"c{number}a{each}", "twin" if twins and each == 0 and number < 2 else None)
                for each in range(random_.randint(2, most))
            )
        )
        for number in range(random_.randint(2, most))
    )
    return Plan(
        seed=seed,
        law=law,
        pool=random_.choice((8_000, 12_000)),
        speedup=random_.choice((6.0, 12.0)),
        workers=workers,
        faults=_faults(random_, len(workers)),
    )


def _agent(random_: random.Random, name: str, agent_id: str | None, *, sub: bool = False) -> AgentPlan:
    count = random_.randint(1, 2) if sub else random_.randint(3, 6)
    steps = tuple(_step(random_, first=number == 0) for number in range(count))
    return AgentPlan(
        name=name,
        agent_id=agent_id or name,
        starts_s=0.0 if sub else round(random_.random() * random_.choice((0.0, 0.5, 2.0)), 3),
        steps=steps,
        streams=random_.random() < 0.3,
        inside=random_.random() < 0.5,
        own_loop=not sub and random_.random() < 0.25,
        waits_s=random_.choice((None, None, None, 0.5)),
        timeout_s=random_.choice((0.8, 30.0, 30.0)),
        parks_after=tuple(number for number in range(count) if random_.random() < 0.05),
        subs=() if sub else _subs(random_, name, count),
    )


def _step(random_: random.Random, *, first: bool) -> StepPlan:
    step = draw_step(random_, 400 if first else None)
    return dataclasses.replace(step, fault=LONG_STALL) if random_.random() < _LONG else step


def _subs(random_: random.Random, name: str, count: int) -> tuple[tuple[int, AgentPlan], ...]:
    if random_.random() < 0.75:
        return ()
    after = random_.randrange(count)
    return tuple((after, _agent(random_, f"{name}s{each}", None, sub=True)) for each in range(random_.randint(1, 2)))


def _faults(random_: random.Random, workers: int) -> tuple[Fault, ...]:
    victims = random_.sample(range(workers), workers)[1:]  # one survives
    faults = []
    kinds = GENTLE if random_.random() < 0.15 else FAULTS
    for kind in random_.choices(kinds, k=random_.randint(1, 4)):
        verb, _, whom = kind.partition(" ")
        who = random_.randrange(workers) if whom == "worker" else None
        if kind == "kill worker":
            if not victims:
                continue
            who = victims.pop()
        lasts_s = round(random_.choice((0.0, 1.0)) * random_.random(), 3)
        if verb == "stop":
            lasts_s = random_.choice(STOPS_S[whom])
        elif verb in ("hold-up", "cut-off"):
            lasts_s = random_.choice(STOPS_S["worker"])
        by = {"set-clock": _WALL_JUMPS_S, "jump-clock": JUMPS_S}.get(verb, (0.0,))
        faults.append(
            Fault(
                at_s=round(random_.uniform(0.1, FAULTS_WITHIN_S), 3),
                kind=kind,
                lasts_s=lasts_s,
                who=who,
                by_s=random_.choice(by),
                at_work=verb in ("kill", "stop") and whom != "engine" and random_.random() < 0.5,
            )
        )
    faults += draw_metrics_faults(random_, FAULTS_WITHIN_S)
    return tuple(sorted(faults, key=lambda fault: fault.at_s))
