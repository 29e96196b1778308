"""What the contract's tests do around the agent they look at."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from concur_agents.samples import AgentState
from concur_agents.testing.performing import Running
from concur_agents.testing.play import Play
from concur_agents.testing.scene import Scene

__all__ = ["Other", "abegin", "begin", "cancel", "check_thinking", "gone", "quiet", "run_crowds"]


def cancel(once: Callable[[], None]) -> Callable[[Running], None]:
    """A director that cancels the run as soon as ``once`` returns."""

    def director(running: Running) -> None:
        once()
        running.cancel()

    return director


class Other:
    """An agent of nobody's framework, in a thread of its own."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._thread = threading.Thread(target=play.controller.sync.admit, args=("other",), daemon=True)
        self._thread.start()

    def wait_asked(self) -> None:
        """Until it waits for a seat, or has one."""
        play = self._play
        play.wait_until(lambda: play.state("other") is not None, "the other agent to ask for a seat")

    def wait_seated(self) -> None:
        """Until it has a seat."""
        play = self._play
        play.wait_until(lambda: play.state("other") is AgentState.GENERATING, "the other agent to be seated")

    def finish(self) -> None:
        """End it."""
        self._thread.join()
        self._play.controller.finish("other")


def check_thinking(play: Play, asked: Scene) -> None:
    """The framework has asked a person, and waits."""
    assert play.controller.stats().population.seated == 0, "a seat is held while a person thinks"
    assert play.log(asked.agent_id) == ["request"], "the tool ran without an answer"


def begin(play: Play, stream: Iterator[Any], scene: Scene) -> None:
    """Take from a stream until the first tool has started."""
    while "tool" not in play.log(scene.agent_id):
        next(stream)


async def abegin(play: Play, stream: Any, scene: Scene) -> None:
    """The same for an async one."""
    while "tool" not in play.log(scene.agent_id):
        await anext(stream)


async def gone(play: Play) -> None:
    """Wait until no agent is known."""
    await asyncio.to_thread(play.wait_until, lambda: not play.controller.agents(), "the agent to finish")


def run_crowds(play: Play, run: Callable[[Scene], Any], crowds: list[list[Scene]]) -> None:
    """Run many agents at once: each crowd in a thread of its own, and there in one event loop, unless they block.

    Raises:
        AssertionError: one fails.
    """
    problems: list[BaseException] = []

    async def together(scenes: list[Scene]) -> None:
        await asyncio.gather(*(run(scene) for scene in scenes))

    def run_one(scenes: list[Scene]) -> None:
        try:
            if inspect.iscoroutinefunction(run):
                asyncio.run(together(scenes))
            else:
                run(scenes[0])
        except BaseException as error:  # noqa: BLE001 - told below
            problems.append(error)

    threads = [threading.Thread(target=run_one, args=(scenes,), daemon=True) for scenes in crowds]
    for thread in threads:
        thread.start()
    play.wait_until(lambda: not any(thread.is_alive() for thread in threads), "all of them to end")
    assert not problems, f"{len(problems)} failed, the first with {problems[0]!r}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While something is dropped on purpose: what its parts say about it is not the adapter's."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = hook
