"""Seats of several engines in one process."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import Counter
from typing import Any

import pytest

from concur_agents import (
    AgentState,
    Controller,
    ControllerClosedError,
    FixedWindow,
    LifecycleError,
    Outcome,
    UnknownAgentError,
)
from concur_agents.base import BaseController
from concur_agents.fleet.limiter import FleetLimiter
from concur_agents.testing import ManualClock, ScriptedReader

GENERATING, WAITING, RETURNING = AgentState.GENERATING, AgentState.WAITING, AgentState.RETURNING


class World:
    """Engines with a fixed number of seats each; time stands."""

    def __init__(self, window: float = 1, engines: str = "ab") -> None:
        self.clock = ManualClock()
        self.controllers = {
            name: Controller(ScriptedReader(), law=FixedWindow(window), clock=self.clock, background=False)
            for name in engines
        }
        self.limiter = FleetLimiter({name: each.limiter for name, each in self.controllers.items()}, self.clock)
        self.concur = BaseController(self.limiter)

    def known(self, engine: str) -> dict[str, AgentState]:
        return {view.agent_id: view.state for view in self.controllers[engine].agents()}

    def fail(self, engine: str) -> None:
        self.limiter.mark(engine, down=True)

    async def hold(self, agent_id: str, engine: str) -> None:
        """Have a seat of that engine taken."""
        request = self.controllers[engine].limiter.request(agent_id, None)
        assert request.waiter is None

    async def at(self, agent_id: str, engine: str) -> Any:
        """A context of an agent that is to be there."""
        agent = self.concur.agent(agent_id, parent=None)
        await agent.__aenter__()
        self.limiter.pin(agent_id, engine)
        self.limiter._agents[agent_id].pinned = None
        self.limiter._fleet.place(agent_id)
        self.limiter._fleet.move(agent_id, engine, self.clock())
        return agent


@pytest.fixture
def world() -> World:
    return World()


async def asks(agent: Any) -> asyncio.Task[Any]:
    """A task with the agent's next step, which stays in it until told; the step is its result."""

    async def run() -> Any:
        step = agent.step()
        await step.__aenter__()
        return step

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_new_agents_are_spread_and_each_stays_where_it_is() -> None:
    world = World(window=8)
    engines: dict[str, list[str | None]] = {}
    for number in range(8):
        async with world.concur.agent(f"agent-{number}") as agent:
            for _ in range(3):
                async with agent.step():
                    engines.setdefault(agent.agent_id, []).append(agent.engine)
                    assert world.known(str(agent.engine))[agent.agent_id] is GENERATING
            # They overlap in pairs, so that the second finds the first.
            async with world.concur.agent(f"beside-{number}", parent=None) as other, other.step():
                assert other.engine != agent.engine
    assert all(len(set(each)) == 1 for each in engines.values())
    assert world.known("a") == world.known("b") == {}
    assert not world.limiter._agents


async def test_who_waits_at_an_engine_that_fails_goes_on_at_another_as_old_as_it_was(world: World) -> None:
    await world.hold("holder", "a")
    old = await world.at("old", "a")
    waiting = await asks(old)
    assert world.known("a")["old"] is WAITING
    world.clock.advance(50)
    young = await world.at("young", "b")
    running = await (await asks(young))
    younger = await world.at("younger", "b")
    behind = await asks(younger)
    world.fail("a")
    assert world.known("b") == {"young": GENERATING, "younger": WAITING, "old": WAITING}
    await running.__aexit__(None, None, None)
    await young.__aexit__(None, None, None)
    step = await waiting
    assert old.engine == "b"
    assert not behind.done(), "it is younger, though it waited here before"
    await step.__aexit__(None, None, None)
    await old.__aexit__(None, None, None)
    await (await behind).__aexit__(None, None, None)
    await younger.__aexit__(None, None, None)
    assert world.known("b") == {}
    assert set(world.known("a")) == {"holder"}


