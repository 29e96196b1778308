"""What happens in one run of the gateway, all of it drawn from a seed before it begins."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from benchmarks.chaos.plan import Fault, StepPlan, draw_metrics_faults, draw_step

__all__ = ["ENDS", "FAULTS_WITHIN_S", "PROCESS_FAULTS", "AgentPlan", "ClientPlan", "Plan", "draw_plan"]

LAWS: Final = ("budget", "budget", "concur", "fixed:1", "fixed:2", "fixed:4")
PROCESS_FAULTS: Final = (
    "kill client",
    "kill gateway",
    "kill engine",
    "stop gateway",
    "stop engine",
    "drop connections",
    "end gateway",
)
"""``kill``: SIGKILL, and started again on the same port (clients are not); ``stop``: SIGSTOP for a while; ``end``:
SIGTERM, and started again; ``drop``: of the engine."""
ENDS: Final = ("delete", "final", "silence")
"""How an agent's client says that it has ended: by DELETE, by a header of its last request, or not at all."""

FAULTS_WITHIN_S: Final = 4.0
"""After gateway and engine are there."""
FROZEN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """One agent."""

    name: str
    task: int
    """Agents of one task begin with the same words."""
    starts_s: float
    steps: tuple[StepPlan, ...]
    streams: bool
    ends: str
    """One of ``ENDS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlan:
    """One process with several agents."""

    named: bool
    """Whether its agents say who they are; else the gateway tells by what they say."""
    timeout_s: float
    """After which it gives up on a request, and sends it again."""
    announces: bool
    """Whether it tells its timeout and its tries, as the SDKs do."""
    agents: tuple[AgentPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run."""

    seed: int
    law: str
    pool: int
    """Tokens of the engine's KV pool."""
    speedup: float
    engine_wait_s: float
    clients: tuple[ClientPlan, ...]
    faults: tuple[Fault, ...]
    """In order of time."""

    @property
    def killed(self) -> frozenset[int]:
        """Clients that are killed, if they live that long."""
        return frozenset(fault.who for fault in self.faults if fault.kind == "kill client" and fault.who is not None)

    def step(self, agent: str, number: int) -> StepPlan | None:
        """A step of an agent; None where there is none."""
        for client in self.clients:
            for each in client.agents:
                if each.name == agent:
                    return each.steps[number] if 0 <= number < len(each.steps) else None
        return None

    def steps(self) -> tuple[tuple[StepPlan, ...], ...]:
        """Every agent's."""
        return tuple(agent.steps for client in self.clients for agent in client.agents)


def draw_plan(seed: int) -> Plan:
    """The plan of a seed: the same, whoever draws it and whenever."""
    random_ = random.Random(f"chaos {seed}")
    pool = random_.choice((5_000, 8_000, 12_000))
    law = random_.choice(LAWS)
    most = 2 if law == "fixed:1" else 4  # one after the other they take longest
    named = random_.randrange(2)
    clients = tuple(
        _client(random_, number, most, named=number % 2 == named) for number in range(random_.randint(2, most))
    )
    return Plan(
        seed=seed,
        law=law,
        pool=pool,
        speedup=random_.choice((5.0, 10.0)),
        engine_wait_s=random_.choice((1.0, 60.0)),
        clients=clients,
        faults=_faults(random_, len(clients)),
    )


def _client(random_: random.Random, number: int, most: int, *, named: bool) -> ClientPlan:
    agents = tuple(_agent(random_, f"c{number}a{each}") for each in range(random_.randint(2, most)))
    return ClientPlan(
        named=named,
        timeout_s=random_.choice((0.4, 0.6, 0.8, 1.5, 30.0)),
        announces=random_.random() < 0.4,
        agents=agents,
    )


def _agent(random_: random.Random, name: str) -> AgentPlan:
    task = random_.randrange(4)
    steps = tuple(
        draw_step(random_, 400 + 400 * task if number == 0 else None) for number in range(random_.randint(3, 8))
    )
    return AgentPlan(
        name=name,
        task=task,
        starts_s=round(random_.random() * random_.choice((0.0, 0.5, 2.0)), 3),
        steps=steps,
        streams=random_.random() < 0.5,
        ends=random_.choice(ENDS),
    )


def _faults(random_: random.Random, clients: int) -> tuple[Fault, ...]:
    victims = random_.sample(range(clients), clients)[1:]  # one survives
    faults = []
    for kind in random_.choices(PROCESS_FAULTS, k=random_.randint(1, 4)):
        at_s = round(random_.uniform(0.1, FAULTS_WITHIN_S), 3)
        if kind == "kill client":
            if victims:
                faults.append(Fault(at_s=at_s, kind=kind, who=victims.pop()))
        elif kind.startswith("stop"):
            faults.append(Fault(at_s=at_s, kind=kind, lasts_s=FROZEN_S))
        else:
            faults.append(Fault(at_s=at_s, kind=kind, lasts_s=round(random_.choice((0.0, 1.0)) * random_.random(), 3)))
    faults += draw_metrics_faults(random_, FAULTS_WITHIN_S)
    return tuple(sorted(faults, key=lambda fault: fault.at_s))
