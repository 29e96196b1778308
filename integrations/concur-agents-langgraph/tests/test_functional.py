"""The functional API: an entrypoint is an agent, and each model call in its tasks is a step."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import openai
import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import Command, interrupt

from concur_agents_langgraph import add_concur, model_step, session_headers, wrap, wrap_model

HELLO: Any = {"messages": [("user", "hello")]}
WHOLE = ["admitted", "paused", "completed"]
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


async def test_functional_api_can_be_wrapped(world: Any, engine: Any, make_agent: Any) -> None:
    helper = make_agent(world)

    @entrypoint()
    async def flow(text: str) -> str:
        return str((await helper.ainvoke(HELLO, on("helper")))["messages"][-1].content)

    engine.script("helper", "helped")
    assert await wrap(flow, world.controller).ainvoke("go", on("flow")) == "helped"
    assert world.lives() == {"flow": WHOLE, "helper": WHOLE}


async def test_model_calls_in_tasks_are_steps(world: Any, engine: Any, model: Any) -> None:
    seen = []
    model = wrap_model(model, world.controller).bind_tools([echo])

    @task
    async def call_model(messages: Any) -> Any:
        return await model.ainvoke(messages)

    @task
    async def call_tool(call: Any) -> Any:
        seen.append(world.left())
        return await echo.ainvoke(call)

    @entrypoint()
    async def agent(messages: Any) -> Any:
        while (reply := await call_model(messages)).tool_calls:
            results = await asyncio.gather(*(call_tool(call) for call in reply.tool_calls))
            messages = add_messages(messages, [reply, *results])
        return reply

    agent = wrap(agent, world.controller)
    for name in "ab":
        engine.script(name, [("echo", {"text": "hi"})], "done")
    await asyncio.gather(agent.ainvoke("go", on("a")), agent.ainvoke("go", on("b")))
    assert seen == [{"a": "in_tool", "b": "waiting"}, {"b": "in_tool"}]
    assert world.lives() == {"a": TWO_STEPS, "b": TWO_STEPS}
    assert world.controller.stats().prompt_tokens > 0


def test_sync_entrypoint(world: Any, engine: Any, model: Any) -> None:
    model = wrap_model(model, world.controller)

    @task
    def call_model(text: str) -> str:
        return str(model.invoke(text).content)

    @entrypoint()
    def agent(text: str) -> list[str]:
        return [call_model(text).result(), *(chunk.content for chunk in model.stream(text))]

    engine.script("t", "done")
    assert "".join(wrap(agent, world.controller).invoke("go", on("t"))) == "donedone"
    assert world.lives() == {"t": TWO_STEPS}


async def test_step_round_another_client(world: Any, engine: Any) -> None:
    @task
    async def call_model(text: str) -> Any:
        async with (
            httpx2.AsyncClient(verify=False) as http,
            openai.AsyncOpenAI(base_url=engine.url + "/v1", api_key="none", http_client=http) as client,
            model_step(world.controller) as step,
        ):
            messages: Any = [{"role": "user", "content": text}]
            reply = await client.chat.completions.create(model="m", messages=messages, extra_headers=session_headers())
            step.observe(reply.usage)
        return reply.choices[0].message.content

    @entrypoint()
    async def agent(text: str) -> Any:
        return await call_model(text)

    engine.script("t", "found by its header")
    assert await wrap(agent, world.controller).ainvoke("go", on("t")) == "found by its header"
    assert world.lives() == {"t": WHOLE}
    assert world.controller.stats().output_tokens > 0


async def test_parallel_calls_are_one_agent(world: Any, engine: Any, model: Any) -> None:
    model = wrap_model(model, world.controller)

    @task
    async def call_model(text: str) -> Any:
        return (await model.ainvoke(text)).content

    @entrypoint()
    async def agent(texts: list[str]) -> Any:
        return await asyncio.gather(*(call_model(text) for text in texts))

    await wrap(agent, world.controller).ainvoke(["a", "b", "c"], on("t"))
    assert list(world.lives()) == ["t"]
    assert world.left() == {}


async def test_resumed_entrypoint_replays_no_step(world: Any, engine: Any, model: Any) -> None:
    model = wrap_model(model, world.controller)

    @task
    async def call_model(text: str) -> Any:
        return (await model.ainvoke(text)).content

    @entrypoint(checkpointer=InMemorySaver())
    async def agent(text: str) -> Any:
        return [await call_model(text), interrupt("may I?"), await call_model(text)]

    agent = wrap(agent, world.controller)
    engine.script("t", "done")
    assert "__interrupt__" in await agent.ainvoke("go", on("t"))
    assert (world.left(), world.seated) == ({"t": "parked"}, 0)
    assert await agent.ainvoke(Command(resume="yes"), on("t")) == ["done", "yes", "done"]
    assert world.lives() == {"t": ["admitted", "paused", "parked", "resumed", "paused", "completed"]}


async def test_failed_task_fails_the_agent(world: Any, model: Any) -> None:
    model = wrap_model(model, world.controller)

    @task
    async def call_model(text: str) -> Any:
        return await model.ainvoke(text)

    @entrypoint()
    async def agent(text: str) -> Any:
        return await call_model(text)

    with pytest.raises(openai.BadRequestError):
        await wrap(agent, world.controller).ainvoke("word " * 40_000, on("t"))
    assert world.lives() == {"t": ["admitted", "paused", "failed"]}


async def test_tasks_in_tasks_and_in_nodes_are_their_agents(world: Any, engine: Any, model: Any) -> None:
    """A task has a place of its own in LangGraph's names, as a subgraph has, but is no agent of its own."""
    model = wrap_model(model, world.controller)

    @task
    async def call_model(text: str) -> Any:
        return (await model.ainvoke(text)).content

    @task
    async def outer(text: str) -> Any:
        return await call_model(text)

    @entrypoint()
    async def agent(text: str) -> Any:
        return await outer(text)

    async def node(state: MessagesState) -> Any:
        return {"messages": [await outer("hi"), await wrap(agent, world.controller).ainvoke("hi")]}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    await wrap(graph.compile(), world.controller).ainvoke(HELLO, on("t"))
    assert await wrap(agent, world.controller).ainvoke("hi", on("s"))
    lives = world.lives()
    assert (lives.pop("t"), lives.pop("s")) == (WHOLE, WHOLE)
    ((name, life),) = lives.items()
    assert name.startswith("t/node:")
    assert name.count("|") == 0
    assert life == WHOLE


