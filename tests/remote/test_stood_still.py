"""A worker that was stopped, or whose machine slept, does not take the controller to be gone; in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Coroutine, Iterator
from typing import Any

import async_solipsism
import pytest

from concur_agents import AgentState, Controller, FixedWindow, Outcome
from concur_agents.remote.awake import Awake
from concur_agents.remote.desk import Desk
from concur_agents.remote.lives import RemoteRequest
from concur_agents.remote.own import OwnAgents
from concur_agents.remote.protocol import UnreachableError
from concur_agents.testing import ScriptedReader

PATIENCE_S, LEASE_S, LATENCY_S = 2.0, 6.0, 0.5


class Loop(async_solipsism.EventLoop):  # type: ignore[misc]
    """Its time passes in no time, and can jump."""

    def stand_still(self, seconds: float) -> None:
        self._selector.clock.advance(seconds)


class Slow:
    """To a desk in this loop, with everything under way for a while."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.under_way: list[str] = []
        self.hung = False

    async def call(self, operation: str, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        self.under_way.append(operation)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(LATENCY_S)
                if self.hung:
                    await asyncio.Event().wait()
                answer = await self.desk.handle(operation, dict(body))
                await asyncio.sleep(LATENCY_S)
                return answer
        except TimeoutError:
            raise UnreachableError("timed out") from None
        finally:
            self.under_way.remove(operation)

    async def until(self, operation: str) -> None:
        async with asyncio.timeout(300):
            while operation not in self.under_way:  # noqa: ASYNC110 - a moment of virtual time
                await asyncio.sleep(0.01)

    async def aclose(self) -> None:
        pass


class World:
    """One worker with an agent that generates and one that waits, in a window of one."""

    def __init__(self) -> None:
        clock = asyncio.get_running_loop().time
        self.controller = Controller(ScriptedReader(), law=FixedWindow(1), background=False, clock=clock)
        self.desk = Desk(self.controller, lease_s=LEASE_S, clock=clock)
        self.way = Slow(self.desk)
        self.states: dict[str, AgentState] = {}
        self.own = OwnAgents(lambda: self.way, "w", "there", self.states, lease_s=None, patience_s=PATIENCE_S)
        self.watching = asyncio.create_task(self.desk.watch())
        self.own.connect()

    def ask(self, agent: str) -> RemoteRequest:
        self.own.entered(agent)
        request = RemoteRequest(agent, None, step=True)
        self.own.requested(request)
        return request

    async def granted(self, request: RemoteRequest) -> None:
        async with asyncio.timeout(300):
            await asyncio.wrap_future(request.waiter)

    async def close(self) -> None:
        await self.own.close(PATIENCE_S)
        self.watching.cancel()
        self.controller.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    with warnings.catch_warnings(), contextlib.closing(Loop()) as made:
        warnings.simplefilter("ignore", async_solipsism.ResolutionWarning)
        yield made


def run(loop: Loop, work: Coroutine[Any, Any, None]) -> None:
    async def whole() -> None:
        await work
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    loop.run_until_complete(whole())


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of the controller."""
    return [record.message for record in caplog.records if "the controller at" in record.message]


@pytest.mark.parametrize("still_s", [PATIENCE_S + 0.1, 30, 3600])
@pytest.mark.parametrize("meanwhile", ["register", "resume", "heartbeat", "pause"])
def test_agents_stay_in_control_over_a_stop_whatever_is_under_way(
    loop: Loop, caplog: pytest.LogCaptureFixture, meanwhile: str, still_s: float
) -> None:
    async def go() -> None:
        world = World()
        first = world.ask("first")
        if meanwhile in ("register", "resume"):
            await world.way.until(meanwhile)
            loop.stand_still(still_s)
        await world.granted(first)
        second = world.ask("second")
        await asyncio.sleep(2 * LATENCY_S)
        if meanwhile == "pause":
            world.own.step_ended(first)
        if meanwhile in ("heartbeat", "pause"):
            await world.way.until(meanwhile)
            loop.stand_still(still_s)
        await asyncio.sleep(3 * PATIENCE_S)
        assert not second.granted, "there is one seat"
        world.own.left("first", Outcome.COMPLETED)
        await world.granted(second)
        world.own.left("second", Outcome.COMPLETED)
        await world.own.told()
        assert world.controller.agents() == ()
        await world.close()

    run(loop, go())
    assert told(caplog) == []


@pytest.mark.parametrize("still_s", [0, PATIENCE_S, 3600])
def test_a_controller_that_hangs_is_found_out_by_the_time_that_the_worker_runs(
    loop: Loop, caplog: pytest.LogCaptureFixture, still_s: float
) -> None:
    async def go() -> None:
        world = World()
        await world.granted(world.ask("first"))
        world.way.hung = True
        await world.way.until("heartbeat")
        loop.stand_still(still_s)
        await asyncio.sleep(2 * PATIENCE_S + 1)
        second = world.ask("second")
        await world.granted(second)  # without control
        world.way.hung = False
        await asyncio.sleep(30)
        assert len(told(caplog)) == 2
        await world.close()

    run(loop, go())
    gone, back = told(caplog)
    assert ("cannot be asked" in gone, "is back" in back) == (True, True)


def test_awake_is_the_loops_clock_but_for_what_it_stood_still(loop: Loop) -> None:
    async def go() -> None:
        awake = Awake(1.0)
        began, before = awake.now(), loop.time()
        looking = asyncio.create_task(awake.run())
        await asyncio.sleep(10)
        assert awake.now() - began == pytest.approx(loop.time() - before)
        loop.stand_still(100)
        await asyncio.sleep(10)
        assert awake.now() - began == pytest.approx(20, abs=1.0)
        looking.cancel()

    run(loop, go())
