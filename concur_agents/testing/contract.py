"""What every framework adapter must do, as tests that run it with the real framework against an engine over HTTP."""

from __future__ import annotations

import abc
import asyncio
import functools
import gc
import inspect
import signal
import unittest
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from concur_agents.events import AgentEventKind
from concur_agents.samples import AgentState
from concur_agents.testing.around import Other, abegin, begin, cancel, check_thinking, gone, quiet, run_crowds
from concur_agents.testing.dying import check_one_engine_dies
from concur_agents.testing.exits import run_in_process
from concur_agents.testing.performing import Running, perform
from concur_agents.testing.play import Play
from concur_agents.testing.record import recorded
from concur_agents.testing.scene import Scene

__all__ = ["AdapterContract"]

_ADMITTED, _RESUMED = AgentEventKind.ADMITTED, AgentEventKind.RESUMED
_MISSING = "implement {}(), or say in not_covered why the framework cannot pass {}"
_BLOCKS = "a call that blocks its thread is never collected"


def _guarantee(check: Callable[[AdapterContract, Play], None]) -> Callable[[AdapterContract], None]:
    """A test, in a play of its own. A test runner sees no argument but ``self``."""

    def test(self: AdapterContract) -> None:
        title = self.title or type(self).__name__.removeprefix("Test")
        with recorded(title, self.packages, (check.__doc__ or "").rstrip(".")):
            reason = self.not_covered.get(check.__name__)
            if reason is not None:
                raise unittest.SkipTest(reason)
            with Play(self.run, self.tool_name, self.tool_argument, self.last) as play:
                check(self, play)

    functools.update_wrapper(test, check, updated=())
    del test.__wrapped__  # type: ignore[attr-defined] # pytest would look for a fixture called play
    return test


