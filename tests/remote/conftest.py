"""A shared controller, within this loop or over HTTP, and its clients."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from concur_agents import Controller, FixedWindow
from concur_agents.remote.desk import Desk
from concur_agents.remote.server import EmbeddedService
from concur_agents.testing import ManualClock, ScriptedReader


class Counter:
    """A desk on a controller without a thread, with clocks that stand; operations block."""

    def __init__(self, window: float = 1, **options: Any) -> None:
        self.clock = ManualClock()
        self.controller = Controller(ScriptedReader(), law=FixedWindow(window), clock=self.clock, background=False)
        self.desk = Desk(self.controller, clock=self.clock, **options)
        self.loop = asyncio.new_event_loop()

    def say(self, operation: str, **body: Any) -> dict[str, Any]:
        """The answer, without what every answer has."""
        answer = self.loop.run_until_complete(self.desk.handle(operation, body))
        assert answer.pop("controller") == self.desk.incarnation
        return answer

    def kind(self, operation: str, **body: Any) -> str:
        """Of the refusal."""
        return str(self.say(operation, **body)["error"]["kind"])

    def granted(self, agent: str, **more: Any) -> bool:
        """Whether the agent may generate, asked for the first time or again."""
        state = self.controller.limiter.state(agent)
        new = state is None or str(state) == "waiting"
        return bool(self.say("admit" if new else "resume", agent=agent, **more).get("granted", False))

    def state(self, agent: str) -> str | None:
        state = self.controller.limiter.state(agent)
        return None if state is None else str(state)

    def pass_time(self, seconds: float) -> None:
        """Second after second, as a desk that runs sees it pass."""
        while seconds > 0:
            self.clock.advance(min(1.0, seconds))
            self.desk.sweep()
            seconds -= 1.0

    def seated(self) -> int:
        return self.controller.stats().population.seated

    def close(self) -> None:
        self.controller.close()
        self.loop.close()


@pytest.fixture
def make_desk() -> Iterator[Callable[..., Counter]]:
    made: list[Counter] = []

    def make(*args: Any, **options: Any) -> Counter:
        made.append(Counter(*args, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def until(condition: Callable[[], object], *, timeout: float = 30) -> None:
    """Wait for another thread or process to have done something."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


@pytest.fixture(name="until_true")
def _until_true() -> Callable[..., None]:
    return until


@pytest.fixture
def serve() -> Iterator[Callable[..., EmbeddedService]]:
    """Serves controllers of a fixed window over HTTP."""
    with contextlib.ExitStack() as stack:

        def make(window: float = 1, *, port: int = 0, token: str | None = None, **options: Any) -> EmbeddedService:
            controller = Controller(ScriptedReader(), law=FixedWindow(window), tick=60)
            desk = Desk(controller, **options)
            service = EmbeddedService(controller, desk, port=port, token=token)
            service.controller = controller  # type: ignore[attr-defined]
            return stack.enter_context(service)

        yield make
