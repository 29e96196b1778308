"""What the contract's tests do around the agent they look at."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from concur_agents.samples import AgentState
from concur_agents.testing.performing import Running
from concur_agents.testing.play import Play
from concur_agents.testing.scene import Scene

__all__ = ["Other", "abegin", "begin", "cancel", "check_thinking", "gone", "quiet", "run_all"]


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


async def run_all(run: Callable[[Scene], Any], scenes: list[Scene]) -> None:
    """Run agents side by side in one loop."""
    await asyncio.gather(*(run(scene) for scene in scenes))


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
