"""The admission state machine: random lives against a model of the rules.

The rule of order: a seat is only ever granted to a family that is older than every other one that waits. So whoever
waits is overtaken by older ones alone, of which there are finitely many, and nobody starves.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from concur_agents.admission import Admission, Restored
from concur_agents.families import Family
from concur_agents.samples import AgentState, Growth

AGENTS = st.sampled_from([f"agent{number}" for number in range(12)])
WINDOWS = st.one_of(st.integers(0, 8), st.floats(0, 8), st.just(math.inf))
BUDGETS = st.just(math.inf) | st.integers(0, 40)
RESTORED = st.builds(
    Restored,
    agent_id=AGENTS,
    parent=st.none() | AGENTS,
    state=st.sampled_from([AgentState.GENERATING, AgentState.IN_TOOL, AgentState.PARKED]),
    born=st.integers(-10, 0),
    has_run=st.booleans(),
    tokens=st.integers(0, 20),
)
GROWTHS = st.builds(Growth, seated=st.integers(0, 20), each=st.integers(0, 20))


class AdmissionMachine(RuleBasedStateMachine):
    """Random lives of up to 12 agents and their sub-agents, checked against the rules after every step."""

    @initialize(window=WINDOWS)
    def start(self, window: float) -> None:
        self.admission = Admission(window)
        self.weights: dict[str, int] = {}
        self.told: set[str] = set()  # who was told to generate, and has not paused, finished or withdrawn
        self.queued: list[str] = []  # who was told to wait, in order
        self.now = 0.0
        self.expected = {0}  # what new ones were ever taken to hold

    def hear(self) -> None:
        """What the controller does after each operation: wake whom a seat was granted."""
        granted = self.admission.take_granted()
        for agent in granted:
            assert agent in self.queued, f"{agent} was granted twice, or without asking"
            self.queued.remove(agent)
            self.told.add(agent)
        ages = [self.age(agent) for agent in granted]
        assert ages == sorted(ages), "a younger one was served before an older one"
        assert not ages or all(self.age(agent) > ages[-1] for agent in self.queued), "an older one still waits"
        for agent in self.admission.take_parked():
            assert self.admission.state(agent) in (AgentState.PARKED, AgentState.RETURNING)
            assert self.admission.parent(agent) is None

    @rule(agent=AGENTS, parent=st.none() | AGENTS)
    def request(self, agent: str, parent: str | None) -> None:
        seats_before, was_told = self.seated(), agent in self.told
        granted = self.admission.request(agent, parent if parent != agent else None, self.now)
        assert not was_told or granted
        if granted:
            self.told.add(agent)
            # Granted at once: on a seat its family had, or on one that fits the window and no older one waits for.
            if self.seated() > seats_before:
                assert all(self.age(each) > self.age(agent) for each in self.queued)
            assert self.seated() in (seats_before, seats_before + 1)
            assert self.seated() == seats_before or self.seated() <= self.limit()
            assert self.seated() == seats_before or self.seated() == 1 or self.held() <= self.admission.tokens
        elif agent not in self.queued:
            assert self.seated() >= (self.limit() if self.admission.tokens == math.inf else 1)
            self.queued.append(agent)
        self.hear()

    @rule(agent=AGENTS)
    def pause(self, agent: str) -> None:
        if agent in self.admission:
            assert self.admission.pause(agent, self.now) == (agent in self.told)
            self.told.discard(agent)
            self.hear()

    @rule(agent=AGENTS)
    def park(self, agent: str) -> None:
        if agent in self.admission:
            self.admission.park(agent, self.now)
            self.told.discard(agent)
            self.hear()

    @rule(agent=AGENTS, keep=st.booleans())
    def withdraw(self, agent: str, keep: bool) -> None:
        if agent in self.told or agent in self.queued:
            self.admission.withdraw(agent, keep=keep)
            assert agent in self.admission or not keep
            self.told.discard(agent)
            self.queued = [each for each in self.queued if each != agent]
            self.hear()

    @rule(agent=AGENTS)
    def finish(self, agent: str) -> None:
        known = agent in self.admission
        ended = self.admission.finish(agent, self.now)
        assert bool(ended) == known
        self.told -= set(ended)
        self.queued = [each for each in self.queued if each not in ended]
        self.hear()

    @rule(window=WINDOWS, tokens=BUDGETS, growth=GROWTHS)
    def set_window(self, window: float, tokens: float, growth: Growth) -> None:
        told_before = set(self.told)
        self.admission.set_window(window, tokens=tokens, growth=growth)
        self.hear()
        assert told_before <= self.told, "a shrink interrupted a generation"

    @rule(agent=AGENTS, tokens=st.integers(0, 20))
    def weigh(self, agent: str, tokens: int) -> None:
        told_before = set(self.told)
        self.admission.weigh(agent, tokens)
        if agent in self.admission:
            self.weights[agent] = tokens
        self.hear()
        assert told_before <= self.told, "growth interrupted a generation"

    @rule(agents=st.lists(RESTORED, max_size=6, unique_by=lambda each: each.agent_id))
    def restore(self, agents: list[Restored]) -> None:
        """Agents come from elsewhere, or what was thought of them was wrong; as the controller does it."""
        for each in agents:
            if each.agent_id in self.queued:
                self.withdraw(each.agent_id, True)
            elif each.agent_id in self.told and each.state is not AgentState.GENERATING:
                self.pause(each.agent_id)
        told_before = set(self.told)
        self.admission.restore([replace(each, born=self.now + each.born) for each in agents])
        for each in agents:
            assert each.agent_id in self.admission
            if each.tokens:
                self.weights[each.agent_id] = each.tokens
            if each.state is AgentState.GENERATING:
                self.told.add(each.agent_id)
        restored = {self.family(each.agent_id) for each in agents}
        for agent in [each for each in self.queued if self.family(each) in restored]:
            if self.admission.was_granted(agent):  # along with its family, whatever its age
                self.queued.remove(agent)
                self.told.add(agent)
                self.admission._granted.remove(agent)
        self.hear()
        assert told_before <= self.told, "restoring interrupted a generation"

    @rule(seconds=st.integers(0, 5))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(tokens=st.integers(0, 20))
    def expect(self, tokens: int) -> None:
        self.expected.add(tokens)
        self.admission.expect(tokens)
        self.hear()

    @rule(patience=st.integers(0, 5))
    def give_up_idle(self, patience: int) -> None:
        told_before, waited, seats = set(self.told), bool(self.queued), self.in_tool()
        self.admission.give_up_idle(self.now - patience)
        self.hear()
        assert told_before <= self.told, "whoever generates gave up its seat"
        assert waited or self.in_tool() == seats, "a seat was given up to nobody"

    @precondition(lambda self: self.queued)
    @rule()
    def drain(self) -> None:
        """Whatever happened, everyone queued is served once those before them finish, the oldest first."""
        while self.queued:
            oldest = min(self.queued, key=self.age)
            assert self.told or self.in_tool(), "agents wait, and nobody holds a seat"
            self.admission.finish(next(iter(self.told or self.in_tool())))
            self.told &= set(self.admission)
            self.queued = [each for each in self.queued if each in self.admission]
            before = list(self.queued)
            self.hear()
            served = [agent for agent in before if agent not in self.queued]
            if served and oldest in self.admission:
                assert oldest in served

    @invariant()
    def what_agents_were_told_is_what_admission_holds(self) -> None:
        states = {agent: self.admission.state(agent) for agent in self.admission}
        assert {agent for agent, state in states.items() if state is AgentState.GENERATING} == self.told
        waiting = (AgentState.WAITING, AgentState.RETURNING)
        assert {agent for agent, state in states.items() if state in waiting} == set(self.queued)

    @invariant()
    def seats_exceed_what_may_be_seated_only_until_a_boundary(self) -> None:
        population, over = self.admission.population(), self.admission.over
        # Every seat above is in mid-generation: nobody in a tool kept one.
        assert population.generating >= over
        assert population.seated - over <= max(1, self.limit())
        if over == 0:
            assert population.seated <= 1 or self.held() <= self.admission.tokens
        if self.admission.tokens == math.inf:
            assert over == max(0, population.seated - self.limit())

    @invariant()
    def what_the_seated_hold_adds_up(self) -> None:
        self.weights = {agent: tokens for agent, tokens in self.weights.items() if agent in self.admission}
        assert self.admission.population().held == self.held()
        held: dict[Family, int] = {}
        for agent in self.admission:
            family = self.admission._members[agent].family
            held[family] = held.get(family, 0) + self.weights.get(agent, 0)
        assert all(family.held == tokens for family, tokens in held.items())
        assert all(family.tokens in (tokens, *self.expected) for family, tokens in held.items() if family.seated)

    @invariant()
    def ages_follow_when_families_were_born(self) -> None:
        families = sorted({self.family(agent) for agent in self.admission}, key=lambda each: each.age)
        assert [each.born for each in families] == sorted(each.born for each in families)
        assert len({each.age for each in families}) == len(families)

    @invariant()
    def no_seat_is_idle_while_someone_waits(self) -> None:
        if self.queued:
            assert self.seated() >= (self.limit() if self.admission.tokens == math.inf else 1)

    @invariant()
    def counts_add_up(self) -> None:
        population = self.admission.population()
        assert population.seated == population.generating + population.in_tool
        assert min(population.seated, population.in_tool, population.parked, population.waiting) >= 0
        assert bool(len(self.admission)) == bool(population.seated + population.parked + population.waiting)

    def seated(self) -> int:
        return self.admission.population().seated

    def held(self) -> float:
        """Tokens of every family that has a seat."""
        seated = {self.admission._members[agent].family for agent in self.told | self.in_tool()}
        return sum(family.tokens for family in seated)

    def age(self, agent: str) -> int:
        return self.admission._members[agent].family.age

    def family(self, agent: str) -> Family:
        return self.admission._members[agent].family

    def limit(self) -> float:
        return max(1, math.floor(self.admission.window)) if math.isfinite(self.admission.window) else math.inf

    def in_tool(self) -> set[str]:
        return {agent for agent in self.admission if self.admission.state(agent) is AgentState.IN_TOOL}


TestAdmissionMachine = AdmissionMachine.TestCase
TestAdmissionMachine.settings = settings(max_examples=1000, stateful_step_count=50, deadline=None)