async def test_agent_in_a_task_is_a_sub_agent(world: Any, engine: Any, make_agent: Any, model: Any) -> None:
    model = wrap_model(model, world.controller)
    helper = make_agent(world)

    @task
    async def call_tool(text: str) -> Any:
        return (await helper.ainvoke(HELLO))["messages"][-1].content

    @entrypoint()
    async def agent(text: str) -> Any:
        return [(await model.ainvoke(text)).content, await call_tool(text), (await model.ainvoke(text)).content]

    await wrap(agent, world.controller).ainvoke("go", on("t"))
    lives = world.lives()
    assert lives.pop("t") == TWO_STEPS
    assert list(lives.values()) == [WHOLE]


async def test_blocking_call_in_an_async_run_is_refused(world: Any, model: Any) -> None:
    """It would wait in a thread of the loop: with some agents waiting so, the seated ones would find none."""
    wrapped = wrap_model(model, world.controller)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": wrapped.invoke(state["messages"])})
    graph.add_edge(START, "model")
    with pytest.raises(TypeError, match="a blocking model call in an async run"):
        await wrap(graph.compile(), world.controller).ainvoke(HELLO, on("t"))
    # The node as a whole can be a step, since it waits before it has a thread.
    assert await add_concur(graph, world.controller, tool_node=()).ainvoke(HELLO, on("t"))
