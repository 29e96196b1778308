"""Nobody starves: whoever waits is overtaken by older families alone, and served once they have ended or wait no more.

Tried here over random schedules, with everything that takes seats from agents: a window and a budget that change,
growth, patience, agents that park themselves. Three statements that together are the bound:

1. a family is seated only while no older one waits, so one that waits is overtaken by older ones alone;
2. the oldest that waits is the next to be seated;
3. with everybody older ended it is seated as soon as younger ones that hold seats have ended, or are in their tools for
   longer than patience: one seat is always granted. Of finitely many agents that each end the last leaves it its seat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from concur_agents.admission import Admission
from concur_agents.samples import AgentState, Growth

AGENTS = [f"agent{number}" for number in range(8)]
WAITS = (AgentState.WAITING, AgentState.RETURNING)
MOVES = st.sampled_from(["ask", "ask", "pause", "park", "finish", "weigh", "window", "patience"])


@dataclass
class Schedule:
    """Agents with a seat of their own each, and everything that may happen to them."""

    data: st.DataObject
    admission: Admission = field(default_factory=lambda: Admission(1))
    now: float = 0.0
    seatings: int = 0

    def age(self, agent: str) -> int:
        return self.admission._members[agent].family.age

    def waiting(self) -> list[str]:
        """The oldest first."""
        return sorted((each for each in self.admission if self.admission.state(each) in WAITS), key=self.age)

    def seated(self) -> set[str]:
        seats = (AgentState.GENERATING, AgentState.IN_TOOL)
        return {each for each in self.admission if self.admission.state(each) in seats}

    def move(self) -> None:
        seated, waited = self.seated(), self.waiting()
        agent = self.data.draw(st.sampled_from(AGENTS))
        self.act(self.data.draw(MOVES), agent)
        self.now += 1
        self.admission.take_granted()
        new = {each for each in self.seated() - seated if each in self.admission}
        self.seatings += len(new)
        still = [each for each in self.waiting() if each in waited]
        # Statement 1, of those who waited before and after.
        assert all(self.age(one) < self.age(each) for one in new for each in still), (new, still)
        # Statement 2: of those who waited, the seated are the oldest.
        served = [each for each in waited if each in new]
        assert served == [each for each in waited if each in self.admission][: len(served)]

    def act(self, move: str, agent: str) -> None:
        admission, draw = self.admission, self.data.draw
        known = agent in admission
        if move == "ask":
            admission.request(agent)
        elif move == "pause" and known:
            admission.pause(agent, self.now)
        elif move == "park" and known:
            admission.park(agent, self.now)
        elif move == "finish":
            admission.finish(agent, self.now)
        elif move == "weigh":
            admission.weigh(agent, draw(st.integers(0, 20)))
        elif move == "window":
            growth = Growth(seated=draw(st.integers(0, 20)), each=draw(st.integers(0, 20)))
            tokens = draw(st.just(math.inf) | st.integers(0, 40))
            admission.set_window(draw(st.integers(0, 4)), tokens=tokens, growth=growth)
        elif move == "patience":
            admission.give_up_idle(self.now - draw(st.integers(0, 5)))


@given(st.data())
def test_who_waits_is_overtaken_by_older_ones_alone_and_the_oldest_is_next(data: st.DataObject) -> None:
    schedule = Schedule(data)
    for _ in range(data.draw(st.integers(0, 60))):
        schedule.move()


@given(st.data())
def test_with_everybody_older_ended_who_waits_is_served(data: st.DataObject) -> None:
    """Whatever has happened, and whatever the window, the budget and the growth are by then."""
    schedule = Schedule(data)
    for _ in range(data.draw(st.integers(0, 60))):
        schedule.move()
    admission, waiting = schedule.admission, schedule.waiting()
    if not waiting:
        return
    agent = data.draw(st.sampled_from(waiting))
    younger = [each for each in admission if schedule.age(each) > schedule.age(agent)]
    while older := [each for each in admission if schedule.age(each) < schedule.age(agent)]:
        admission.finish(data.draw(st.sampled_from(older)))
    # Younger ones that have seats keep them: each reaches its boundary, where it is parked for want of room, or goes on
    # as one that is in its tool; patience ends that.
    for each in younger:
        if admission.state(each) is AgentState.GENERATING:
            admission.pause(each, schedule.now)
    admission.give_up_idle(math.inf)
    assert admission.state(agent) is AgentState.GENERATING


@given(st.data())
def test_a_wait_ends_within_as_many_ends_as_there_are_older_and_seated_agents(data: st.DataObject) -> None:
    """Without patience, too: agents that began before it each end, and younger ones end as their turn comes."""
    schedule = Schedule(data)
    for _ in range(data.draw(st.integers(0, 60))):
        schedule.move()
    admission, waiting = schedule.admission, schedule.waiting()
    if not waiting:
        return
    agent, ends = waiting[-1], 0
    bound = len(admission) - 1
    while admission.state(agent) is not AgentState.GENERATING:
        others = sorted(schedule.seated())
        assert others, "somebody waits, and nobody has a seat"
        admission.finish(data.draw(st.sampled_from(others)))
        ends += 1
        assert ends <= bound
