"""One test of the contract while it runs: its controller, its agents, and a log of what happened in which order."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from concur_agents.controller import Controller
from concur_agents.events import AgentEventKind, Event, EventStream
from concur_agents.fleet.controller import FleetController
from concur_agents.laws import FixedWindow
from concur_agents.samples import AgentState
from concur_agents.testing.lives import check_lives
from concur_agents.testing.reader import ScriptedReader
from concur_agents.testing.scene import Scene
from concur_agents.testing.stage import Stage

__all__ = ["PATIENCE_S", "Play"]

PATIENCE_S = 30.0
"""Seconds after which a run that does not get on is taken to hang. Far beyond what any takes."""


class Play:
    """The world of one test.

    Args:
        run: the adapter's ``run``.
        tool_name: what the model calls the tool.
        tool_argument: what it calls the tool's argument.
        last: makes a last reply of its text.
    """

    def __init__(
        self, run: Callable[[Scene], Any], tool_name: str, tool_argument: str, last: Callable[[str], dict[str, Any]]
    ) -> None:
        self._run = run
        self._tool_name = tool_name
        self._tool_argument = tool_argument
        self._last = last
        self.stage: Final = Stage.shared()
        self._stages = [self.stage]
        self.controller: Controller | FleetController = self._controller(1)
        self._events: EventStream = self.controller.events()
        self._log: list[tuple[str, str]] = []
        self._asked: list[tuple[str, Stage]] = []
        self._changed = threading.Condition()
        self._open = threading.Event()
        self._blocked: weakref.WeakSet[asyncio.Future[None]] = weakref.WeakSet()
        self._scenes: dict[str, Scene] = {}
        self.wrong: list[str] = []
        """What was seen that must not be."""
        self.closed = False
        """Concur has failed; agents do without."""
        self.most_seated = 0
        """At any request."""

    def _controller(self, window: float) -> Controller:
        return Controller(ScriptedReader(), law=FixedWindow(window), background=False)

    def __enter__(self) -> Self:
        self._watch(self.stage)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.free()
        self.stage.on_request = lambda _: None
        self.controller.close()

    def with_window(self, window: float) -> None:
        """Begin again with so many seats."""
        self.controller.close()
        self.controller = self._controller(window)
        self._events = self.controller.events()

    def with_engines(self, *others: Stage) -> None:
        """Begin again with these engines before the usual one, whose address is still the one that scenes have."""
        self.controller.close()
        self._stages = [*others, self.stage]
        readers = {stage.url: ScriptedReader() for stage in self._stages}
        self.controller = FleetController(readers, law=FixedWindow(math.inf), background=False)
        for stage in others:
            self._watch(stage)

    def _watch(self, stage: Stage) -> None:
        def requested(agent_id: str) -> None:
            self._asked.append((agent_id, stage))
            self._requested(agent_id)

        stage.on_request = requested

    def asked(self, agent_id: str) -> list[Stage]:
        """The engines that got the agent's requests, in order."""
        return [stage for whose, stage in self._asked if whose == agent_id]

    # --- agents ---

    def scene(
        self, *turns: str | Sequence[str], name: str = "agent", max_steps: int | None = None, held: bool = False
    ) -> Scene:
        """An agent that makes these tool calls, turn by turn, and then says "done".

        Args:
            turns: what its tool is told, one call or several at once: ``echo``, ``raise``, ``block``, or the id of
                an agent, which then runs inside the tool.
            name: to recognise it by.
            max_steps: the framework's limit.
            held: the engine holds its generations until :meth:`free`.
        """
        agent_id = f"{name}-{uuid.uuid4().hex[:12]}"
        replies = [self._calls([turn] if isinstance(turn, str) else turn) for turn in turns]
        for stage in self._stages:
            stage.script(agent_id, [*replies, self._last("done")])
        if held:
            self.stage.held[agent_id] = self._open
        scene = Scene(
            controller=self.controller,
            base_url=self.stage.url + "/v1",
            model="m",
            agent_id=agent_id,
            prompt="hello",
            max_steps=max_steps,
            tool=self._tool(agent_id),
            blocking_tool=self._blocking_tool(agent_id),
        )
        self._scenes[agent_id] = scene
        return scene

    def fail(self, scene: Scene, status: int = 400) -> None:
        """Have the agent's generations end with this HTTP status."""
        self.stage.failing[scene.agent_id] = status

    def free(self) -> None:
        """Let everything go on that is held or blocked."""
        self._open.set()
        for future in list(self._blocked):
            with_loop = future.get_loop()
            if not with_loop.is_closed():
                with_loop.call_soon_threadsafe(_release, future)

    def _calls(self, texts: Sequence[str]) -> dict[str, Any]:
        return {"tool_calls": [{"name": self._tool_name, "arguments": {self._tool_argument: each}} for each in texts]}

    # --- tools ---

    def _tool(self, agent_id: str) -> Callable[[str], Any]:
        async def work(text: str) -> str:
            """Do some work.

            Args:
                text (str): what to do
            """
            with _Tool(self, agent_id):
                if text == "block":
                    future = asyncio.get_running_loop().create_future()
                    self._blocked.add(future)
                    if not self._open.is_set():
                        await future
                elif text in self._scenes:
                    if inspect.iscoroutinefunction(self._run):
                        await self._run(self._scenes[text])
                    else:
                        await asyncio.to_thread(self._run, self._scenes[text])
                return _simple(text)

        return work

    def _blocking_tool(self, agent_id: str) -> Callable[[str], str]:
        def work(text: str) -> str:
            """Do some work.

            Args:
                text (str): what to do
            """
            with _Tool(self, agent_id):
                if text == "block":
                    self._open.wait()
                elif text in self._scenes:
                    result = self._run(self._scenes[text])
                    if inspect.iscoroutine(result):
                        asyncio.run(result)
                return _simple(text)

        return work

    # --- what happens ---

    def _requested(self, agent_id: str) -> None:
        if agent_id not in self._scenes:
            self.wrong.append(f"a request without the id of its agent: X-Session-ID is {agent_id!r}")
        elif not self.closed and (state := self.state(agent_id)) is not AgentState.GENERATING:
            self.wrong.append(f"{agent_id} sent a request while it was {state}")
        self.most_seated = max(self.most_seated, self.controller.stats().population.seated)
        self.note("request", agent_id)

    def close_controller(self) -> None:
        """Concur fails; what its agents do from now on is not held against them."""
        self.closed = True
        self.controller.close()

    def state(self, agent_id: str) -> AgentState | None:
        """Where the agent is; None when it is not known."""
        return next((view.state for view in self.controller.agents() if view.agent_id == agent_id), None)

    def note(self, what: str, agent_id: str) -> None:
        """Something happened."""
        with self._changed:
            self._log.append((what, agent_id))
            self._changed.notify_all()

    def log(self, agent_id: str) -> list[str]:
        """What happened to an agent: ``request``, ``tool``, ``tool ended``."""
        with self._changed:
            return [what for what, whom in self._log if whom == agent_id]

    def wait_for(self, what: str, agent_id: str) -> None:
        """Wait until it has happened."""
        self.wait_until(lambda: (what, agent_id) in self._log, f"{what} of {agent_id}")

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until something is so.

        Raises:
            AssertionError: it does not come to be so.
        """
        with self._changed:
            # Not everything tells us; a look now and then costs less than making it.
            for _ in range(round(PATIENCE_S * 100)):
                if true():
                    return
                self._changed.wait(0.01)
        raise AssertionError(f"waited in vain for: {what}. Happened so far: {self._log}")

    def wait_queued(self, agents: int = 1) -> None:
        """Wait until so many agents wait for a seat."""
        self.wait_until(lambda: self.controller.stats().population.waiting == agents, f"{agents} queued")

    # --- at the end ---

    def lives(self) -> dict[str, list[AgentEventKind]]:
        """The agents' whole lives, checked."""
        self._events.close()
        events: list[Event] = list(self._events)
        return check_lives(events)

    def check(self, **expected: int) -> dict[str, list[AgentEventKind]]:
        """Every agent has finished exactly once, so many with each outcome; nobody is left, and no seat is held."""
        finished = self._finished()
        assert finished == expected, f"agents finished as {finished}, not as {expected}"
        return self.lives()

    def check_ended(self, *outcomes: str) -> dict[str, list[AgentEventKind]]:
        """The same for one agent and any of these outcomes."""
        finished = self._finished()
        assert finished in [{outcome: 1} for outcome in outcomes], f"the agent finished as {finished}"
        return self.lives()

    def _finished(self) -> dict[str, int]:
        assert not self.wrong, "; ".join(self.wrong)
        left = {view.agent_id: str(view.state) for view in self.controller.agents()}
        assert left == {}, f"agents are left: {left}"
        stats = self.controller.stats()
        population = stats.population
        assert (population.seated, population.waiting) == (0, 0), f"a seat is held or waited for: {population}"
        return {str(outcome): count for outcome, count in stats.finished.items()}


class _Tool:
    def __init__(self, play: Play, agent_id: str) -> None:
        self._play = play
        self._agent_id = agent_id

    def __enter__(self) -> None:
        self._look("began")
        self._play.note("tool", self._agent_id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, ArithmeticError):
            self._look("ended")
            self._play.note("tool ended", self._agent_id)

    def _look(self, what: str) -> None:
        state = self._play.state(self._agent_id)
        if not self._play.closed and state not in (AgentState.IN_TOOL, AgentState.PARKED):
            self._play.wrong.append(f"a tool of {self._agent_id} {what} while the agent was {state}")


def _simple(text: str) -> str:
    if text == "raise":
        raise ArithmeticError("the tool failed")
    return json.dumps({"did": text})


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
