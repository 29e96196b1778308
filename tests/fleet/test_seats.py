"""Seats of several engines as one, on desks in this process."""

import asyncio
import random
import threading
from collections import Counter

import pytest

from concur_agents import AgentState, ControllerClosedError, LifecycleError, Outcome, UnknownAgentError
from concur_agents.base import BaseController
from concur_agents.fleet.board import Board
from concur_agents.fleet.seats import FleetSeats


class Places:
    """Engines, of which each may refuse; agents are placed in turns."""

    def __init__(self, *engines):
        self.engines, self.down, self.placed, self.asked = engines, set(), {}, 0

    @property
    def all_engines(self):
        return self.engines

    async def place(self, agent_id, parent):
        self.asked += 1
        await asyncio.sleep(0)
        up = [each for each in self.engines if each not in self.down] or list(self.engines)
        if self.placed.get(agent_id) not in up:
            above = self.placed.get(parent)
            self.placed[agent_id] = above if above in up else up[self.asked % len(up)]
        return self.placed[agent_id]

    def accepts(self, engine):
        return engine not in self.down


class BoardPlaces(Places):
    """As the directory places them."""

    def __init__(self, *engines):
        super().__init__(*engines)
        self.board = Board()
        for engine in engines:
            self.board.join(engine)

    async def place(self, agent_id, parent):
        self.asked += 1
        await asyncio.sleep(0)
        for engine in self.engines:
            self.board.fleet.mark(engine, down=engine in self.down)
        return self.board.place(agent_id, parent, 0.0)


class World:
    """Two engines with one seat each, and agents."""

    def __init__(self, local, window=1.0, engines=("a", "b"), places=Places):
        self.local = {name: local(window) for name in engines}
        self.places = places(*engines)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.seats = FleetSeats(self.places, lambda name: self.local[name].seats(), self.run)
        self.concur = BaseController(self.seats)

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def fail(self, engine):
        self.places.down.add(engine)
        self.seats.refused(engine)

    def known(self, engine):
        return {view.agent_id: view.state for view in self.local[engine].controller.agents()}

    def flush(self):
        for seats in tuple(self.seats._seats.values()):
            seats.flush()

    def close(self):
        self.seats.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        for local in self.local.values():
            local.controller.close()


@pytest.fixture
def world(local):
    world = World(local)
    yield world
    world.close()


async def seen(look):
    """Wait until it is true."""
    async with asyncio.timeout(30):
        while not look():  # noqa: ASYNC110 - what is looked at tells nobody
            await asyncio.sleep(0.005)


async def hold(world, agent_id, engine):
    """Have that engine's only seat taken."""
    world.places.placed[agent_id] = engine
    await world.concur.admit(agent_id)


async def test_an_agent_stays_at_its_engine_and_the_directory_is_asked_once(world):
    async with world.concur.agent("x") as agent:
        for _ in range(5):
            async with agent.step():
                assert world.known(world.seats.engine("x")) == {"x": AgentState.GENERATING}
    assert world.places.asked == 1
    world.flush()
    assert world.known("a") == world.known("b") == {}


async def test_a_sub_agent_shares_its_parents_seat_at_its_parents_engine(world):
    async with world.concur.agent("x") as agent:
        async with agent.step():
            pass
        async with world.concur.agent("y") as child, child.step():
            assert world.seats.engine("y") == world.seats.engine("x")


async def test_a_family_moves_together_so_that_no_seat_is_kept_by_who_waits_for_a_sub_agent(world):
    world.places.placed["x"] = "a"
    async with world.concur.agent("x") as agent:
        async with agent.step():
            pass
        world.fail("a")
        async with world.concur.agent("y") as child, child.step():
            assert (world.seats.engine("x"), world.seats.engine("y")) == ("b", "b")
            world.flush()
            assert world.known("a") == {}
        async with agent.step():
            assert world.known("b") == {"x": AgentState.GENERATING}
    world.flush()
    assert world.known("b") == {}


