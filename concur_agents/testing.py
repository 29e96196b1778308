"""For tests, ours and yours: a clock you set, a reader that says what you wrote, and what every adapter must do."""

from __future__ import annotations

import abc
import asyncio
import enum
import math
import threading
from collections import defaultdict
from collections.abc import Iterable

from concur_agents.controller import Controller
from concur_agents.events import AgentEvent, AgentEventKind, Event, EventStream
from concur_agents.laws import FixedWindow
from concur_agents.samples import EngineSample, Outcome

__all__ = ["EXPECTED_OUTCOME", "AdapterContract", "Ending", "ManualClock", "ScriptedReader", "check_lives"]


class ManualClock:
    """Monotonic seconds that pass only when told to: ``Controller(..., clock=ManualClock(), background=False)``."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def __call__(self) -> float:
        """Seconds now."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: ``seconds`` is negative, or no finite number.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"ManualClock: seconds must be a finite number >= 0, got {seconds!r}")
        self._now += seconds


class ScriptedReader:
    """Reads what you wrote, in order: samples are returned, exceptions raised; then the last one again and again.

    Args:
        samples: at least nothing; with nothing, every reading is empty (all fields unknown).
    """

    def __init__(self, samples: Iterable[EngineSample | Exception] = ()) -> None:
        self._script = list(samples)
        self._lock = threading.Lock()
        self._next = 0
        self.reads = 0
        """Readings taken so far."""
        self.closed = False

    def add(self, *samples: EngineSample | Exception) -> None:
        """Append to the script: what is added is read next once the script so far is through."""
        with self._lock:
            self._script += samples

    def read(self, timeout: float) -> EngineSample:  # noqa: ARG002 - a reader's signature
        """The next line of the script."""
        with self._lock:
            line = self._script[min(self._next, len(self._script) - 1)] if self._script else EngineSample()
            self._next = min(self._next + 1, len(self._script))
            self.reads += 1
        if isinstance(line, Exception):
            raise line
        return line

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True


def check_lives(events: Iterable[Event]) -> dict[str, list[AgentEventKind]]:
    """Check that each agent's events are a whole life in lawful order; return them by agent.

    Raises:
        AssertionError: an agent took a step without admission, stepped twice without a boundary, or did not finish
            exactly once and last.
    """
    lives: dict[str, list[AgentEventKind]] = defaultdict(list)
    for event in events:
        if isinstance(event, AgentEvent):
            lives[event.agent_id].append(event.kind)
    for agent_id, kinds in lives.items():
        assert kinds.count(AgentEventKind.FINISHED) == 1, f"{agent_id} must finish exactly once: {kinds}"
        assert kinds[-1] is AgentEventKind.FINISHED, f"{agent_id} did something after it finished: {kinds}"
        stepping = False
        for position, kind in enumerate(kinds[:-1]):
            begins = kind in (AgentEventKind.ADMITTED, AgentEventKind.RESUMED)
            assert (kind is AgentEventKind.ADMITTED) == (position == 0), f"{agent_id} must be admitted first: {kinds}"
            assert not (begins and stepping), f"{agent_id} stepped twice without a boundary: {kinds}"
            stepping = begins
    return dict(lives)


class Ending(enum.StrEnum):
    """The ways an agent's run can end."""

    SUCCESS = "success"
    MODEL_ERROR = "model_error"
    TOOL_ERROR = "tool_error"
    CANCEL_GENERATING = "cancel_generating"
    CANCEL_IN_TOOL = "cancel_in_tool"
    CANCEL_QUEUED = "cancel_queued"
    """The controller has one seat, and an agent called ``"holder"`` holds it."""


EXPECTED_OUTCOME = {
    Ending.SUCCESS: Outcome.COMPLETED,
    Ending.MODEL_ERROR: Outcome.FAILED,
    Ending.TOOL_ERROR: Outcome.FAILED,
    Ending.CANCEL_GENERATING: Outcome.CANCELLED,
    Ending.CANCEL_IN_TOOL: Outcome.CANCELLED,
}
"""Of the agent, by how its run ended. One that never got a seat has no outcome."""


class AdapterContract(abc.ABC):
    """What every framework adapter must do; subclass it in a test module and implement :meth:`run`.

    First form: each way out finishes the agent exactly once with the right outcome, and holds nothing afterwards.
    """

    endings: frozenset[Ending] = frozenset(Ending)
    """The ways out the framework has; leave out only what it cannot do."""

    @abc.abstractmethod
    async def run(self, controller: Controller, ending: Ending) -> None:
        """Run one agent of the real framework, with one tool call where it gets that far, to the given end.

        Cancel it yourself where the ending says so, and return when its run is over, without raising.
        """

    def test_every_way_out_finishes_exactly_once(self) -> None:
        """Success, errors and cancellation at each place."""
        for ending in sorted(self.endings - {Ending.CANCEL_QUEUED}):
            asyncio.run(self._check_ending(ending))

    def test_cancelled_while_queued_leaves_no_trace(self) -> None:
        """An agent that gave up before its first seat was never here."""
        if Ending.CANCEL_QUEUED in self.endings:
            asyncio.run(self._check_queued())

    async def _check_ending(self, ending: Ending) -> None:
        async with _controller() as controller:
            stream = controller.events()
            await self.run(controller, ending)
            assert controller.agents() == (), f"{ending}: agents are left"
            assert controller.stats().population.seated == 0, f"{ending}: a seat is held"
            lives = check_lives(_drain(stream))
            assert lives, f"{ending}: no agent was seen at all"
            if ending is Ending.SUCCESS:
                came_back = any(AgentEventKind.RESUMED in kinds for kinds in lives.values())
                assert came_back, f"{ending}: no boundary between the generations before and after the tool: {lives}"
            outcomes = controller.stats().finished
            assert outcomes == {EXPECTED_OUTCOME[ending]: len(lives)}, f"{ending}: outcomes {outcomes}"

    async def _check_queued(self) -> None:
        async with _controller() as controller:
            await controller.admit("holder")
            await self.run(controller, Ending.CANCEL_QUEUED)
            assert [agent.agent_id for agent in controller.agents()] == ["holder"]
            assert controller.stats().population.waiting == 0


def _controller() -> Controller:
    return Controller(ScriptedReader(), law=FixedWindow(1), background=False)


def _drain(stream: EventStream) -> list[Event]:
    stream.close()
    return list(stream)
