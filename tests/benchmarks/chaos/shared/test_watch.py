"""Whether it is seen that somebody generates without a seat, or that steps are forgotten."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from benchmarks.chaos.executions import Execution
from benchmarks.chaos.shared.notes import WorkerNotes
from benchmarks.chaos.shared.plan import AgentPlan, draw_plan
from benchmarks.chaos.shared.watch import Watch

PLAN = draw_plan(0)
AGENT: AgentPlan = PLAN.workers[0].agents[1]  # the first one has a twin


class World:
    """The first worker's second agent, at the engine, in its worker's notes and as the controller shows it."""

    def __init__(self) -> None:
        self.executions = [Execution(agent=AGENT.name, step=0, attempt=0, begin_s=1.0)]
        self.notes = [WorkerNotes() for _ in PLAN.workers]
        self.shown: list[dict[str, Any]] = []
        pids = [100 + number for number in range(len(PLAN.workers))]
        self.watch = Watch(PLAN, "http://there", pids, lambda: self.executions, lambda: self.notes)

    def show(self, state: str, *, steps: int = 1, worker: str | None = "host-100-0123abcd") -> None:
        self.shown = [{"agent_id": AGENT.agent_id, "state": state, "steps": steps, "worker": worker}]

    async def look(self, times: int = 1) -> None:
        def answer(_: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"agents": self.shown})

        async with httpx.AsyncClient(base_url="http://there", transport=httpx.MockTransport(answer)) as http:
            for _ in range(times):
                await self.watch.look(http)

    def end(self) -> None:
        """The engine answers, and the worker notes it."""
        self.executions[0].end_s = 9.0
        self.notes[0].done.add((AGENT.name, 0, 0))


@pytest.mark.parametrize("state", ["in_tool", "parked", "waiting"])
async def test_one_that_generates_without_a_seat_is_seen(state: str) -> None:
    world = World()
    world.show(state)
    await world.look(2)
    world.end()
    (problem,) = world.watch.seatless()
    assert problem == f"{(AGENT.name, 0, 0)} ran and was {state}"


async def test_one_that_is_forgotten_while_its_worker_is_there_is_seen() -> None:
    world = World()
    world.show("generating")
    world.shown[0]["agent_id"] = "another"
    await world.look(2)
    world.end()
    assert len(world.watch.seatless()) == 1


async def test_one_look_may_be_early_or_late() -> None:
    world = World()
    world.show("in_tool")
    await world.look()
    world.show("generating")
    await world.look()
    world.show("in_tool")
    await world.look()
    world.end()
    assert world.watch.seatless() == []


async def test_who_generates_with_a_seat_is_no_problem() -> None:
    world = World()
    world.show("generating")
    await world.look(3)
    world.end()
    assert (world.watch.seatless(), world.watch.forgotten, world.watch.looks) == ([], [], 3)


async def test_one_whose_worker_has_not_registered_or_goes_without_control_is_no_problem() -> None:
    world = World()
    world.show("in_tool", worker=None)
    await world.look(2)
    world.show("in_tool")
    world.notes[0].lost.append(1.0)
    await world.look(2)
    world.end()
    assert world.watch.seatless() == []


async def test_a_try_that_was_given_up_is_no_problem() -> None:
    world = World()
    world.show("in_tool")
    await world.look(2)
    world.executions[0].end_s = 9.0
    assert world.watch.seatless() == []


async def test_steps_that_are_forgotten_are_seen() -> None:
    world = World()
    world.notes[0].done = {(AGENT.name, number, 0) for number in range(4)}
    world.show("in_tool", steps=4)
    await world.look()
    assert world.watch.forgotten == []
    world.show("in_tool", steps=1)
    await world.look()
    assert world.watch.forgotten == [f"{AGENT.name} had done 4 steps, and the controller knew of 1"]
