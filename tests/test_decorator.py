"""``@concur.agent``: each call is an agent, finished however the call ends; generators leave their callers alone."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from concur_agents import AgentEvent, AgentEventKind, AgentState, Controller, Outcome


@pytest.fixture
def concur(make_controller: Callable[..., Controller]) -> Controller:
    """One seat."""
    return make_controller(1)


def current(concur: Controller) -> str | None:
    agent = concur.current_agent()
    return None if agent is None else agent.agent_id


async def step(concur: Controller) -> str:
    """One generation of the agent around."""
    agent = concur.current_agent()
    assert agent is not None
    async with agent.step():
        return agent.agent_id


def blocking_step(concur: Controller) -> str:
    agent_id = current(concur)
    assert agent_id is not None
    with concur.sync.agent(agent_id).step():
        return agent_id


def finished(concur: Controller) -> dict[Outcome, int]:
    assert concur.agents() == ()
    assert concur.stats().population.seated == 0
    return {outcome: count for outcome, count in concur.stats().finished.items() if count}


async def test_each_call_is_an_agent_with_an_id_of_its_own(concur: Controller) -> None:
    @concur.agent
    async def solve(task: str, *, twice: bool = False) -> tuple[str, str]:
        return await step(concur), task * (1 + twice)

    (one, a), (two, b) = await solve("a"), await solve("b", twice=True)
    assert (a, b) == ("a", "bb")
    assert one != two
    assert finished(concur) == {Outcome.COMPLETED: 2}
    assert current(concur) is None


def test_a_blocking_function_is_an_agent_too(concur: Controller) -> None:
    @concur.agent
    def solve(task: str) -> str:
        blocking_step(concur)
        return task

    assert solve("a") == "a"
    assert finished(concur) == {Outcome.COMPLETED: 1}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError, Outcome.FAILED), (asyncio.CancelledError, Outcome.CANCELLED), (KeyboardInterrupt, Outcome.CANCELLED)],
)
def test_what_it_raises_gets_through_and_ends_the_agent(
    concur: Controller, error: type[BaseException], outcome: Outcome
) -> None:
    @concur.agent
    def solve() -> None:
        blocking_step(concur)
        raise error

    with pytest.raises(error):
        solve()
    assert finished(concur) == {outcome: 1}


async def test_cancelled_while_queued_it_leaves_no_trace(concur: Controller, until: Any) -> None:
    await concur.admit("holder")

    @concur.agent(id_of=lambda: "a")
    async def solve() -> None:
        await step(concur)

    task = asyncio.create_task(solve())
    await until(lambda: concur.stats().population.waiting == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [view.agent_id for view in concur.agents()] == ["holder"]


async def test_many_calls_at_once_share_the_seats(concur: Controller) -> None:
    seen: list[int] = []

    @concur.agent
    async def solve() -> None:
        for _ in range(3):
            await step(concur)
            seen.append(concur.stats().population.seated)
            await asyncio.sleep(0)

    await asyncio.gather(*(solve() for _ in range(20)))
    assert set(seen) == {1}
    assert finished(concur) == {Outcome.COMPLETED: 20}


# --- the id ---


async def test_id_from_the_arguments(concur: Controller) -> None:
    @concur.agent(id_of=lambda task, **_: f"task-{task}")
    async def solve(task: int, *, style: str = "") -> str:
        return await step(concur) + style

    assert await solve(17) == "task-17"
    assert await solve(18, style="!") == "task-18!"


async def test_an_id_that_is_taken_gets_a_suffix(concur: Controller) -> None:
    @concur.agent(id_of=lambda: "a")
    async def solve() -> str:
        await asyncio.sleep(0)
        return await step(concur)

    one, two = await asyncio.gather(solve(), solve())
    assert one == "a"
    assert two.startswith("a~")
    assert finished(concur) == {Outcome.COMPLETED: 2}


def test_what_id_of_raises_is_the_users_own(concur: Controller) -> None:
    @concur.agent(id_of=lambda: "a")
    def solve(task: str) -> None: ...

    with pytest.raises(TypeError, match="takes 0 positional arguments"):
        solve("x")


# --- agents in agents ---


async def test_recursion_shares_one_seat(concur: Controller) -> None:
    @concur.agent
    async def solve(depth: int) -> int:
        await step(concur)
        return 1 + await solve(depth - 1) if depth else 1

    assert await solve(3) == 4
    assert finished(concur) == {Outcome.COMPLETED: 4}


async def test_recursion_under_one_id_shares_one_seat(concur: Controller) -> None:
    @concur.agent(id_of=lambda depth: "same")
    async def solve(depth: int) -> list[str]:
        me = await step(concur)
        return [me, *(await solve(depth - 1) if depth else [])]

    ids = await asyncio.wait_for(solve(2), 10)
    assert ids[0] == "same"
    assert len(set(ids)) == 3
    assert finished(concur) == {Outcome.COMPLETED: 3}


async def test_parent_none_asks_for_a_seat_of_its_own(make_controller: Callable[..., Controller]) -> None:
    concur = make_controller(2)

    @concur.agent(id_of=lambda: "own", parent=None)
    async def own() -> int:
        await step(concur)
        return concur.stats().population.seated

    @concur.agent
    async def solve() -> int:
        await step(concur)
        return await own()

    assert await solve() == 2


async def test_an_agent_of_another_controller_in_between_hides_nothing(
    make_controller: Callable[..., Controller],
) -> None:
    one, two = make_controller(1), make_controller(1)

    @two.agent(id_of=lambda: "inner")
    async def inner() -> tuple[str | None, str | None, str | None]:
        return current(one), current(two), one.agent("sub").parent

    @one.agent(id_of=lambda: "outer")
    async def outer() -> tuple[str | None, str | None, str | None]:
        return await inner()

    assert await outer() == ("outer", "inner", "outer")


async def test_what_outlives_the_call_is_no_part_of_its_agent(concur: Controller) -> None:
    over = asyncio.Event()

    async def later() -> str | None:
        await over.wait()
        return current(concur)

    @concur.agent
    async def solve() -> asyncio.Task[str | None]:
        await step(concur)
        return asyncio.create_task(later())

    task = await solve()
    over.set()
    assert await task is None


# --- a person is asked ---


async def test_current_agent_can_be_suspended_and_goes_on_in_a_later_call(concur: Controller) -> None:
    events = concur.events()

    @concur.agent(id_of=lambda question: "a")
    async def solve(question: bool) -> None:
        await step(concur)
        agent = concur.current_agent()
        assert agent is not None
        if question:
            agent.suspend()

    await solve(True)
    assert [view.state for view in concur.agents()] == [AgentState.PARKED]
    await solve(False)
    assert finished(concur) == {Outcome.COMPLETED: 1}
    events.close()
    kinds = [event.kind for event in events if isinstance(event, AgentEvent)]
    assert kinds.count(AgentEventKind.ADMITTED) == kinds.count(AgentEventKind.RESUMED) == 1


# --- Concur fails ---


async def test_a_closed_controller_stops_no_function(concur: Controller, caplog: pytest.LogCaptureFixture) -> None:
    @concur.agent(id_of=lambda task: task)
    async def solve(task: str) -> str | None:
        return current(concur)

    concur.close()
    assert [await solve("a"), await solve("b")] == ["a", "b"]  # known by name, so that requests can say it
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# --- generators ---


@pytest.fixture
def numbers(concur: Controller) -> Callable[..., Generator[Any, Any, str]]:
    @concur.agent(id_of=lambda name="a": name)
    def numbers(name: str = "a") -> Generator[Any, Any, str]:
        for number in range(3):
            sent = None
            try:
                sent = yield number, blocking_step(concur)
            except ArithmeticError as error:
                sent = error
            if sent is not None:
                yield "got", sent
        return "end"

    return numbers


@pytest.fixture
def anumbers(concur: Controller) -> Callable[..., AsyncGenerator[Any, Any]]:
    @concur.agent(id_of=lambda name="a": name)
    async def numbers(name: str = "a") -> AsyncGenerator[Any, Any]:
        for number in range(3):
            sent = None
            try:
                sent = yield number, await step(concur)
            except ArithmeticError as error:
                sent = error
            if sent is not None:
                yield "got", sent

    return numbers


def test_generator_exhausted(concur: Controller, numbers: Callable[..., Any]) -> None:
    generator = numbers()
    assert concur.agents() == ()  # begins with the first item
    assert list(generator) == [(0, "a"), (1, "a"), (2, "a")]
    assert finished(concur) == {Outcome.COMPLETED: 1}


def test_generator_returns_and_takes_what_is_sent_and_thrown(concur: Controller, numbers: Callable[..., Any]) -> None:
    generator, zero = numbers(), ZeroDivisionError()
    assert next(generator) == (0, "a")
    assert generator.send("x") == ("got", "x")
    assert next(generator) == (1, "a")
    assert generator.throw(zero) == ("got", zero)
    assert next(generator) == (2, "a")
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == "end"
    assert finished(concur) == {Outcome.COMPLETED: 1}


def test_generator_that_is_thrown_what_it_does_not_catch_fails(concur: Controller, numbers: Callable[..., Any]) -> None:
    generator = numbers()
    next(generator)
    with pytest.raises(KeyError):
        generator.throw(KeyError())
    assert finished(concur) == {Outcome.FAILED: 1}


@pytest.mark.parametrize("end", [lambda generator: generator.close(), lambda _: None], ids=["closed", "collected"])
def test_generator_left_half_way(concur: Controller, numbers: Callable[..., Any], end: Callable[[Any], object]) -> None:
    generator = numbers()
    next(generator)
    end(generator)
    del generator
    gc.collect()
    assert finished(concur) == {Outcome.CANCELLED: 1}


def test_whoever_iterates_is_not_inside(concur: Controller, numbers: Callable[..., Any]) -> None:
    generator = numbers()
    next(generator)
    assert current(concur) is None
    with concur.sync.agent("consumer"):
        next(generator)
        assert current(concur) == "consumer"
        list(generator)
        assert current(concur) == "consumer"


def test_two_generators_in_turns_stay_apart(make_controller: Callable[..., Controller]) -> None:
    concur = make_controller(2)

    @concur.agent(id_of=lambda name: name)
    def numbers(name: str) -> Generator[tuple[str, str | None], None, None]:
        for _ in range(3):
            yield blocking_step(concur), next(view.parent for view in concur.agents() if view.agent_id == name)

    assert list(zip(numbers("a"), numbers("b"), strict=True)) == [(("a", None), ("b", None))] * 3


async def test_async_generator_exhausted(concur: Controller, anumbers: Callable[..., Any]) -> None:
    generator = anumbers()
    assert [item async for item in generator] == [(0, "a"), (1, "a"), (2, "a")]
    assert finished(concur) == {Outcome.COMPLETED: 1}
    assert current(concur) is None


async def test_async_generator_takes_what_is_sent_and_thrown(concur: Controller, anumbers: Callable[..., Any]) -> None:
    generator, zero = anumbers(), ZeroDivisionError()
    assert await anext(generator) == (0, "a")
    assert current(concur) is None
    assert await generator.asend("x") == ("got", "x")
    assert await anext(generator) == (1, "a")
    assert await generator.athrow(zero) == ("got", zero)
    with pytest.raises(KeyError):
        await generator.athrow(KeyError())
    assert finished(concur) == {Outcome.FAILED: 1}


async def test_async_generator_closed(concur: Controller, anumbers: Callable[..., Any]) -> None:
    generator = anumbers()
    await anext(generator)
    await generator.aclose()
    assert finished(concur) == {Outcome.CANCELLED: 1}


async def test_async_generator_collected(concur: Controller, anumbers: Callable[..., Any], until: Any) -> None:
    generator = anumbers()
    await anext(generator)
    del generator
    gc.collect()
    await until(lambda: concur.agents() == ())
    assert finished(concur) == {Outcome.CANCELLED: 1}


def test_async_generator_collected_after_its_loop(concur: Controller, anumbers: Callable[..., Any]) -> None:
    loop, generator = asyncio.new_event_loop(), anumbers()
    loop.run_until_complete(anext(generator))
    loop.close()
    del generator
    gc.collect()
    assert finished(concur) == {Outcome.CANCELLED: 1}


async def test_async_generator_closed_by_another_task(concur: Controller, anumbers: Callable[..., Any]) -> None:
    generator = anumbers()
    await anext(generator)
    await asyncio.create_task(generator.aclose())
    assert finished(concur) == {Outcome.CANCELLED: 1}
    assert current(concur) is None


# --- as functions are used ---


async def test_methods(concur: Controller) -> None:
    class Solver:
        def __init__(self, name: str) -> None:
            self.name = name

        @concur.agent(id_of=lambda self, task: f"{self.name}-{task}")
        async def solve(self, task: int) -> str:
            return await step(concur)

        @classmethod
        @concur.agent
        async def of_class(cls) -> str:
            await step(concur)
            return cls.__name__

        @staticmethod
        @concur.agent
        async def of_nobody() -> str:
            return await step(concur)

    solver = Solver("s")
    assert await solver.solve(1) == "s-1"
    assert await Solver.of_class() == await solver.of_class() == "Solver"
    await Solver.of_nobody()
    assert finished(concur) == {Outcome.COMPLETED: 4}


def test_stays_what_it_was(concur: Controller) -> None:
    async def asynchronous(a: int, *, b: str = "") -> None:
        """Doc."""

    async def async_generator() -> AsyncGenerator[int, None]:
        yield 1

    def generator() -> Generator[int, None, None]:
        yield 1

    def blocking() -> None: ...

    for function in (asynchronous, async_generator, generator, blocking):
        decorated: Any = concur.agent(function)
        assert (decorated.__name__, decorated.__doc__) == (function.__name__, function.__doc__)
        assert decorated.__wrapped__ is function
        assert inspect.signature(decorated) == inspect.signature(function)
        for check in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction):
            assert check(decorated) is check(function)