async def test_who_generates_at_an_engine_that_fails_moves_with_its_next_step(world: World) -> None:
    agent = await world.at("x", "a")
    async with agent.step() as step:
        world.fail("a")
        assert agent.engine == "a"
        async with agent.step():
            assert agent.engine == "a", "a step beside one that runs does not move it"
        step.observe({"prompt_tokens": 900, "completion_tokens": 100})
    assert world.known("a") == {"x": AgentState.IN_TOOL}
    async with agent.step():
        assert agent.engine == "b"
        assert world.known("a") == {}
        view = world.concur.view("x")
        assert view is not None
        assert (view.state, view.steps, view.context_tokens) == (GENERATING, 2, 1000), "as it was"
    await agent.__aexit__(None, None, None)
    assert world.known("b") == {}


async def test_an_engine_that_is_back_gets_new_agents_and_leaves_the_others_where_they_are(world: World) -> None:
    world.fail("a")
    async with world.concur.agent("x") as agent:
        async with agent.step():
            assert agent.engine == "b"
        world.limiter.mark("a", down=False)
        async with agent.step():
            assert agent.engine == "b"
            async with world.concur.agent("y", parent=None) as other, other.step():
                assert other.engine == "a"


async def test_with_no_engine_that_takes_agents_they_wait_where_they_are_until_one_does(world: World) -> None:
    await world.hold("holder", "a")
    await world.hold("holder", "b")
    agent = await world.at("x", "a")
    waiting = await asks(agent)
    world.fail("b")
    world.fail("a")
    assert world.known("a")["x"] is WAITING
    world.limiter.mark("b", down=False)
    assert world.known("b")["x"] is WAITING
    world.controllers["b"].finish("holder")
    await (await waiting).__aexit__(None, None, None)
    await agent.__aexit__(None, None, None)


async def test_an_engine_that_refused_somebody_gets_no_agents_until_it_is_seen_to_take_a_connection_or_for_a_while(
    world: World,
) -> None:
    for ends in (lambda: world.limiter.connected("a"), lambda: world.clock.advance(11)):
        world.concur.refused("a")
        assert not world.limiter.accepts("a")
        async with world.concur.agent("x") as agent, agent.step():
            assert agent.engine == "b"
        ends()
        world.limiter.balance()
        assert world.limiter.accepts("a")
    world.concur.refused("http://elsewhere")  # is passed over


async def test_a_family_moves_together_so_that_no_seat_is_kept_by_who_waits_for_a_sub_agent(world: World) -> None:
    parent = await world.at("x", "a")
    async with parent.step():
        pass
    world.fail("a")
    async with world.concur.agent("y", parent="x") as child:
        async with child.step():
            assert (parent.engine, child.engine) == ("b", "b")
            assert world.known("a") == {}
        assert set(world.known("b")) == {"x", "y"}
    async with parent.step():
        assert world.known("b") == {"x": GENERATING}
    await parent.__aexit__(None, None, None)
    assert world.known("b") == {}


async def test_a_sub_agent_that_generates_is_left_behind_and_follows_with_its_next_step(world: World) -> None:
    parent = await world.at("x", "a")
    async with parent.step():
        pass
    async with world.concur.agent("slow", parent="x") as slow, world.concur.agent("fast", parent="x") as fast:
        async with slow.step() as step:
            async with fast.step():
                pass
            world.fail("a")
            async with fast.step():
                assert (parent.engine, fast.engine, slow.engine) == ("b", "b", "a")
            step.observe({"prompt_tokens": 10})
        async with slow.step():
            assert slow.engine == "b"
            assert world.known("a") == {}
            assert world.controllers["b"].stats().population.seated == 1, "they share their parent's seat"
    async with parent.step():
        assert parent.engine == "b"
    await parent.__aexit__(None, None, None)
    assert world.known("a") == world.known("b") == {}


async def test_a_new_sub_agent_takes_nobody_from_a_seat(world: World) -> None:
    parent = await world.at("x", "a")
    async with parent.step():
        pass
    events = world.controllers["a"].events()
    async with world.concur.agent("y", parent="x") as child, child.step():
        assert child.engine == "a"
    events.close()
    assert [f"{event.agent_id} {event.kind}" for event in events if hasattr(event, "kind")] == [
        "y admitted",
        "y paused",
        "y finished",
    ]
    await parent.__aexit__(None, None, None)


