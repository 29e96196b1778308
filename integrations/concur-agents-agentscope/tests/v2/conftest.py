"""Agents of AgentScope 2.x, as a user builds them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import pytest
from agentscope.agent import Agent, ModelConfig
from agentscope.credential import OpenAICredential
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, ToolBase, Toolkit

from concur_agents_agentscope import ConcurMiddleware


async def work(text: str) -> str:
    """Do some work.

    Args:
        text (str): what to do
    """
    return text


class MakeModel(Protocol):
    def __call__(self, **options: Any) -> OpenAIChatModel: ...


class MakeAgent(Protocol):
    def __call__(self, session: str, world: Any = None, *tools: Any, **options: Any) -> Agent: ...


@pytest.fixture
async def make_model(engine: Any) -> AsyncIterator[MakeModel]:
    async with contextlib.AsyncExitStack() as stack:
        opened: list[OpenAIChatModel] = []

        def make(url: str | None = None, client: dict[str, Any] | None = None, **options: Any) -> OpenAIChatModel:
            opened.append(
                OpenAIChatModel(
                    credential=OpenAICredential(api_key="none", base_url=url or engine.url + "/v1"),
                    model="m",
                    **{"max_retries": 0, "client_kwargs": {"max_retries": 0, **(client or {})}, **options},
                )
            )
            stack.push_async_callback(opened[-1].client.close)
            return opened[-1]

        yield make


@pytest.fixture
def make_agent(make_model: MakeModel) -> MakeAgent:
    """``world``: where it has the middleware; ``around`` and ``within``: other middlewares, before and after it."""

    def make(
        session: str,
        world: Any = None,
        *tools: Callable[..., Any],
        asks: bool = False,
        around: tuple[Any, ...] = (),
        within: tuple[Any, ...] = (),
        **options: Any,
    ) -> Agent:
        allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="ok")
        concur = () if world is None else (ConcurMiddleware(world.controller),)
        return Agent(
            **{
                "name": session,
                "system_prompt": "You work.",
                "model": options.pop("model", None) or make_model(),
                "toolkit": Toolkit(
                    tools=[
                        each
                        if isinstance(each, ToolBase)
                        else FunctionTool(each, is_concurrency_safe=True, permission=None if asks else allowed)
                        for each in tools or (work,)
                    ]
                ),
                "middlewares": [*around, *concur, *within],
                "state": AgentState(session_id=session),
                "model_config": ModelConfig(max_retries=0),
                **options,
            }
        )

    return make