async def test_who_waits_at_an_engine_that_fails_goes_on_at_another(world):
    await hold(world, "holder", "a")
    world.places.placed["x"] = "a"

    async def run():
        async with world.concur.agent("x") as agent, agent.step():
            return world.seats.engine("x")

    waiting = asyncio.create_task(run())
    await seen(lambda: world.known("a").get("x") is AgentState.WAITING)
    world.fail("a")
    assert await waiting == "b"
    world.flush()
    assert world.known("a") == {"holder": AgentState.GENERATING}
    assert world.known("b") == {}


async def test_who_moves_is_as_old_as_it_was(world):
    await hold(world, "holder", "a")
    await hold(world, "other-holder", "b")
    world.places.placed |= {"old": "a", "young": "b"}
    waiting = {}
    for name, engine in (("old", "a"), ("young", "b")):
        waiting[name] = asyncio.create_task(world.concur.admit(name))
        await seen(lambda name=name, engine=engine: world.known(engine).get(name) is AgentState.WAITING)
    world.fail("a")
    await seen(lambda: world.known("b").get("old") is AgentState.WAITING)
    world.concur.finish("other-holder")
    await waiting["old"]
    assert not waiting["young"].done(), "it is younger, though it waited here before"
    world.concur.finish("old")
    await waiting["young"]


async def test_who_generates_at_an_engine_that_fails_moves_at_its_next_step(world):
    world.places.placed["x"] = "a"
    async with world.concur.agent("x") as agent:
        async with agent.step():
            world.fail("a")
            await asyncio.sleep(0)
            assert world.seats.engine("x") == "a"
        async with agent.step():
            assert world.seats.engine("x") == "b"
            world.flush()
            assert world.known("a") == {}


async def test_a_second_step_beside_one_that_runs_does_not_move_the_agent(world):
    world.places.placed["x"] = "a"
    async with world.concur.agent("x") as agent, agent.step():
        world.fail("a")
        async with agent.step():
            assert world.seats.engine("x") == "a"


async def test_primitives_move_too_once_they_have_paused(world):
    await hold(world, "x", "a")
    world.fail("a")
    await world.concur.resume("x")  # generates: stays
    assert world.seats.engine("x") == "a"
    world.concur.pause("x")
    await world.concur.resume("x")
    assert world.seats.engine("x") == "b"
    assert world.concur.finish("x")
    assert not world.concur.finish("x")


async def test_with_no_engine_that_takes_agents_they_wait_where_they_are(world):
    await hold(world, "holder", "a")
    world.places.placed["x"] = "a"
    waiting = asyncio.create_task(world.concur.admit("x"))
    await seen(lambda: "x" in world.known("a"))
    asked = world.places.asked
    world.fail("b")
    world.fail("a")
    await seen(lambda: world.places.asked > asked)
    world.concur.finish("holder")
    await waiting
    assert world.places.asked <= asked + 3, "it is not asked again and again"


async def test_only_who_waits_is_moved_to_an_idle_engine(world):
    await hold(world, "holder", "a")
    world.places.placed["x"] = "a"
    waiting = asyncio.create_task(world.concur.admit("x"))
    await seen(lambda: "x" in world.known("a"))
    world.seats.move({"x": "b", "holder": "b", "nobody": "b"})
    await waiting
    assert (world.seats.engine("x"), world.seats.engine("holder")) == ("b", "a")


async def test_a_pinned_agent_is_where_it_is_pinned(world):
    world.places.placed["x"] = "a"
    async with world.concur.agent("x") as agent:
        world.seats.pin("x", "b")
        async with agent.step():
            assert world.seats.engine("x") == "b"
        world.fail("b")
        async with agent.step():
            assert world.seats.engine("x") == "b", "its router knows better"
        world.seats.pin("x", "a")
        async with agent.step():
            assert world.seats.engine("x") == "a"
    with pytest.raises(UnknownAgentError):
        world.seats.pin("x", "a")