async def test_who_waits_and_never_ran_goes_to_an_idle_engine(world: World) -> None:
    from concur_agents.fleet import EngineLoad

    await world.hold("holder", "a")
    agent = await world.at("x", "a")
    other = await world.at("y", "a")
    waiting, behind = await asks(agent), await asks(other)
    for name, controller in world.controllers.items():
        world.limiter.report(name, EngineLoad.of(controller.stats()))
    world.clock.advance(100)
    world.limiter.balance()
    await (await waiting).__aexit__(None, None, None)
    assert (agent.engine, other.engine) == ("b", "a"), "there is room for one"
    world.controllers["a"].finish("holder")
    await (await behind).__aexit__(None, None, None)
    for each in (agent, other):
        await each.__aexit__(None, None, None)


async def test_a_pinned_agent_is_where_it_is_pinned(world: World) -> None:
    async with world.concur.agent("x") as agent:
        world.limiter.pin("x", "b")
        async with agent.step():
            assert agent.engine == "b"
        world.fail("b")
        async with agent.step():
            assert agent.engine == "b", "its router knows better"
        world.limiter.pin("x", "a")
        async with agent.step():
            assert agent.engine == "a"
    with pytest.raises(UnknownAgentError):
        world.limiter.pin("x", "a")


async def test_primitives_move_too_once_they_have_paused(world: World) -> None:
    await world.concur.admit("x")
    home = world.concur.engine("x")
    assert home is not None
    world.fail(home)
    await world.concur.resume("x")  # generates: stays
    assert world.concur.engine("x") == home
    assert world.concur.pause("x")
    assert not world.concur.pause("x")
    await world.concur.resume("x")
    assert world.concur.engine("x") != home
    assert world.concur.finish("x")
    assert not world.concur.finish("x")
    assert world.concur.engine("x") is None
    assert not world.limiter._agents
    for name in "ab":  # nobody's context is open there
        world.controllers[name].limiter.enter("x")


async def test_who_gives_up_waiting_leaves_nothing(world: World) -> None:
    await world.hold("holder", "a")
    await world.hold("holder", "b")
    waiting = asyncio.create_task(world.concur.admit("x"))
    await asyncio.sleep(0)
    world.fail("a")
    world.fail("b")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert "x" not in world.limiter
    assert not world.limiter._agents


async def test_a_suspended_agent_goes_on_in_a_later_context(world: World) -> None:
    async with world.concur.agent("x") as agent:
        async with agent.step():
            home = agent.engine
        agent.suspend()
    assert world.known(str(home)) == {"x": AgentState.PARKED}
    world.limiter.balance()
    async with world.concur.agent("x") as agent, agent.step():
        assert agent.engine == home
    assert world.known(str(home)) == {}


async def test_an_agent_that_ends_early_may_step_again_in_its_context(world: World) -> None:
    async with world.concur.agent("x") as agent:
        async with agent.step():
            pass
        assert agent.finish(Outcome.COMPLETED)
        world.fail("a")
        async with agent.step():
            pass
    assert world.known("a") == world.known("b") == {}
    assert not world.limiter._agents


async def test_two_agents_need_two_ids(world: World) -> None:
    async with world.concur.agent("x"):
        with pytest.raises(LifecycleError):
            async with world.concur.agent("x"):
                pass


async def test_agents_that_have_lived_elsewhere_are_restored_where_they_were_with_their_families(world: World) -> None:
    view = world.controllers["a"].view
    await world.concur.admit("x")
    seen = world.concur.view("x")
    assert seen is not None
    other = World()
    from dataclasses import replace

    other.limiter.follow("x", "b")
    other.limiter.follow("lost", "nowhere")
    agents = [
        replace(seen, agent_id="child", parent="x", state=AgentState.PARKED),
        replace(seen, agent_id="x", state=AgentState.GENERATING),
        replace(seen, agent_id="lost", state=AgentState.PARKED),
    ]
    other.limiter.restore([(each, 5.0) for each in agents])
    assert other.known("b") == {"x": GENERATING, "child": AgentState.IN_TOOL}
    assert other.known("a") == {"lost": AgentState.PARKED}
    other.limiter.restore([(each, 5.0) for each in agents])
    assert other.known("b") == {"x": GENERATING, "child": AgentState.IN_TOOL}, "said twice"
    assert view("nobody") is None


