"""How users call Concur, for the type checker alone: `mypy tests/typing/api.py` must find nothing to say.

Each `type: ignore` is a mistake that the types must catch; mypy complains when one of them no longer does.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, assert_type

import openai

from concur_agents import (
    INHERIT,
    Agent,
    AgentEvent,
    AgentEventKind,
    AgentView,
    Clamped,
    ConcurLaw,
    ConfigError,
    Controller,
    Decision,
    EngineReadError,
    EngineSample,
    Event,
    EventStream,
    FixedWindow,
    FleetController,
    Law,
    Outcome,
    Population,
    ProblemEvent,
    Reason,
    Smoothed,
    Stats,
    Step,
    SyncAgent,
    SyncStep,
    TokenUsage,
    Uncontrolled,
    WindowChange,
    shared_controller,
)
from concur_agents.engines import SGLang, read_sample
from concur_agents.remote import RemoteController
from concur_agents.testing import AdapterContract, ManualClock, Scene, ScriptedReader, check_lives


async def asynchronous(reply: object) -> None:
    async with Controller(SGLang("http://127.0.0.1:30000"), law=ConcurLaw()) as concur:
        assert_type(concur, Controller)
        async with concur.agent("task-17") as agent:
            assert_type(agent, Agent)
            assert_type(agent.agent_id, str)
            assert_type(agent.headers, dict[str, str])
            async with agent.step() as step:
                assert_type(step, Step)
                step.observe(reply)
            assert_type(agent.park(), bool)
        async with concur.agent() as made_up, concur.agent("b", parent=None), concur.agent("c", parent=INHERIT):
            made_up.finish(Outcome.FAILED)
        async for event in concur.events():
            assert_type(event, Event)


def threaded(reply: object) -> None:
    with Controller(SGLang("http://127.0.0.1:30000"), tick=0.5, stale_after=60, fallback=math.inf) as concur:
        with concur.sync.agent("task-17") as agent:
            assert_type(agent, SyncAgent)
            with agent.step() as step:
                assert_type(step, SyncStep)
                step.observe(reply)
        concur.sync.admit("a", parent="task-17")
        concur.sync.resume("a")
        for event in concur.events(size=10):
            assert_type(event, Event)


async def decorated(concur: Controller) -> None:
    @concur.agent
    async def solve(task: str, *, retries: int = 0) -> int:
        return len(task) + retries

    @concur.agent(id_of=lambda task: f"task-{task}", parent=None)
    def blocking(task: int) -> str:
        return str(task)

    @concur.agent
    async def stream(task: str) -> AsyncIterator[str]:
        yield task

    @concur.agent
    def generate(task: str) -> Iterator[str]:
        yield task

    assert_type(await solve("a", retries=1), int)
    assert_type(blocking(1), str)
    assert_type(stream("a"), AsyncIterator[str])
    assert_type(generate("a"), Iterator[str])
    assert_type(concur.current_agent(), Agent | None)
    await solve(1)  # type: ignore[arg-type]
    blocking("a")  # type: ignore[arg-type]
    concur.agent(solve, id_of=str)  # type: ignore[call-overload]
    concur.sync.agent(blocking)  # type: ignore[arg-type]


def wrapped(concur: Controller, client: openai.AsyncOpenAI, blocking: openai.AzureOpenAI) -> None:
    assert_type(concur.wrap_client(client), openai.AsyncOpenAI)
    assert_type(concur.wrap_client(blocking), openai.AzureOpenAI)
    assert_type(concur.route(client), openai.AsyncOpenAI)


async def primitives(concur: Controller) -> None:
    await concur.admit("a")
    assert_type(concur.pause("a"), bool)
    assert_type(concur.park("a"), bool)
    await concur.resume("a")
    concur.observe("a", TokenUsage(prompt=1, cached=0, output=1))
    assert_type(concur.finish("a"), bool)
    assert_type(concur.finish("a", Outcome.CANCELLED), bool)


def configured(path: Path) -> None:
    assert_type(Controller.from_config(path), Controller)
    assert_type(shared_controller("concur.yaml"), Controller | FleetController | RemoteController)
    with Controller.from_config({"engine": "http://127.0.0.1:30000"}, tick=0.5, law=ConcurLaw()) as concur:
        assert_type(concur.session_header, str | None)
        assert_type(concur.closed, bool)
        concur.close(timeout=1)
    try:
        shared_controller()
    except ConfigError as error:
        assert_type(error.problems, tuple[str, ...])
    Controller(MyReader(), session_header=None)


def seeing(concur: Controller) -> None:
    stats: Stats = concur.stats()
    assert_type(stats.window, float)
    assert_type(stats.population.reuse, float | None)
    assert_type(stats.finished, Mapping[Outcome, int])
    assert_type(stats.cached_tokens, int | None)
    assert_type(concur.history(), tuple[WindowChange, ...])
    assert_type(concur.agents(), tuple[AgentView, ...])
    assert_type(concur.events(), EventStream)


def telling(event: Event) -> str:
    match event:
        case AgentEvent(agent_id=agent_id, kind=AgentEventKind.FINISHED, outcome=outcome):
            return f"{agent_id} {outcome}"
        case AgentEvent():
            return event.agent_id
        case ProblemEvent():
            return event.problem or "well"
        case WindowChange():
            return f"{event.before} {event.after} {event.reason}"


class MyLaw:
    """A law of the user's own, by shape and not by inheritance."""

    @property
    def initial(self) -> float:
        return 8

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        if sample.pinned_usage is None:
            return Decision(population.window, Reason.UNKNOWN)
        return Decision(population.window + 1, Reason.GROW, self)