async def test_who_gives_up_waiting_leaves_nothing(world):
    await hold(world, "holder", "a")
    world.places.placed["x"] = "a"
    waiting = asyncio.create_task(world.concur.admit("x"))
    await seen(lambda: "x" in world.known("a"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await seen(lambda: "x" not in world.known("a"))


async def test_threads_wait_and_move_as_coroutines_do(world):
    await hold(world, "holder", "a")
    world.places.placed["x"] = "a"

    def run():
        with world.concur.sync.agent("x") as agent, agent.step():
            return world.seats.engine("x")

    waiting = asyncio.create_task(asyncio.to_thread(run))
    await seen(lambda: "x" in world.known("a"))
    world.fail("a")
    assert await waiting == "b"


async def test_who_waits_when_the_controller_is_closed_is_told_and_nobody_new_is_admitted(world):
    await hold(world, "holder", "a")
    world.places.placed["x"] = "a"
    waiting = asyncio.create_task(world.concur.admit("x"))
    await seen(lambda: "x" in world.known("a"))
    await asyncio.to_thread(world.seats.close)
    with pytest.raises(ControllerClosedError):
        await waiting
    with pytest.raises(ControllerClosedError):
        await world.concur.admit("new")
    assert not any(seats._background.alive for seats in world.seats._seats.values()), "its thread has not ended"


async def test_a_suspended_agent_goes_on_in_a_later_context(world):
    async with world.concur.agent("x") as agent:
        async with agent.step():
            pass
        agent.suspend()
    world.flush()
    engine = world.seats.engine("x")
    assert world.known(engine) == {"x": AgentState.PARKED}
    async with world.concur.agent("x") as agent, agent.step():
        assert world.seats.engine("x") == engine
    world.flush()
    assert world.known(engine) == {}


async def test_an_agent_that_ends_early_may_step_again_in_its_context(world):
    async with world.concur.agent("x") as agent:
        async with agent.step():
            pass
        assert agent.finish(Outcome.COMPLETED)
        async with agent.step():
            pass
    world.flush()
    assert world.known("a") == world.known("b") == {}


async def test_two_agents_of_one_process_need_two_ids(world):
    async with world.concur.agent("x"):
        with pytest.raises(LifecycleError):
            async with world.concur.agent("x"):
                pass


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_nobody_is_lost_and_no_seat_stays_taken(local, seed):  # noqa: C901 - it all happens
    rng = random.Random(seed)
    world = World(local, window=2.0, engines=("a", "b", "c"), places=BoardPlaces)
    ended = Counter()
    try:

        async def run(name, parent=None):
            async with world.concur.agent(name, parent=parent) as agent:
                for _ in range(rng.randint(1, 4)):
                    if parent is None and rng.random() < 0.1:
                        world.seats.pin(name, rng.choice("abc"))
                    async with agent.step():
                        await asyncio.sleep(rng.random() / 100)
                    if rng.random() < 0.2:
                        await run(f"{name}.{rng.random()}", name)
                    if rng.random() < 0.1:
                        agent.park()
            ended[name] += 1

        def run_in_thread(name):
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
                await asyncio.sleep(rng.random() / 50)
                what, engine = rng.random(), rng.choice("abc")
                if what < 0.3:
                    world.fail(engine)
                elif what < 0.6:
                    world.places.down.discard(engine)
                elif what < 0.8:
                    world.seats.move({f"agent-{rng.randrange(30)}": engine})
                elif cancelled:
                    cancelled.pop().cancel()
                for one in world.local.values():
                    assert one.controller.stats().population.seated <= 2
        errors = [task.exception() for task in tasks if not task.cancelled() and task.exception()]
        assert not errors
        assert all(ended[f"agent-{number}"] for number in range(30) if not tasks[number].cancelled())
        await seen(lambda: not any(world.known(name) for name in "abc"))
        assert not world.seats._here
    finally:
        await asyncio.to_thread(world.close)
