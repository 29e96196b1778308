"""The contract, with the real SDK: once awaited, and once blocking in threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, function_tool
from openai import AsyncOpenAI

from concur_agents.testing import AdapterContract, Scene
from concur_agents_openai_agents import ConcurRunner


def agent_of(scene: Scene, work: Callable[[str], Any], **of_tool: Any) -> tuple[Agent[Any], AsyncOpenAI]:
    client = AsyncOpenAI(base_url=scene.base_url, api_key="none", max_retries=0)
    model = OpenAIChatCompletionsModel(model=scene.model, openai_client=scene.controller.route(client))
    return Agent(name="Worker", model=model, tools=[function_tool(work, **of_tool)]), client


def runner_of(scene: Scene) -> ConcurRunner:
    return ConcurRunner(scene.controller, agent_id=scene.agent_id)


def options(scene: Scene) -> dict[str, Any]:
    limit = {} if scene.max_steps is None else {"max_turns": scene.max_steps}
    return {"run_config": RunConfig(tracing_disabled=True), **limit}


def yes(asked: Any) -> Any:
    state = asked.to_state()
    for question in asked.interruptions:
        state.approve(question)
    return state


class TestOpenAIAgents(AdapterContract):
    title = "OpenAI Agents SDK"
    packages = ("openai-agents",)

    async def run(self, scene: Scene) -> Any:
        agent, client = agent_of(scene, scene.tool)
        async with client:
            return await runner_of(scene).run(agent, scene.prompt, **options(scene))

    async def stream(self, scene: Scene) -> AsyncIterator[Any]:
        agent, client = agent_of(scene, scene.tool)
        async with client:
            result = runner_of(scene).run_streamed(agent, scene.prompt, **options(scene))
            try:
                async for event in result.stream_events():
                    yield event
            finally:
                result.cancel()  # else the run goes on without a reader

    async def ask(self, scene: Scene) -> Any:
        agent, client = agent_of(scene, scene.tool, needs_approval=True)
        asked = await runner_of(scene).run(agent, scene.prompt, **options(scene))

        async def answer() -> Any:
            async with client:
                return await runner_of(scene).run(agent, yes(asked), **options(scene))

        return answer


class TestOpenAIAgentsBlocking(AdapterContract):
    title = "OpenAI Agents SDK, blocking"
    packages = ("openai-agents",)
    not_covered: ClassVar = {
        "test_abandoned_stream": "the SDK has no blocking streams",
    }

    def run(self, scene: Scene) -> Any:
        agent, client = agent_of(scene, scene.blocking_tool)
        with closing(client):
            return runner_of(scene).run_sync(agent, scene.prompt, **options(scene))

    def ask(self, scene: Scene) -> Any:
        agent, client = agent_of(scene, scene.blocking_tool, needs_approval=True)
        with closing(client):
            asked = runner_of(scene).run_sync(agent, scene.prompt, **options(scene))

        def answer() -> Any:
            again, client = agent_of(scene, scene.blocking_tool)
            agent.model = again.model  # of this event loop
            with closing(client):
                return runner_of(scene).run_sync(agent, yes(asked), **options(scene))

        return answer


@contextlib.contextmanager
def closing(client: AsyncOpenAI) -> Iterator[None]:
    """With an event loop for the SDK's blocking calls to use, closed at the end, as the client in it."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        try:
            yield
        finally:
            runner.run(client.close())
