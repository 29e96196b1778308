"""The shipped contract, for each way to write an agent."""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from concur_agents.testing import AdapterContract, Scene
from concur_agents_langgraph import ConcurMiddleware, add_concur, wrap, wrap_model

# langchain-core makes tools' schemas under warnings.catch_warnings, which threads take from each other.
pytestmark = pytest.mark.filterwarnings("ignore:Support for class-based")

PACKAGES = ("langchain", "langchain-core", "langgraph")


def tool_of(scene: Scene) -> StructuredTool:
    return StructuredTool.from_function(scene.blocking_tool, coroutine=scene.tool, name="work")


def chat(scene: Scene, **clients: Any) -> ChatOpenAI:
    return ChatOpenAI(model=scene.model, base_url=scene.base_url, api_key="none", max_retries=0, **clients)


def config(scene: Scene) -> Any:
    limit = {"recursion_limit": 2 * scene.max_steps} if scene.max_steps else {}
    return {"configurable": {"thread_id": scene.agent_id}, **limit}


class Asks(AdapterContract, abc.ABC):
    """What all of them have: a graph to build, and how it asks a person."""

    packages = PACKAGES
    answer: Any = Command(resume={"decisions": [{"type": "approve"}]})

    def build(self, scene: Scene, model: ChatOpenAI, *, asks: bool) -> Any:
        """The agent as a user builds it; ``asks``: a person, about each tool call."""
        middleware = [ConcurMiddleware(scene.controller)]
        middleware += [HumanInTheLoopMiddleware(interrupt_on={"work": True})] if asks else []
        agent = create_agent(model, [tool_of(scene)], middleware=middleware, checkpointer=InMemorySaver())
        return wrap(agent, scene.controller)

    def input(self, scene: Scene) -> Any:
        return {"messages": [("user", scene.prompt)]}


class Async(Asks):
    @contextlib.asynccontextmanager
    async def agent(self, scene: Scene, *, asks: bool = False) -> AsyncIterator[Any]:
        async with httpx2.AsyncClient(verify=False) as http:
            yield self.build(scene, chat(scene, http_async_client=http), asks=asks)

    async def run(self, scene: Scene) -> Any:
        async with self.agent(scene) as agent:
            return await agent.ainvoke(self.input(scene), config(scene))

    async def stream(self, scene: Scene) -> AsyncIterator[Any]:
        async with (
            self.agent(scene) as agent,
            contextlib.aclosing(agent.astream(self.input(scene), config(scene), stream_mode="updates")) as chunks,
        ):
            async for chunk in chunks:
                yield chunk

    async def ask(self, scene: Scene) -> Callable[[], Any]:
        stack = contextlib.AsyncExitStack()
        agent = await stack.enter_async_context(self.agent(scene, asks=True))
        assert "__interrupt__" in str(
            [each async for each in agent.astream(self.input(scene), config(scene), stream_mode="updates")]
        )

        async def answer() -> Any:
            async with stack:
                return await agent.ainvoke(self.answer, config(scene))

        return answer


class TestCreateAgent(Async):
    """``create_agent``, run by ``ainvoke``."""

    title = "LangChain `create_agent`"


class TestCreateAgentBlocking(Asks):
    """``create_agent``, run by ``invoke``."""

    title = "LangChain `create_agent`, blocking"

    not_covered = dict.fromkeys(
        ("test_cancelled_in_a_tool", "test_interrupt", "test_process_exit"),
        "LangGraph runs blocking tools in threads and lets them return before an interrupt ends the run",
    )

    @contextlib.contextmanager
    def agent(self, scene: Scene, *, asks: bool = False) -> Iterator[Any]:
        with httpx2.Client(verify=False) as http:
            yield self.build(scene, chat(scene, http_client=http), asks=asks)

    def run(self, scene: Scene) -> Any:
        with self.agent(scene) as agent:
            return agent.invoke(self.input(scene), config(scene))

    def stream(self, scene: Scene) -> Iterator[Any]:
        with self.agent(scene) as agent:
            yield from agent.stream(self.input(scene), config(scene), stream_mode="updates")

    def ask(self, scene: Scene) -> Callable[[], Any]:
        stack = contextlib.ExitStack()
        agent = stack.enter_context(self.agent(scene, asks=True))
        assert "__interrupt__" in agent.invoke(self.input(scene), config(scene))

        def answer() -> Any:
            with stack:
                return agent.invoke(self.answer, config(scene))

        return answer


class TestStateGraph(Async):
    """A hand-made ``StateGraph``."""

    title = "LangGraph `StateGraph`"
    answer = None

    def build(self, scene: Scene, model: ChatOpenAI, *, asks: bool) -> Any:
        tools = [tool_of(scene)]
        bound = wrap_model(model, scene.controller).bind_tools(tools)

        async def call_model(state: MessagesState) -> Any:
            return {"messages": await bound.ainvoke(state["messages"])}

        graph = StateGraph(MessagesState)
        graph.add_node("model", call_model)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        stop = ["tools"] if asks else None
        return add_concur(graph, scene.controller, checkpointer=InMemorySaver(), interrupt_before=stop)


class TestFunctionalAPI(Async):
    """``@entrypoint`` and ``@task``."""

    title = "LangGraph functional API"
    answer = Command(resume=True)

    def build(self, scene: Scene, model: ChatOpenAI, *, asks: bool) -> Any:
        work = tool_of(scene)
        bound = wrap_model(model, scene.controller).bind_tools([work])

        @task
        async def call_model(messages: Any) -> Any:
            return await bound.ainvoke(messages)

        @task
        async def call_tool(call: Any) -> Any:
            return await work.ainvoke(call)

        @entrypoint(checkpointer=InMemorySaver())
        async def agent(messages: Any) -> Any:
            for _ in range(scene.max_steps or 25):
                reply = await call_model(messages)
                if not reply.tool_calls:
                    return reply
                if asks:
                    assert interrupt("may I?")
                results = await asyncio.gather(*(call_tool(call) for call in reply.tool_calls))
                messages = add_messages(messages, [reply, *results])
            raise GraphRecursionError

        return wrap(agent, scene.controller)

    def input(self, scene: Scene) -> Any:
        return [("user", scene.prompt)]
