"""The shipped contract for AgentScope 2.x."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from agentscope.agent import Agent, ModelConfig, ReActConfig
from agentscope.credential import OpenAICredential
from agentscope.event import ConfirmResult, UserConfirmResultEvent
from agentscope.message import UserMsg
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from concur_agents.testing import AdapterContract, Scene
from concur_agents_agentscope import ConcurMiddleware

ALLOW = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="ok")


class TestAgentScope2(AdapterContract):
    """By a middleware."""

    title = "AgentScope 2.x"
    packages = ("agentscope",)

    def build(self, scene: Scene, *, asks: bool = False) -> Agent:
        return Agent(
            name="agent",
            system_prompt="You work.",
            model=OpenAIChatModel(
                credential=OpenAICredential(api_key="none", base_url=scene.base_url),
                model=scene.model,
                max_retries=0,
                client_kwargs={"max_retries": 0},
            ),
            toolkit=Toolkit(
                tools=[FunctionTool(scene.tool, is_concurrency_safe=True, permission=None if asks else ALLOW)]
            ),
            middlewares=[ConcurMiddleware(scene.controller)],
            state=AgentState(session_id=scene.agent_id),
            model_config=ModelConfig(max_retries=0),
            react_config=ReActConfig(max_iters=scene.max_steps or 20),
        )

    async def run(self, scene: Scene) -> Any:
        agent = self.build(scene)
        async with agent.model.client:
            return await agent.reply(UserMsg(name="user", content=scene.prompt))

    async def stream(self, scene: Scene) -> AsyncIterator[Any]:
        agent = self.build(scene)
        events = agent.reply_stream(UserMsg(name="user", content=scene.prompt))
        async with agent.model.client, contextlib.aclosing(events):
            async for event in events:
                yield event

    async def ask(self, scene: Scene) -> Callable[[], Any]:
        agent = self.build(scene, asks=True)
        await agent.reply(UserMsg(name="user", content=scene.prompt))
        calls = agent.state.get_awaiting_tool_calls(agent.name)
        assert calls

        async def answer() -> Any:
            results = [ConfirmResult(confirmed=True, tool_call=call) for call in calls]
            async with agent.model.client:
                return await agent.reply(UserConfirmResultEvent(reply_id=agent.state.reply_id, confirm_results=results))

        return answer
