"""The desk against workers that die, stop and come back, and a network that loses, repeats and delays what they say.

The model is the workers' truth: which agent runs where, and whether it generates. Whatever happens, the controller
comes to agree with it: no seat is leaked, nobody is lost, and the window is respected.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from concur_agents import AgentState, Controller, FixedWindow
from concur_agents.remote.desk import Desk
from concur_agents.testing import ManualClock, ScriptedReader

LEASE_S, IN_FLIGHT_S = 4.0, 10.0
AGENTS = st.sampled_from([f"agent{number}" for number in range(8)])
WORKERS = st.integers(0, 2)
WINDOWS = st.sampled_from([1, 2, 3, math.inf])


@dataclass
class Agent:
    """As its worker knows it."""

    doing: str = "new"
    """new, asking, generating, tool, parked."""
    parent: str | None = None
    seq: int = 0
    known: bool = False
    steps: int = 0
    born: float = 0.0


@dataclass
class Worker:
    name: str
    joined: bool = False
    """In the controller's eyes, as far as it knows."""
    frozen: bool = False
    seq: int = 0
    agents: dict[str, Agent] = field(default_factory=dict)

    def next(self) -> int:
        self.seq += 1
        return self.seq


class DeskMachine(RuleBasedStateMachine):
    @initialize(window=WINDOWS)
    def start(self, window: float) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.window = window
        self.lives = 0
        self.begin()
        self.workers = [self.new_worker() for _ in range(3)]

    def begin(self) -> None:
        self.controller = Controller(ScriptedReader(), law=FixedWindow(self.window), clock=self.clock, background=False)
        self.desk = Desk(self.controller, lease_s=LEASE_S, in_flight_s=IN_FLIGHT_S, clock=self.clock)
        self.said: list[tuple[str, dict[str, Any]]] = []

    def new_worker(self) -> Worker:
        self.lives += 1
        return Worker(f"worker{self.lives}")

    # --- the network ---

    def send(self, operation: str, **body: Any) -> dict[str, Any]:
        self.said.append((operation, body))
        answer = self.loop.run_until_complete(self.desk.handle(operation, body))
        assert answer.get("error", {}).get("kind") not in ("invalid", "failed", "full"), answer
        return answer

    def say(self, worker: Worker, operation: str, agent: str | None = None, **body: Any) -> dict[str, Any]:
        """As a worker says it: it registers first if it has to."""
        if agent is not None:
            body["agent"] = agent
        answer = self.send(operation, worker=worker.name, **body)
        if answer.get("error", {}).get("kind") == "unknown_worker":
            self.join(worker)
            if "seq" in body and operation not in ("admit", "resume"):
                body["seq"] = body["seq"]  # older than the registration: void, as what it says is in there
            elif "seq" in body and agent is not None:
                body["seq"] = worker.agents[agent].seq = worker.next()
            answer = self.send(operation, worker=worker.name, **body)
        return answer

    def join(self, worker: Worker) -> None:
        now = self.clock()
        reports = [
            {
                "agent": name,
                "parent": agent.parent,
                "state": {
                    "asking": "parked" if agent.steps else "waiting",
                    "generating": "generating",
                    "tool": "in_tool",
                }.get(agent.doing, "parked" if agent.steps else "waiting"),
                "age_s": now - agent.born,
                "steps": agent.steps,
            }
            for name, agent in worker.agents.items()
            if agent.doing != "new"
        ]
        answer = self.send("register", worker=worker.name, seq=worker.next(), agents=reports)
        assert "error" not in answer, answer
        worker.joined = True
        for agent in worker.agents.values():
            agent.known = agent.doing != "new"
            agent.seq = 0
        for name in answer.get("taken", ()):  # it goes on under another name, without control
            self.forget(worker, name)

    def forget(self, worker: Worker, name: str) -> None:
        del worker.agents[name]
        for child in [each for each, agent in worker.agents.items() if agent.parent == name]:
            if child in worker.agents:
                self.forget(worker, child)

    # --- what workers do ---

    def ask(self, worker: Worker, name: str) -> None:
        """Until something is known: granted or not."""
        agent = worker.agents[name]
        for _ in range(4):
            agent.seq = agent.seq or worker.next()
            answer = self.say(
                worker,
                "resume" if agent.known else "admit",
                name,
                seq=agent.seq,
                **({} if agent.known else {"parent": agent.parent}),
            )
            kind = answer.get("error", {}).get("kind")
            if kind is None:
                agent.known, agent.doing = True, "asking"
                if answer.get("granted"):
                    agent.doing, agent.seq, agent.steps = "generating", 0, agent.steps + 1
                return
            agent.seq = 0
            if kind == "taken":
                self.forget(worker, name)
                return
            assert kind in ("unknown_agent", "lifecycle"), answer
            agent.known = kind == "lifecycle"
        raise AssertionError(f"{name} is neither admitted nor resumed")

    @rule(index=WORKERS, name=AGENTS, parent=st.none() | AGENTS)
    def request(self, index: int, name: str, parent: str | None) -> None:
        worker = self.workers[index]
        if worker.frozen:
            return
        agent = worker.agents.get(name)
        if agent is None:
            above = parent if parent in worker.agents and parent != name else None
            agent = worker.agents[name] = Agent(born=self.clock(), parent=above)
        if agent.doing != "generating":
            self.ask(worker, name)

    @rule(index=WORKERS, name=AGENTS)
    def request_and_lose_the_answer(self, index: int, name: str) -> None:
        worker = self.workers[index]
        agent = worker.agents.get(name)
        if worker.frozen or agent is None or agent.doing not in ("tool", "parked", "asking") or not agent.known:
            return
        agent.doing = "asking"
        agent.seq = agent.seq or worker.next()
        self.say(worker, "resume", name, seq=agent.seq)

    @rule(index=WORKERS, name=AGENTS, again=st.booleans(), park=st.booleans())
    def pause(self, index: int, name: str, again: bool, park: bool) -> None:
        worker = self.workers[index]
        agent = worker.agents.get(name)
        if worker.frozen or agent is None or agent.doing != "generating":
            return
        agent.doing = "parked" if park else "tool"
        seq = worker.next()
        for _ in range(1 + again):
            self.say(worker, "park" if park else "pause", name, seq=seq)

    @rule(index=WORKERS, name=AGENTS)
    def withdraw(self, index: int, name: str) -> None:
        worker = self.workers[index]
        agent = worker.agents.get(name)
        if worker.frozen or agent is None or agent.doing != "asking":
            return
        agent.doing, agent.seq = "parked" if agent.steps else "new", 0
        self.say(worker, "withdraw", name, seq=worker.next(), keep=True)

    @rule(index=WORKERS, name=AGENTS, again=st.booleans())
    def finish(self, index: int, name: str, again: bool) -> None:
        worker = self.workers[index]
        if worker.frozen or name not in worker.agents:
            return
        self.forget(worker, name)
        seq = worker.next()
        for _ in range(1 + again):
            self.say(worker, "finish", name, seq=seq)

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def hear_something_again_late(self, data: st.DataObject) -> None:
        operation, body = data.draw(st.sampled_from(self.said))
        if any(body["worker"] == worker.name for worker in self.workers):
            self.loop.run_until_complete(self.desk.handle(operation, body))

    # --- what happens to them ---

    @rule(index=WORKERS)
    def freeze(self, index: int) -> None:
        self.workers[index].frozen = True

    @rule(index=WORKERS)
    def thaw(self, index: int) -> None:
        worker = self.workers[index]
        worker.frozen = False
        self.beat(worker)

    def beat(self, worker: Worker) -> None:
        if self.send("heartbeat", worker=worker.name).get("error"):
            self.join(worker)

    @rule(index=WORKERS)
    def kill(self, index: int) -> None:
        self.workers[index] = self.new_worker()

    @rule(seconds=st.integers(1, 8))
    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)
            for worker in self.workers:
                if not worker.frozen:
                    self.beat(worker)
            self.desk.sweep()

    @rule()
    def restart_the_controller(self) -> None:
        self.controller.close()
        self.begin()
        for worker in self.workers:
            if not worker.frozen:
                self.beat(worker)

    @rule(window=WINDOWS)
    def change_the_window(self, window: float) -> None:
        self.window = window
        self.controller.limiter.set_window(window, new_epoch=False)

    # --- what must hold ---

    def states(self) -> dict[str, AgentState]:
        return {view.agent_id: view.state for view in self.controller.agents()}

    @invariant()
    def who_generates_has_its_seat_and_who_does_not_is_not_taken_to(self) -> None:
        states = self.states()
        for worker in self.workers:
            if worker.name not in self.desk.book.workers:
                continue
            for name, agent in worker.agents.items():
                if worker.frozen and name not in self.desk.book.workers[worker.name].agents:
                    continue  # somebody went on with it
                if agent.doing == "generating":
                    assert states.get(name) is AgentState.GENERATING, f"{name} lost its seat: {states.get(name)}"
                elif agent.doing in ("tool", "parked", "new"):
                    assert states.get(name) is not AgentState.GENERATING, f"{name} has ended its generation"

    @invariant()
    def the_window_is_respected(self) -> None:
        admission = self.controller.limiter._admission
        population = admission.population()
        assert population.seated - admission.over <= max(1, self.window)
        assert population.generating >= admission.over

    @invariant()
    def the_desk_and_the_seats_know_the_same(self) -> None:
        held = {name for name in self.desk.book.held if name in self.controller.limiter}
        assert held == set(self.states())
        assert self.controller.limiter._entered >= held
        mine = {(name, worker.name) for worker in self.desk.book.workers.values() for name in worker.agents}
        assert {name for name, _ in mine} | set(self.desk.book.adrift) == set(self.desk.book.held)

    @rule()
    def in_the_end_all_agree_and_everybody_is_served(self) -> None:
        for worker in self.workers:
            worker.frozen = False
            self.beat(worker)
        self.wait(int(LEASE_S + IN_FLIGHT_S) + 2)
        truth = {
            name: agent for worker in self.workers for name, agent in worker.agents.items() if agent.doing != "new"
        }
        states = self.states()
        kept = {name for worker in self.workers for name, agent in worker.agents.items() if agent.doing == "new"}
        assert set(truth) <= set(states) <= set(truth) | kept, "somebody is lost, or was left behind"
        generating = {name for name, agent in truth.items() if agent.doing == "generating"}
        assert generating <= {name for name, state in states.items() if state is AgentState.GENERATING}
        for _ in range(100):
            for worker, name in self.those("asking"):
                if name in worker.agents:
                    self.ask(worker, name)
            asking, going = self.those("asking"), self.those("generating", "tool", "parked")
            if not asking and not going:
                break
            assert going, f"{[name for _, name in asking]} wait, and nobody else is there"
            for worker, name in going:
                if name in worker.agents:
                    self.finish(self.workers.index(worker), name, False)
        for worker in self.workers:
            for name in list(worker.agents):
                self.finish(self.workers.index(worker), name, False)
        self.desk.sweep()  # those that ended with their parents
        assert self.states() == {}
        assert self.controller.stats().population.seated == 0
        assert not self.desk.book.held
        assert not self.desk.book.adrift

    def those(self, *doing: str) -> list[tuple[Worker, str]]:
        return [
            (worker, name) for worker in self.workers for name, agent in worker.agents.items() if agent.doing in doing
        ]

    def teardown(self) -> None:
        if hasattr(self, "controller"):
            self.in_the_end_all_agree_and_everybody_is_served()
            self.controller.close()
            self.loop.close()


TestDeskMachine = DeskMachine.TestCase
TestDeskMachine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
