"""Each model call is one step: a seat before it, a boundary after it, its tokens counted once, its agent named."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware, ModelRetryMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import tool
from pydantic import BaseModel

from concur_agents import AgentEventKind, Controller, Decision, EngineSample, Outcome, Population, Reason
from concur_agents.testing import ScriptedReader
from concur_agents_langgraph import ConcurMiddleware, wrap

HELLO: Any = {"messages": [("user", "hello")]}


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


class FailsOnce(AgentMiddleware):
    """A model call that fails the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError("first try")
        return await handler(request)


async def test_seat_is_kept_in_the_tools_and_freed_at_the_end(world: Any, engine: Any, make_agent: Any) -> None:
    for agent in ("a", "b"):
        engine.script(agent, [("look", {"text": "hi"}), ("look", {"text": "ho"})], "done")
    seen = []

    @tool
    async def look(text: str) -> str:
        """Look around."""
        seen.append(world.left())
        return text

    agent = make_agent(world, look)
    await asyncio.gather(agent.ainvoke(HELLO, on("a")), agent.ainvoke(HELLO, on("b")))
    assert seen == [{"a": "in_tool", "b": "waiting"}] * 2 + [{"b": "in_tool"}] * 2
    assert world.lives() == {each: ["admitted", "paused", "resumed", "paused", "completed"] for each in "ab"}


async def test_waiting_for_a_seat_does_not_block_the_loop(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", "done")
    await world.controller.admit("holder")
    run = asyncio.create_task(make_agent(world).ainvoke(HELLO, on("t")))
    await world.seen("holder", AgentEventKind.ADMITTED)
    world.controller.finish("holder")
    assert (await run)["messages"][-1].content == "done"


def test_sync_runs_in_threads_take_turns(world: Any, engine: Any, make_agent: Any) -> None:
    seats = []

    @tool
    def look(text: str) -> str:
        """Look around."""
        seats.append(world.seated)
        return text

    agent, threads = make_agent(world, look), [f"t{i}" for i in range(4)]
    for thread in threads:
        engine.script(thread, [("look", {"text": "hi"})], "done")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda thread: agent.invoke(HELLO, on(thread)), threads))
    assert seats == [1] * 4
    assert world.finished == {Outcome.COMPLETED: 4}


