"""The shipped contract for AgentScope 1.x."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from agentscope.agent import ReActAgent, UserAgent, UserInputBase
from agentscope.agent._user_input import UserInputData
from agentscope.formatter import OpenAIChatFormatter
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg, TextBlock
from agentscope.model import OpenAIChatModel
from agentscope.pipeline import stream_printing_messages
from agentscope.tool import Toolkit, ToolResponse

from concur_agents.testing import AdapterContract, Scene
from concur_agents_agentscope import install


class TestAgentScope1(AdapterContract):
    """By ``install``."""

    title = "AgentScope 1.x"
    packages = ("agentscope",)

    def build(self, scene: Scene, person: UserAgent | None = None) -> ReActAgent:
        async def work(text: str) -> ToolResponse:
            """Do some work.

            Args:
                text (str): what to do
            """
            if person is not None:
                assert (await person()).get_text_content() == "yes"
            return ToolResponse(content=[TextBlock(type="text", text=await scene.tool(text))])

        toolkit = Toolkit()
        toolkit.register_tool_function(work)
        agent = ReActAgent(
            name="agent",
            sys_prompt="You work.",
            model=OpenAIChatModel(
                scene.model,
                api_key="none",
                client_kwargs={"base_url": scene.base_url, "max_retries": 0},
            ),
            formatter=OpenAIChatFormatter(),
            toolkit=toolkit,
            memory=InMemoryMemory(),
            parallel_tool_calls=True,
            max_iters=scene.max_steps or 20,
        )
        agent.id = scene.agent_id
        agent.set_console_output_enabled(False)
        return install(agent, scene.controller)

    async def run(self, scene: Scene) -> Any:
        agent = self.build(scene)
        async with agent.model.client:
            return await agent(Msg("user", scene.prompt, "user"))

    async def stream(self, scene: Scene) -> AsyncIterator[Any]:
        agent = self.build(scene)
        messages = stream_printing_messages([agent], agent(Msg("user", scene.prompt, "user")))
        async with agent.model.client, contextlib.aclosing(messages):
            async for message in messages:
                yield message

    async def ask(self, scene: Scene) -> Callable[[], Any]:
        person, asked = UserAgent("person"), Asked()
        person.override_instance_input_method(asked)
        person.set_console_output_enabled(False)
        agent = self.build(scene, person)

        async def run() -> Any:
            async with agent.model.client:
                return await agent(Msg("user", scene.prompt, "user"))

        running = asyncio.create_task(run())
        await asked.now.wait()

        async def answer() -> Any:
            asked.answer.set_result("yes")
            return await running

        return answer


class Asked(UserInputBase):
    """A person who thinks until the test has an answer."""

    def __init__(self) -> None:
        self.now = asyncio.Event()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self, *args: Any, **kwargs: Any) -> UserInputData:
        self.now.set()
        return UserInputData(blocks_input=[TextBlock(type="text", text=await self.answer)])
