"""Runs an adapter's agent while somebody else in another thread cancels it, interrupts it, or lets it go on."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

from concur_agents.testing.play import PATIENCE_S, Play
from concur_agents.testing.scene import Scene

__all__ = ["SIGNAL_AGAIN_S", "Ended", "Running", "perform"]

_Run = Callable[[Scene], Any]
SIGNAL_AGAIN_S = 1.0
"""Seconds after which a signal that nothing came of is sent again."""


class Ended:
    """How a run ended."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    @property
    def outcome(self) -> str:
        """What the agent's outcome has to be."""
        if self.error is None:
            return "completed"
        return "failed" if isinstance(self.error, Exception) else "cancelled"


class Running:
    """What may be done to a run from outside."""

    def __init__(self) -> None:
        self.ended: Final = threading.Event()
        self._cancel: Callable[[], object] = lambda: self.send(signal.SIGINT)
        self._expire: Callable[[], object] = lambda: self.send(signal.SIGALRM)

    def is_task(self, cancel: Callable[[], object], expire: Callable[[], object]) -> None:
        """It is a task, which is cancelled in other ways than a thread."""
        self._cancel, self._expire = cancel, expire

    def cancel(self) -> None:
        """As a user cancels it: the task, or Ctrl-C in a thread that blocks."""
        self._cancel()

    def expire(self) -> None:
        """A timeout round the run fires now."""
        self._expire()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the main thread, until the run has ended."""
        # One that comes between giving up the interpreter's lock and falling asleep wakes nobody, and a thread that
        # waits for the lock, as the sender does, is woken just then.
        while not self.ended.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, number)
            self.ended.wait(SIGNAL_AGAIN_S)


def perform(play: Play, run: _Run, scene: Scene, director: Callable[[Running], None] | None = None) -> Ended:
    """Run an agent to its end, with ``director`` at work in another thread.

    An async run is a task of a new event loop; a blocking one has the main thread, where signals arrive.

    Raises:
        AssertionError: the run hangs, or the director's own.
    """
    problems: list[BaseException] = []

    running = Running()

    def direct() -> None:
        try:
            if director is not None:
                director(running)
        except BaseException as error:  # noqa: BLE001 - told below, in the test's own thread
            problems.append(error)
            _give_up(play)

    hung = threading.Event()

    def give_up() -> None:
        hung.set()
        _give_up(play)

    alarm = threading.Timer(PATIENCE_S, give_up)
    alarm.daemon = True
    alarm.start()
    # Programs that run in the background are often started with it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if inspect.iscoroutinefunction(run):
            ended = asyncio.run(_task(run, scene, running, direct))
        else:
            ended = _call(run, scene, running, direct)
    except KeyboardInterrupt as interrupt:  # asyncio.run says so once the task is cancelled
        ended = Ended(error=interrupt)
    finally:
        alarm.cancel()
        signal.signal(signal.SIGINT, before)
    if problems:
        raise problems[0]
    assert not hung.is_set(), f"the run hung; agents: {play.controller.agents()}"
    return ended


async def _task(run: _Run, scene: Scene, running: Running, direct: Callable[[], None]) -> Ended:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[asyncio.Timeout] = loop.create_future()

    async def limited() -> Any:
        async with asyncio.timeout(None) as limit:
            ready.set_result(limit)
            return await run(scene)

    task = asyncio.ensure_future(limited())
    limit = await ready
    running.is_task(
        lambda: loop.call_soon_threadsafe(task.cancel),
        lambda: loop.call_soon_threadsafe(limit.reschedule, loop.time()),
    )
    thread = threading.Thread(target=direct, daemon=True)
    thread.start()
    try:
        result: Any = (await asyncio.gather(task, return_exceptions=True))[0]
    finally:
        running.ended.set()
    await asyncio.to_thread(thread.join)
    return Ended(error=result) if isinstance(result, BaseException) else Ended(result)


def _call(run: _Run, scene: Scene, running: Running, direct: Callable[[], None]) -> Ended:
    main = threading.main_thread()
    assert threading.current_thread() is main, "run the contract in the main thread: signals arrive there"
    before = signal.signal(signal.SIGALRM, _expired)
    thread = threading.Thread(target=direct, daemon=True)
    thread.start()
    try:
        return Ended(run(scene))
    except BaseException as error:  # noqa: BLE001 - how it ended is what is looked at
        return Ended(error=error)
    finally:
        running.ended.set()
        thread.join()
        signal.signal(signal.SIGALRM, before)


def _expired(*_: object) -> None:
    raise TimeoutError("the run took too long")


def _give_up(play: Play) -> None:
    play.close_controller()
    play.free()