async def test_who_waits_when_the_controllers_are_closed_is_told(world: World) -> None:
    await world.hold("holder", "a")
    agent = await world.at("x", "a")
    waiting = await asks(agent)
    world.limiter.close()
    for each in world.controllers.values():
        each.close()
    with pytest.raises(ControllerClosedError):
        await waiting
    with pytest.raises(ControllerClosedError):
        await world.concur.admit("new")
    await agent.__aexit__(None, None, None)


async def test_a_finalizer_inside_an_engines_limiter_ends_a_step_without_a_deadlock(world: World) -> None:
    agent = await world.at("x", "a")
    step = agent.step()
    await step.__aenter__()
    limiter = world.controllers["a"].limiter
    held, done = threading.Event(), threading.Event()

    def other() -> None:
        held.wait(30)
        world.limiter.request("y", None)
        done.set()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    with limiter.lock:
        limiter.inside = True
        held.set()
        step.end()  # as the collector might, in the midst of an operation there
        limiter.inside = False
    limiter.deliver()
    await asyncio.to_thread(thread.join, 30)
    assert done.is_set()
    assert world.known("a").get("x") is AgentState.IN_TOOL
    await agent.__aexit__(None, None, None)


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_happens_nobody_is_lost_and_no_seat_stays_taken(seed: int) -> None:  # noqa: C901 - it all happens
    rng = random.Random(seed)
    window = rng.randint(1, 2)
    world = World(window=window, engines="abc")
    ended: Counter[str] = Counter()

    async def run(name: str, parent: str | None = None) -> None:
        async with world.concur.agent(name, parent=parent) as agent:
            for _ in range(rng.randint(1, 4)):
                if parent is None and rng.random() < 0.1:
                    world.limiter.pin(name, rng.choice("abc"))
                async with agent.step() as step:
                    home = agent.engine
                    for _ in range(rng.randint(0, 3)):
                        await asyncio.sleep(0)
                    assert agent.engine == home
                    step.observe({"prompt_tokens": rng.randint(1, 1000)})
                if name.count(".") < 4 and rng.random() < 0.3:
                    below = [run(f"{name}.{rng.random()}", name) for _ in range(rng.randint(1, 2))]
                    await asyncio.gather(*below)
                if rng.random() < 0.1:
                    agent.park()
                if rng.random() < 0.05:
                    agent.finish(Outcome.COMPLETED)
                await asyncio.sleep(0)
        ended[name] += 1

    def run_in_thread(name: str) -> None:
        with world.concur.sync.agent(name) as agent:
            for _ in range(2):
                with agent.step():
                    pass
        ended[name] += 1

    tasks = [asyncio.create_task(run(f"agent-{number}")) for number in range(30)]
    tasks += [asyncio.create_task(asyncio.to_thread(run_in_thread, f"thread-{number}")) for number in range(4)]
    cancelled = rng.sample(tasks[:30], 4)
    async with asyncio.timeout(60):
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            what, engine = rng.random(), rng.choice("abc")
            if what < 0.2:
                world.fail(engine)
            elif what < 0.5:
                world.limiter.mark(engine, down=False)
            elif what < 0.6:
                world.concur.refused(engine)
            elif what < 0.8:
                world.clock.advance(5)
                world.limiter.balance()
            elif cancelled:
                cancelled.pop().cancel()
            for one in world.controllers.values():
                assert one.stats().population.seated <= window
    errors = [task.exception() for task in tasks if not task.cancelled() and task.exception()]
    assert not errors
    assert all(ended[f"agent-{number}"] for number in range(30) if not tasks[number].cancelled())
    gc.collect()
    world.limiter.balance()
    assert not any(world.known(name) for name in "abc")
    assert not world.limiter._agents
    assert not any(each.limiter._entered or each.limiter._lives for each in world.controllers.values())
    assert not world.limiter._fleet._agents