class AdapterContract(abc.ABC):
    """What every framework adapter must do; subclass it in a test module, implement :meth:`run`, and run pytest.

    ::

        class TestMyAdapter(AdapterContract):
            packages = ("my-framework",)

            async def run(self, scene):
                agent = my_framework.Agent(base_url=scene.base_url, tools=[scene.tool])
                return await my_adapter.run(agent, scene.prompt, scene.controller, agent_id=scene.agent_id)

    The engine is the embedded one (``pip install 'concur-agents[emulator]'``). Tests run in the main thread.
    """

    title: ClassVar[str] = ""
    """What the adapter is called in tables; the class's name by default."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions say what was tested."""
    not_covered: ClassVar[Mapping[str, str]] = {}
    """Why a test cannot be passed, by its name: what the framework does not have, or does not let an adapter do."""
    tool_name: ClassVar[str] = "work"
    """What the model calls the tool."""
    tool_argument: ClassVar[str] = "text"
    """What it calls the tool's only argument."""

    @abc.abstractmethod
    def run(self, scene: Scene) -> Any:
        """Build one agent as a user would, run it to its end and return its result. ``def`` or ``async def``.

        Let through whatever the framework raises.
        """

    def stream(self, scene: Scene) -> Any:
        """The same as a stream of whatever the framework yields: a generator, or an async one if ``run`` is async."""
        raise NotImplementedError(_MISSING.format("stream", "test_abandoned_stream"))

    def ask(self, scene: Scene) -> Any:
        """Run until the framework hands control back to ask a person about the tool call.

        Return a function without arguments that says yes and runs to the end. Both are async if ``run`` is.
        """
        raise NotImplementedError(_MISSING.format("ask", "test_nothing_is_held_while_a_person_thinks"))

    def last(self, text: str) -> dict[str, Any]:
        """The model's last reply, in the form of ``POST /emulator/scripts``: for frameworks that end by a tool call."""
        return {"content": text}

    # --- where the boundaries are ---

    @_guarantee
    def test_admits_only_before_a_model_call(self, play: Play) -> None:
        """Admitted and resumed before model calls and nowhere else."""
        scene = play.scene("echo", "echo")
        ended = perform(play, self.run, scene)
        assert ended.error is None, f"the run failed: {ended.error!r}"
        kinds = play.check(completed=1)[scene.agent_id]
        calls = play.log(scene.agent_id).count("request")
        assert calls == 3, f"3 model calls were scripted, {calls} came"
        begun = [kind for kind in kinds if kind in (_ADMITTED, _RESUMED)]
        assert begun == [_ADMITTED, _RESUMED, _RESUMED], f"for 3 model calls: {kinds}"

    @_guarantee
    def test_pauses_before_the_first_tool_and_not_between_parallel_tools(self, play: Play) -> None:
        """Paused before the first tool starts, and not touched between parallel tools."""
        scene = play.scene(["echo", "echo", "echo"])
        ended = perform(play, self.run, scene)
        assert ended.error is None, f"the run failed: {ended.error!r}"
        kinds = play.check(completed=1)[scene.agent_id]  # what a tool saw is checked here
        tools = play.log(scene.agent_id).count("tool")
        assert tools == 3, f"3 parallel tool calls were scripted, {tools} came"
        assert kinds.count(AgentEventKind.PAUSED) == kinds.count(_RESUMED) + 1 == 2, f"one boundary a call: {kinds}"

    @_guarantee
    def test_keeps_the_seat_in_tools(self, play: Play) -> None:
        """The seat is kept through tools: whoever waits gets it when the agent has finished."""
        scene = play.scene("block")

        def director(_: Running) -> None:
            play.wait_for("tool", scene.agent_id)
            other = Other(play)
            other.wait_asked()
            assert play.state("other") is not AgentState.GENERATING, "the seat was given away in the tool"
            play.free()
            other.wait_seated()
            assert play.state(scene.agent_id) is None, "the seat was given away before the agent finished"
            other.finish()

        ended = perform(play, self.run, scene, director)
        assert ended.error is None, f"the run failed: {ended.error!r}"
        play.check(completed=2)

    @_guarantee
    def test_resumes_before_the_next_call(self, play: Play) -> None:
        """An agent that lost its seat in a tool waits for one before its next model call."""
        scene = play.scene("block")

        def director(_: Running) -> None:
            play.wait_for("tool", scene.agent_id)
            assert play.controller.park(scene.agent_id), "the agent held no seat in its tool"
            other = Other(play)
            other.wait_seated()
            play.free()
            play.wait_queued()
            assert play.log(scene.agent_id).count("request") == 1, "a request was sent without a seat"
            other.finish()

        ended = perform(play, self.run, scene, director)
        assert ended.error is None, f"the run failed: {ended.error!r}"
        play.check(completed=2)

    # --- every way out ---

    @_guarantee
    def test_success(self, play: Play) -> None:
        """Finished once: success."""
        ended = perform(play, self.run, play.scene("echo"))
        assert ended.error is None, f"the run failed: {ended.error!r}"
        play.check(completed=1)

    @_guarantee
    def test_model_error(self, play: Play) -> None:
        """Finished once: the engine refuses the request."""
        scene = play.scene()
        play.fail(scene)
        ended = perform(play, self.run, scene)
        assert ended.error is None or isinstance(ended.error, Exception)
        play.check(**{ended.outcome: 1})

    @_guarantee
    def test_tool_error(self, play: Play) -> None:
        """Finished once: a tool raises, and the framework ends the run or tells the model."""
        scene = play.scene("raise")
        ended = perform(play, self.run, scene)
        assert ended.error is None or isinstance(ended.error, Exception)
        assert "tool" in play.log(scene.agent_id)
        play.check(**{ended.outcome: 1})

    @_guarantee
    def test_cancelled_while_generating(self, play: Play) -> None:
        """Finished once: cancelled (Ctrl-C where it blocks) while generating."""
        scene = play.scene("echo", held=True)
        perform(play, self.run, scene, cancel(functools.partial(play.wait_for, "request", scene.agent_id)))
        play.check(cancelled=1)

    @_guarantee
    def test_cancelled_in_a_tool(self, play: Play) -> None:
        """Finished once: cancelled in a tool."""
        scene = play.scene("block")
        perform(play, self.run, scene, cancel(functools.partial(play.wait_for, "tool", scene.agent_id)))
        play.check(cancelled=1)

    @_guarantee
    def test_cancelled_while_queued(self, play: Play) -> None:
        """Cancelled while queued: no seat, no request, no trace."""
        play.controller.sync.admit("holder")
        scene = play.scene("echo")
        perform(play, self.run, scene, cancel(play.wait_queued))
        assert [view.agent_id for view in play.controller.agents()] == ["holder"]
        assert play.controller.stats().population.waiting == 0, "it is still queued"
        assert play.log(scene.agent_id) == [], "it sent a request without a seat"
        play.controller.finish("holder")
        assert scene.agent_id not in play.lives()

    @_guarantee
    def test_timeout(self, play: Play) -> None:
        """Finished once: a timeout round the run."""
        scene = play.scene("echo", held=True)

        def director(running: Running) -> None:
            play.wait_for("request", scene.agent_id)
            running.expire()

        ended = perform(play, self.run, scene, director)
        if inspect.iscoroutinefunction(self.run):
            play.check(cancelled=1)
        else:  # the alarm may go off inside a framework's event loop, which then cancels the run before it raises
            lives = play.check_ended("cancelled", ended.outcome)
            assert scene.agent_id in lives

    @_guarantee
    def test_interrupt(self, play: Play) -> None:
        """Finished once: SIGINT in a program that runs it."""
        scene = play.scene("block")

        def director(running: Running) -> None:
            play.wait_for("tool", scene.agent_id)
            running.send(signal.SIGINT)

        perform(play, self.run, scene, director)
        play.check(cancelled=1)

    @_guarantee
    def test_recursion_limit(self, play: Play) -> None:
        """Finished once: the framework's own limit on model calls."""
        scene = play.scene(*["echo"] * 20, max_steps=3)
        ended = perform(play, self.run, scene)
        assert play.log(scene.agent_id).count("request") < 20, "the limit was not given to the framework"
        play.check(**{ended.outcome: 1})

    @_guarantee
    def test_abandoned_stream(self, play: Play) -> None:
        """Finished once: a stream that is closed, or dropped, half-way."""
        closed, dropped = play.scene(*["echo"] * 5), play.scene(*["echo"] * 5)
        if inspect.isasyncgenfunction(self.stream):
            asyncio.run(self._abandon(play, closed, dropped))
        else:
            stream = self.stream(closed)
            begin(play, stream, closed)
            stream.close()
            with quiet():
                stream = self.stream(dropped)
                begin(play, stream, dropped)
                del stream
                gc.collect()
        assert not play.controller.agents(), f"agents are left: {play.controller.agents()}"
        lives = play.lives()
        assert set(lives) == {closed.agent_id, dropped.agent_id}, f"agents seen: {sorted(lives)}"

    async def _abandon(self, play: Play, closed: Scene, dropped: Scene) -> None:
        stream = self.stream(closed)
        await abegin(play, stream, closed)
        await stream.aclose()
        await gone(play)
        with quiet():
            stream = self.stream(dropped)
            await abegin(play, stream, dropped)
            del stream
            gc.collect()
            await gone(play)

    @_guarantee
    def test_collected_run(self, play: Play) -> None:
        """Finished once: a run that is never continued, and collected as garbage."""
        if not inspect.iscoroutinefunction(self.run):
            raise unittest.SkipTest(_BLOCKS)
        scene = play.scene("block")
        with quiet():
            self._drop(play, scene)
            gc.collect()
            gc.collect()
        play.wait_until(lambda: not play.controller.agents(), "the collected run's agent to finish")
        lives = play.check(cancelled=1)
        assert scene.agent_id in lives

    def _drop(self, play: Play, scene: Scene) -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(self.run(scene))

        async def in_tool() -> None:
            await asyncio.to_thread(play.wait_for, "tool", scene.agent_id)

        loop.run_until_complete(in_tool())
        loop.run_until_complete(loop.shutdown_default_executor())
        del task
        loop.close()

    @_guarantee
    def test_process_exit(self, play: Play) -> None:
        """Finished once: the process is told to end while one agent is in a tool and others are queued."""
        del play  # it has one of its own, in that process
        run_in_process(type(self))

    # --- many agents ---

    @_guarantee
    def test_sub_agents_share_one_seat(self, play: Play) -> None:
        """Agents started inside a tool share their parent's seat: no deadlock at a window of 1."""
        children = [play.scene("echo", name="child") for _ in range(2)]
        parent = play.scene([child.agent_id for child in children], name="parent")
        ended = perform(play, self.run, parent)
        assert ended.error is None, f"the run failed: {ended.error!r}"
        lives = play.check(completed=3)
        assert set(lives) == {parent.agent_id, *(child.agent_id for child in children)}
        assert play.most_seated == 1, f"{play.most_seated} seats were taken"

    @_guarantee
    def test_fifty_agents_at_once(self, play: Play) -> None:
        """50 agents in threads and event loops at once, on 7 seats."""
        play.with_window(7)
        scenes = [play.scene("echo", ["echo", "echo"]) for _ in range(50)]
        share = 13 if inspect.iscoroutinefunction(self.run) else 1
        run_crowds(play, self.run, [scenes[first : first + share] for first in range(0, len(scenes), share)])
        play.check(completed=50)
        assert 1 < play.most_seated <= 7, f"{play.most_seated} were seated at once"

    @_guarantee
    def test_requests_go_to_the_agents_engine(self, play: Play) -> None:
        """With several engines each agent's requests go to its own, and when that dies to another; nobody is lost."""
        check_one_engine_dies(play, self.run, None if "test_abandoned_stream" in self.not_covered else self.stream)

    # --- what is observed, and what is not held ---

    @_guarantee
    def test_observed_usage_is_the_engines(self, play: Play) -> None:
        """Tokens observed, cached ones too, are those the engine counted."""
        before = play.stage.tokens()
        ended = perform(play, self.run, play.scene("echo", ["echo", "echo"]))
        assert ended.error is None, f"the run failed: {ended.error!r}"
        prompt, cached, output = (now - then for now, then in zip(play.stage.tokens(), before, strict=True))
        stats = play.controller.stats()
        observed = (stats.prompt_tokens, stats.cached_tokens, stats.output_tokens)
        counted = (prompt, cached, output)
        assert observed == counted, f"prompt, cached, output: observed {observed}, the engine counted {counted}"
        assert cached > 0, "the engine found nothing of the agent's earlier prompts: does the framework change them?"
        play.check(completed=1)

    @_guarantee
    def test_nothing_is_held_while_a_person_thinks(self, play: Play) -> None:
        """No seat while a person is asked; the agent goes on with the answer."""
        asked, other = play.scene("echo", name="asked"), play.scene("echo", name="other")
        if inspect.iscoroutinefunction(self.run):
            asyncio.run(self._think(play, asked, other))
        else:
            answer = self.ask(asked)
            check_thinking(play, asked)
            self.run(other)
            answer()
        lives = play.check(completed=2)
        assert set(lives) == {asked.agent_id, other.agent_id}

    async def _think(self, play: Play, asked: Scene, other: Scene) -> None:
        answer = await self.ask(asked)
        check_thinking(play, asked)
        await self.run(other)
        await answer()

    @_guarantee
    def test_goes_on_without_a_closed_controller(self, play: Play) -> None:
        """A failure of Concur's own does not stop the agent."""
        scene = play.scene("echo")
        play.close_controller()
        ended = perform(play, self.run, scene)
        assert ended.error is None, f"the run failed: {ended.error!r}"
        calls = play.log(scene.agent_id).count("request")
        assert calls == 2, f"2 model calls were scripted, {calls} came"
