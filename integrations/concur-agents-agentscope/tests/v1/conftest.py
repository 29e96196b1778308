"""Agents of AgentScope 1.x, as a user builds them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import pytest
from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.memory import InMemoryMemory
from agentscope.message import TextBlock
from agentscope.model import OpenAIChatModel
from agentscope.tool import Toolkit, ToolResponse

from concur_agents_agentscope import install


async def work(text: str) -> str:
    """Do some work.

    Args:
        text (str): what to do
    """
    return text


class MakeModel(Protocol):
    def __call__(self, **options: Any) -> OpenAIChatModel: ...


class MakeAgent(Protocol):
    def __call__(self, agent_id: str, world: Any = None, *tools: Any, **options: Any) -> ReActAgent: ...


@pytest.fixture
async def make_model(engine: Any) -> AsyncIterator[MakeModel]:
    async with contextlib.AsyncExitStack() as stack:

        def make(url: str | None = None, client: dict[str, Any] | None = None, **options: Any) -> OpenAIChatModel:
            client = {"base_url": url or engine.url + "/v1", "max_retries": 0, **(client or {})}
            model = OpenAIChatModel("m", api_key="none", client_kwargs=client, **options)
            stack.push_async_callback(model.client.close)
            return model

        yield make


def toolkit_of(*tools: Callable[..., Any]) -> Toolkit:
    """Each tool returns text, as its user writes it; a toolkit wants it wrapped."""
    toolkit = Toolkit()
    for tool in tools:
        toolkit.register_tool_function(wrapped(tool))
    return toolkit


def wrapped(tool: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(tool)
    async def respond(*args: Any, **kwargs: Any) -> ToolResponse:
        return ToolResponse(content=[TextBlock(type="text", text=str(await tool(*args, **kwargs)))])

    respond.__annotations__["return"] = ToolResponse
    return respond


@pytest.fixture
def make_agent(make_model: MakeModel) -> MakeAgent:
    """``world``: where the agent is installed."""

    def make(
        agent_id: str,
        world: Any = None,
        *tools: Callable[..., Any],
        kind: type[ReActAgent] = ReActAgent,
        **options: Any,
    ) -> ReActAgent:
        agent = kind(
            **{
                "name": agent_id,
                "sys_prompt": "You work.",
                "model": options.pop("model", None) or make_model(),
                "formatter": OpenAIChatFormatter(),
                "toolkit": toolkit_of(*(tools or (work,))),
                "memory": InMemoryMemory(),
                "parallel_tool_calls": True,
                **options,
            }
        )
        agent.id = agent_id
        agent.set_console_output_enabled(False)
        return agent if world is None else install(agent, world.controller)

    return make
