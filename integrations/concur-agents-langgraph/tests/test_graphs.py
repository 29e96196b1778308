"""Hand-made graphs: controlled without changing their shape, or wired by hand."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send

from concur_agents import Outcome
from concur_agents_langgraph import (
    NotWrappedError,
    add_concur,
    pause_node,
    resume_node,
    session_headers,
    wrap,
)

HELLO: Any = {"messages": [("user", "hello")]}
TWO_STEPS = ["admitted", "paused", "resumed", "paused", "completed"]


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


def caller(model: Any, *tools: Any, blocking: bool = False) -> Any:
    """A model node as users write it."""
    bound = model.bind_tools(tools)

    async def call_model(state: MessagesState) -> Any:
        return {"messages": await bound.ainvoke(state["messages"], extra_headers=session_headers())}

    def call_model_blocking(state: MessagesState) -> Any:
        return {"messages": [bound.invoke(state["messages"], extra_headers=session_headers())]}

    return call_model_blocking if blocking else call_model


def loop(model: Any, *tools: Any, blocking: bool = False) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", caller(model, *tools, blocking=blocking))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph


async def test_agent_is_paused_in_the_tool_node_and_resumed_after_it(world: Any, engine: Any, model: Any) -> None:
    seen = []

    @tool
    async def look(text: str) -> str:
        """Look around."""
        seen.append(world.left())
        return text

    for name in "ab":
        engine.script(name, [("look", {"text": "hi"})], "done")
    agent = add_concur(loop(model, look), world.controller)
    await asyncio.gather(agent.ainvoke(HELLO, on("a")), agent.ainvoke(HELLO, on("b")))
    assert seen == [{"a": "in_tool", "b": "waiting"}, {"b": "in_tool"}]
    assert world.lives() == {"a": TWO_STEPS, "b": TWO_STEPS}
    assert world.controller.stats().prompt_tokens > 0


def test_sync_run_of_sync_nodes(world: Any, engine: Any, model: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    add_concur(loop(model, echo, blocking=True), world.controller).invoke(HELLO, on("t"))
    assert world.lives() == {"t": TWO_STEPS}


async def test_async_run_of_sync_nodes_waits_without_blocking_threads(world: Any, engine: Any, model: Any) -> None:
    """More agents than the loop has threads: were each to wait in one, the seated agent's node would get none."""
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        agent = add_concur(loop(model, echo, blocking=True), world.controller)
        await asyncio.gather(*(agent.ainvoke(HELLO, on(f"t{i}")) for i in range(4)))
    assert world.finished == {Outcome.COMPLETED: 4}


async def test_the_users_graph_and_its_shape_stay(world: Any, model: Any) -> None:
    graph = loop(model, echo)
    before = dict(graph.nodes)
    agent = add_concur(graph, world.controller, checkpointer=InMemorySaver())
    assert graph.nodes == before
    drawn, original = agent.get_graph(), graph.compile().get_graph()
    assert (drawn.edges, list(drawn.nodes)) == (original.edges, list(original.nodes))
    plain = await graph.compile().ainvoke(HELLO)
    assert plain["messages"][-1].content
    assert world.lives() == {}


async def test_sends_to_the_tool_node_work(world: Any, engine: Any, model: Any) -> None:
    def spread(state: MessagesState) -> Any:
        calls = state["messages"][-1].tool_calls
        return [Send("tools", {"messages": [AIMessage("", tool_calls=[call])]}) for call in calls] or END

    graph = StateGraph(MessagesState)
    graph.add_node("model", caller(model, echo))
    graph.add_node("tools", ToolNode([echo]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", spread, ["tools", END])
    graph.add_edge("tools", "model")
    engine.script("t", [("echo", {"text": "hi"}), ("echo", {"text": "ho"})], "done")
    result = await add_concur(graph, world.controller).ainvoke(HELLO, on("t"))
    assert sorted(m.content for m in result["messages"] if m.type == "tool") == ["hi", "ho"]
    assert world.lives() == {"t": TWO_STEPS}


async def test_commands_and_own_messages_are_read_for_usage(world: Any, engine: Any, model: Any) -> None:
    class State(TypedDict):
        messages: Annotated[list[Any], add_messages]

    async def plan(state: State) -> Command[Any]:
        reply = await model.ainvoke(state["messages"], extra_headers=session_headers())
        return Command(update={"messages": [reply]}, goto="act")

    async def act(state: State) -> Any:
        return {"messages": state["messages"]}  # calls no model: the plan's usage is not counted again

    graph = StateGraph(State)
    graph.add_node("plan", plan, destinations=("act",))
    graph.add_node("act", act)
    graph.add_edge(START, "plan")
    engine.script("t", "the plan")
    agent = add_concur(graph, world.controller, model_node=["plan", "act"], tool_node=())
    result = await agent.ainvoke(HELLO, on("t"))
    assert world.controller.stats().output_tokens == result["messages"][-1].usage_metadata["output_tokens"]
    assert world.lives() == {"t": TWO_STEPS}


@pytest.mark.parametrize(
    ("names", "problem"), [({"model_node": "llm"}, "model_node 'llm'"), ({"tool_node": ["x"]}, "'x'")]
)
def test_unknown_node_is_named(world: Any, model: Any, names: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=f"{problem} is no node of the graph, which has .'model', 'tools'."):
        add_concur(loop(model, echo), world.controller, **names)


def by_hand(world: Any, model: Any, *tools: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("resume", resume_node(world.controller))
    graph.add_node("model", caller(model, *tools))
    graph.add_node("pause", pause_node(world.controller))
    graph.add_node("tools", ToolNode(tools))
    for start, end in ((START, "resume"), ("resume", "model"), ("model", "pause"), ("tools", "resume")):
        graph.add_edge(start, end)
    graph.add_conditional_edges("pause", tools_condition)
    return graph


async def test_nodes_wired_by_hand(world: Any, engine: Any, model: Any) -> None:
    engine.script("t", [("echo", {"text": "hi"})], "done")
    agent = wrap(by_hand(world, model, echo).compile(), world.controller)
    result = await agent.ainvoke(HELLO, on("t"))
    usages = [message.usage_metadata for message in result["messages"] if message.type == "ai"]
    assert world.controller.stats().output_tokens == sum(usage["output_tokens"] for usage in usages)
    assert world.lives() == {"t": TWO_STEPS}


def test_nodes_wired_by_hand_in_a_sync_run(world: Any) -> None:
    graph = StateGraph(MessagesState)
    graph.add_sequence([("resume", resume_node(world.controller)), ("again", resume_node(world.controller))])
    graph.add_sequence([("pause", pause_node(world.controller)), ("twice", pause_node(world.controller))])
    graph.add_edge(START, "resume")
    graph.add_edge("again", "pause")
    wrap(graph.compile(), world.controller).invoke(HELLO, on("t"))
    assert world.lives() == {"t": ["admitted", "paused", "completed"]}


async def test_error_between_hand_wired_nodes_fails_the_agent(world: Any, model: Any) -> None:
    agent = wrap(by_hand(world, model, echo).compile(), world.controller)
    with pytest.raises(Exception, match=r"400"):
        await agent.ainvoke({"messages": [("user", "word " * 40_000)]}, on("t"))
    assert world.left() == {}
    assert world.finished == {Outcome.FAILED: 1}


async def test_hand_wired_graph_has_to_be_wrapped(world: Any, model: Any) -> None:
    with pytest.raises(NotWrappedError):
        await by_hand(world, model, echo).compile().ainvoke(HELLO)


def test_session_headers_outside_of_a_run_are_empty() -> None:
    assert session_headers() == {}
