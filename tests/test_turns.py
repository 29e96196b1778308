"""Operations that run alone, also when a finalizer, a callback or another thread comes in between."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from concur_agents import LifecycleError, ProblemEvent
from concur_agents.events import EventStream
from concur_agents.turns import Turns, Waiter, turn


class Log(Turns):
    """Writes down what runs; ``during`` is called in the middle of an operation, as a finalizer would be."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.during: Any = lambda: None

    @turn(later=True)
    def write(self, name: str) -> str:
        self.lines.append(f"{name} begins")
        during, self.during = self.during, lambda: None
        during()
        self.lines.append(f"{name} ends")
        return name

    @turn()
    def read(self) -> list[str]:
        return list(self.lines)

    @turn(later=True)
    def wake_up(self, *waiters: Waiter, error: Exception | None = None) -> None:
        for waiter in waiters:
            self.wake(waiter, error)

    @turn(later=True)
    def announce(self, *numbers: int) -> None:
        for number in numbers:
            self.tell(ProblemEvent(at=number, problem=None))

    @turn(later=True)
    def fail(self) -> None:
        raise LifecycleError("no")


@pytest.fixture
def log() -> Log:
    return Log()


def test_finalizer_inside_an_operation_runs_right_after_it(log: Log) -> None:
    log.during = lambda: log.write("late")
    assert log.write("first") == "first"
    assert log.lines == ["first begins", "first ends", "late begins", "late ends"]


def test_finalizer_may_itself_be_interrupted(log: Log) -> None:
    def again() -> None:
        log.write("second")
        log.write("third")

    log.during = again
    log.write("first")
    assert [line for line in log.lines if line.endswith("ends")] == ["first ends", "second ends", "third ends"]


def test_finalizer_that_fails_does_not_fail_the_operation_it_came_in(log: Log) -> None:
    log.during = log.fail
    assert log.write("first") == "first"


def test_finalizer_cannot_do_what_needs_an_answer(log: Log) -> None:
    def ask() -> None:
        with pytest.raises(LifecycleError, match="a finalizer called read inside another operation"):
            log.read()

    log.during = ask
    log.write("first")
    assert log.read() == ["first begins", "first ends"]


def test_operation_that_raises_leaves_the_next_one_free(log: Log) -> None:
    with pytest.raises(LifecycleError):
        log.fail()
    assert log.write("next") == "next"


def test_what_was_told_is_delivered_even_if_the_operation_then_raises(log: Log) -> None:
    waiter = Waiter()

    def tell_and_raise() -> None:
        log.wake(waiter)
        raise KeyboardInterrupt

    log.during = tell_and_raise
    with pytest.raises(KeyboardInterrupt):
        log.write("first")
    assert waiter.done()


def test_callback_of_a_wake_may_call_back_at_once(log: Log) -> None:
    waiter = Waiter()
    waiter.add_done_callback(lambda _: log.write("from the callback"))
    log.wake_up(waiter)
    assert log.lines == ["from the callback begins", "from the callback ends"]


def test_a_long_chain_of_callbacks_is_no_recursion(log: Log) -> None:
    waiters = [Waiter() for _ in range(5000)]
    for waiter, following in itertools.pairwise(waiters):
        waiter.add_done_callback(lambda _, following=following: log.wake_up(following))  # type: ignore[misc]
    log.wake_up(waiters[0])
    assert all(waiter.done() for waiter in waiters)


def test_events_come_before_wakes(log: Log) -> None:
    stream = EventStream(10, log.streams.remove)
    log.streams.append(stream)
    seen_by_the_woken: list[float] = []
    waiter = Waiter()
    waiter.add_done_callback(lambda _: seen_by_the_woken.append(next(stream).at))

    def tell() -> None:
        log.wake(waiter)
        log.tell(ProblemEvent(at=1, problem=None))

    log.during = tell
    log.write("first")
    assert seen_by_the_woken == [1]


def test_wake_with_an_error_raises_it_in_the_waiter(log: Log) -> None:
    waiter = Waiter()
    log.wake_up(waiter, error=LifecycleError("over"))
    with pytest.raises(LifecycleError, match="over"):
        waiter.result(timeout=0)


def test_operation_told_while_another_thread_delivers_is_delivered_by_that_thread(log: Log) -> None:
    delivering, go_on, first, second = threading.Event(), threading.Event(), Waiter(), Waiter()

    def linger(_: object) -> None:
        delivering.set()
        go_on.wait(20)

    first.add_done_callback(linger)
    thread = threading.Thread(target=log.wake_up, args=(first,))
    thread.start()
    assert delivering.wait(20)
    log.wake_up(second)  # does not wait for the other thread's callback
    assert not second.done()
    go_on.set()
    thread.join(20)
    assert second.done()


def test_what_is_told_just_as_the_delivery_ends_is_delivered_too(log: Log) -> None:
    first, second = Waiter(), Waiter()

    class Sneaky:
        """A lock that another thread finds taken just before it is given back."""

        def __init__(self) -> None:
            self.taken = False

        def acquire(self, *, blocking: bool) -> bool:
            free, self.taken = not self.taken, True
            return free

        def release(self) -> None:
            if not second.done():
                log.wake_up(second)
            self.taken = False

    log._delivering = Sneaky()  # type: ignore[assignment]
    log.wake_up(first)
    assert second.done()


def test_events_of_many_threads_are_heard_in_the_order_they_happened(log: Log) -> None:
    stream = EventStream(100_000, log.streams.remove)
    log.streams.append(stream)
    threads = [threading.Thread(target=log.announce, args=range(n, n + 500)) for n in range(0, 4000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    stream.close()
    heard = [event.at for event in stream if isinstance(event, ProblemEvent)]
    assert sorted(heard) == list(range(4000))
    batches = [heard[n : n + 500] for n in range(0, 4000, 500)]
    assert all(batch == sorted(batch) for batch in batches)