async def test_usage_is_observed(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    result = await make_agent(world, echo).ainvoke(HELLO, on("t"))
    usages = [message.usage_metadata for message in result["messages"] if message.type == "ai"]
    stats = world.controller.stats()
    assert stats.prompt_tokens == sum(usage["input_tokens"] for usage in usages) > 0
    assert stats.output_tokens == sum(usage["output_tokens"] for usage in usages) > 0
    assert stats.cached_tokens == sum(usage["input_token_details"]["cache_read"] for usage in usages)


@pytest.mark.parametrize("decided", [None, True, False])
async def test_streamed_usage_is_asked_for_unless_the_user_decided(
    world: Any, engine: Any, model: Any, decided: bool | None
) -> None:
    engine.script("t", "one two three")
    model.stream_usage = decided
    agent = wrap(create_agent(model, middleware=[ConcurMiddleware(world.controller)]), world.controller)
    chunks = [chunk async for chunk, _ in agent.astream(HELLO, on("t"), stream_mode="messages")]
    assert "".join(chunk.text for chunk in chunks) == "one two three"
    assert len(chunks) > 2
    assert (world.controller.stats().output_tokens > 0) is (decided is not False)
    assert model.stream_usage is decided


async def test_chunks_come_while_the_generation_runs(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", "word " * 200)
    states = [
        world.left()["t"]
        async for chunk, _ in make_agent(world).astream(HELLO, on("t"), stream_mode="messages")
        if chunk.text
    ]
    assert states[0] == "generating"


async def test_events_stream_reports_and_ends_the_agent(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    kinds = {event["event"] async for event in make_agent(world, echo).astream_events(HELLO, on("t"), version="v2")}
    assert {"on_chat_model_stream", "on_tool_end", "on_chain_end"} <= kinds
    assert world.lives() == {"t": ["admitted", "paused", "resumed", "paused", "completed"]}
    assert world.controller.stats().prompt_tokens > 0


async def test_header_of_any_thread_id_reaches_the_engine(world: Any, engine: Any, make_agent: Any) -> None:
    engine.script("caf%C3%A9%0A100%25", "found by its header")
    result = await make_agent(world).ainvoke(HELLO, on("café\n100%"))
    assert result["messages"][-1].content == "found by its header"
    assert list(world.lives()) == ["café\n100%"]


async def test_users_own_session_header_wins(world: Any, engine: Any, model: Any) -> None:
    class Mine(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request.override(model_settings={"extra_headers": {"X-Session-ID": "mine"}}))

    engine.script("mine", "the user's")
    middleware = [Mine(), ConcurMiddleware(world.controller)]
    agent = wrap(create_agent(model, middleware=middleware), world.controller)
    assert (await agent.ainvoke(HELLO, on("t")))["messages"][-1].content == "the user's"


@pytest.mark.parametrize("header", [None, "X-Other-ID"])
async def test_session_header_can_be_left_out_and_renamed(
    world: Any, engine: Any, model_for: Any, header: str | None
) -> None:
    engine.script("fixed", "no header of Concur's")
    concur = ConcurMiddleware(world.controller, session_header=header)
    agent = wrap(create_agent(model_for("fixed"), middleware=[concur]), world.controller)
    assert (await agent.ainvoke(HELLO, on("t")))["messages"][-1].content == "no header of Concur's"


@pytest.mark.parametrize(("outside", "steps"), [(True, 2), (False, 1)])
async def test_retried_call_counts_its_tokens_once(
    world: Any, engine: Any, model: Any, outside: bool, steps: int
) -> None:
    """Around Concur each attempt is a step; within it all attempts are one."""
    engine.script("t", "done")
    retry: Any = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    concur = ConcurMiddleware(world.controller)
    order = [retry, concur, FailsOnce()] if outside else [concur, retry, FailsOnce()]
    result = await wrap(create_agent(model, middleware=order), world.controller).ainvoke(HELLO, on("t"))
    assert world.controller.stats().prompt_tokens == result["messages"][-1].usage_metadata["input_tokens"]
    begun = [kind for kind in world.lives()["t"] if kind in ("admitted", "resumed")]
    assert len(begun) == steps


async def test_fallback_model_counts_its_tokens_once(world: Any, engine: Any, model: Any) -> None:
    engine.script("t", "from the fallback")
    away = model.model_copy(update={"model_name": ""})  # the engine's answer to a model without a name
    fallback = ModelFallbackMiddleware(model)
    middleware = [fallback, ConcurMiddleware(world.controller), FailsOnce()]
    result = await wrap(create_agent(away, middleware=middleware), world.controller).ainvoke(HELLO, on("t"))
    assert result["messages"][-1].content == "from the fallback"
    assert world.controller.stats().prompt_tokens == result["messages"][-1].usage_metadata["input_tokens"]
    assert world.finished == {Outcome.COMPLETED: 1}


async def test_structured_output_is_one_step(world: Any, engine: Any, make_agent: Any) -> None:
    class Answer(BaseModel):
        number: int

    engine.script("t", [("Answer", {"number": 42})])
    result = await make_agent(world, response_format=ToolStrategy(Answer)).ainvoke(HELLO, on("t"))
    assert result["structured_response"] == Answer(number=42)
    assert world.controller.stats().output_tokens == result["messages"][1].usage_metadata["output_tokens"]
    assert world.lives() == {"t": ["admitted", "paused", "completed"]}


async def test_retry_round_the_whole_agent_is_a_new_run_each_time(world: Any, engine: Any, model: Any) -> None:
    engine.script("t", "done")
    middleware = [ConcurMiddleware(world.controller), FailsOnce()]
    agent = wrap(create_agent(model, middleware=middleware), world.controller)
    await agent.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).ainvoke(HELLO, on("t"))
    assert world.lives() == {"t": ["admitted", "paused", "failed", "admitted", "paused", "completed"]}


@dataclass(frozen=True)
class Shrinks:
    """Two seats before the first sample, one after."""

    initial: float = 2

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        return Decision(1, Reason.CUT)


async def test_agent_parked_in_its_tool_waits_for_its_next_step(engine: Any, model: Any) -> None:
    """The window shrinks while the younger agent is in its tool: it goes on when the older one is done."""
    controller = Controller(ScriptedReader([EngineSample(pinned_usage=0.9)]), law=Shrinks(), background=False)
    order, ready, shrunk = [], asyncio.Barrier(2), asyncio.Event()

    @tool
    async def work(name: str) -> str:
        """Work."""
        await ready.wait()
        if name == "young":
            controller.tick()
            shrunk.set()
        await shrunk.wait()
        return name

    agent = wrap(create_agent(model, [work], middleware=[ConcurMiddleware(controller)]), controller)

    async def run(name: str) -> None:
        engine.script(name, [("work", {"name": name})], "done")
        await agent.ainvoke(HELLO, on(name))
        order.append(name)

    with controller:
        events = controller.events()
        old = asyncio.create_task(run("old"))
        await anext(events)  # admitted
        await asyncio.gather(old, run("young"))
        assert controller.stats().finished == {Outcome.COMPLETED: 2}
    assert order == ["old", "young"]
