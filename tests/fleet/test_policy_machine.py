"""Whatever happens in whatever order, everyone is somewhere, is counted once, and moves for a reason only."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from concur_agents.fleet import EngineLoad, Fleet

NAMES = st.sampled_from("abcd")
AGENTS = st.sampled_from([f"agent-{number}" for number in range(8)])
LOADS = st.builds(
    EngineLoad,
    waiting=st.integers(0, 5),
    seated=st.integers(0, 5),
    held=st.floats(0, 2000),
    window=st.sampled_from([1.0, 5.0, float("inf")]),
    tokens=st.sampled_from([500.0, 1000.0, float("inf")]),
    capacity=st.sampled_from([None, 1000.0, 3000.0]),
    refill_s=st.sampled_from([None, 5.0, 50.0]),
)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.fleet.join("a")
        self.loads: dict[str, EngineLoad] = {}
        self.parents: dict[str, str | None] = {}
        self.contexts: dict[str, float] = {}
        self.stolen: dict[str, float] = {}
        self.now = 0.0

    def known(self, engine: str) -> bool:
        return engine in self.fleet.engines

    @rule(engine=NAMES)
    def join(self, engine: str) -> None:
        self.fleet.join(engine)

    @rule(engine=NAMES, down=st.booleans())
    def mark(self, engine: str, down: bool) -> None:
        if self.known(engine):
            self.fleet.mark(engine, down=down)

    @rule(engine=NAMES)
    def drain(self, engine: str) -> None:
        if self.known(engine):
            self.fleet.drain(engine)

    @precondition(lambda self: len(self.fleet.engines) > 1)
    @rule(engine=NAMES)
    def leave(self, engine: str) -> None:
        if self.known(engine) and len(self.fleet.engines) > 1:
            self.fleet.leave(engine)
            self.loads.pop(engine, None)

    @rule(engine=NAMES, load=LOADS)
    def report(self, engine: str, load: EngineLoad) -> None:
        if self.known(engine):
            self.fleet.report(engine, load)
            self.loads[engine] = load

    @rule(agent=AGENTS, parent=st.none() | AGENTS)
    def place(self, agent: str, parent: str | None) -> None:
        if agent not in self.parents and parent != agent:
            where = self.fleet.place(agent, parent)
            self.parents[agent] = parent if parent in self.parents else None
            if self.parents[agent] is not None:
                assert where == self.fleet.at(parent)
            elif any(self.fleet.accepts(engine) for engine in self.fleet.engines):
                assert self.fleet.accepts(where)

    @rule(agent=AGENTS)
    def forget(self, agent: str) -> None:
        self.fleet.forget(agent)
        self.parents.pop(agent, None)
        self.contexts.pop(agent, None)
        self.stolen.pop(agent, None)
        for child, parent in self.parents.items():
            if parent == agent:
                self.parents[child] = "gone"

    @rule(agent=AGENTS, seconds=st.floats(0, 30))
    def step(self, agent: str, seconds: float) -> None:
        self.now += seconds
        if agent not in self.parents:
            return
        before = self.fleet.at(agent)
        usable = [engine for engine in self.fleet.engines if self.fleet.accepts(engine)]
        where = self.fleet.next(agent, self.now)
        assert where == self.fleet.at(agent)
        if self.fleet.accepts(before):
            assert where == before
        elif usable:
            assert where in usable

    @rule(agent=AGENTS, context=st.none() | st.floats(0, 800))
    def stepped(self, agent: str, context: float | None) -> None:
        self.fleet.stepped(agent, context, self.now)
        if agent in self.parents and context is not None:
            self.contexts[agent] = context

    @rule(agents=st.lists(AGENTS, unique=True), carried=st.booleans(), seconds=st.floats(0, 30))
    def steal(self, agents: list[str], carried: bool, seconds: float) -> None:
        self.now += seconds
        relatives = set(self.parents.values())
        for move in self.fleet.steal(agents, self.now):
            assert move.agent_id in agents
            assert self.parents[move.agent_id] in (None, "gone")
            assert move.agent_id not in relatives
            assert move.source != move.target
            assert self.fleet.accepts(move.target)
            assert self.loads.get(move.target, EngineLoad()).waiting == 0
            assert self.loads[move.source].waiting > 0
            refill_s = self.loads[move.source].refill_s
            assert self.now - self.stolen.get(move.agent_id, -1e9) >= (30.0 if refill_s is None else refill_s)
            if carried:
                self.fleet.move(move.agent_id, move.target, self.now)
                self.stolen[move.agent_id] = self.now
        # Loads are as the engines said, until they say otherwise.
        for engine, load in self.loads.items():
            self.fleet.report(engine, load)

    @invariant()
    def everyone_is_somewhere_and_counted_once(self) -> None:
        homes = [self.fleet.at(agent) for agent in self.parents]
        assert None not in homes
        assert all(pressure >= -1e-6 for pressure in self.fleet.pressures().values())

    def teardown(self) -> None:
        engine = self.fleet.engines[0]
        self.fleet.join(engine)
        self.fleet.mark(engine, down=False)
        for agent in list(self.parents):
            self.fleet.move(agent, engine, self.now)
            self.fleet.next(agent, self.now)
        assert self.fleet.agents(engine) == len(self.parents)
        assert sum(self.fleet.agents(each) for each in self.fleet.engines) == len(self.parents)
        self.fleet.report(engine, EngineLoad(capacity=1.0))
        for agent in list(self.parents):
            self.fleet.forget(agent)
        assert self.fleet.pressures()[engine] == pytest.approx(0.0, abs=1e-6)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