class MyReader:
    """A reader of the user's own."""

    def read(self, timeout: float) -> EngineSample:
        raise EngineReadError("not today")

    def close(self) -> None: ...


laws: list[Law] = [
    MyLaw(),
    FixedWindow(8),
    Uncontrolled(),
    Clamped(MyLaw(), low=2, high=64),
    Smoothed(Clamped(ConcurLaw(alpha=1, beta=0.25, u_low=0.1, u_high=0.9, h_thresh=0.3, start=4)), weight=0.5),
]
own = Controller(MyReader(), law=MyLaw(), clock=ManualClock(), background=False, history=10)
scripted = Controller(ScriptedReader([read_sample(""), EngineReadError("x")]), background=False)
lives: dict[str, list[AgentEventKind]] = check_lives(scripted.events())


class TestMyAdapter(AdapterContract):
    packages = ("my-framework",)
    not_covered: ClassVar[dict[str, str]] = {"test_abandoned_stream": "it has no streams"}

    async def run(self, scene: Scene) -> str:
        async with scene.controller.agent(scene.agent_id).step():
            return await scene.tool(scene.prompt)


class TestMyBlockingAdapter(AdapterContract):
    def run(self, scene: Scene) -> str:
        return scene.blocking_tool(scene.prompt)


def mistakes(concur: Controller, stats: Stats, sample: EngineSample) -> None:
    Controller()  # type: ignore[call-arg]
    Controller(MyReader(), ConcurLaw())  # type: ignore[call-arg]
    Controller(MyLaw())  # type: ignore[arg-type]
    Controller(MyReader(), law=ConcurLaw)  # type: ignore[arg-type]
    ConcurLaw(2.0)  # type: ignore[call-arg]
    Controller.from_config(3)  # type: ignore[arg-type]
    Controller(MyReader(), session_header=3)  # type: ignore[arg-type]
    concur.finish("a", "splendid")  # type: ignore[arg-type]
    with concur.agent("a"):  # type: ignore[attr-defined]
        pass
    stats.window = 8  # type: ignore[misc]
    sample.pinned_usage + 1  # type: ignore[operator]
    AdapterContract()  # type: ignore[abstract]
