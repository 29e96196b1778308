"""The contract, with the real framework: once awaited, and once blocking in threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

from openai import AsyncOpenAI
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from concur_agents.testing import AdapterContract, Scene
from concur_agents_pydantic_ai import ConcurCapability


def agent_of(scene: Scene, work: Callable[[str], Any], **of_tool: Any) -> tuple[Agent[None, Any], AsyncOpenAI]:
    client = AsyncOpenAI(base_url=scene.base_url, api_key="none", max_retries=0)
    agent = Agent[None, Any](
        OpenAIChatModel(scene.model, provider=OpenAIProvider(openai_client=scene.controller.route(client))),
        output_type=[str, DeferredToolRequests],
        tools=[Tool(work, name="work", **of_tool)],
        capabilities=[ConcurCapability(scene.controller)],
    )
    return agent, client


def options(scene: Scene) -> dict[str, Any]:
    return {"conversation_id": scene.agent_id, "usage_limits": UsageLimits(request_limit=scene.max_steps)}


def answers(asked: Any) -> dict[str, Any]:
    """Yes to all; the history knows its conversation's id."""
    approvals = {call.tool_call_id: True for call in asked.output.approvals}
    results = DeferredToolResults(approvals=approvals)
    return {"message_history": asked.all_messages(), "deferred_tool_results": results}


class TestPydanticAI(AdapterContract):
    title = "pydantic-ai"
    packages = ("pydantic-ai-slim",)
    not_covered: ClassVar = {
        "test_collected_run": "anyio, which runs the framework's tasks, keeps one that never ends alive"
    }

    async def run(self, scene: Scene) -> Any:
        agent, client = agent_of(scene, scene.tool)
        async with client:
            return await agent.run(scene.prompt, **options(scene))

    async def stream(self, scene: Scene) -> AsyncIterator[Any]:
        agent, client = agent_of(scene, scene.tool)
        async with client, agent.run_stream_events(scene.prompt, **options(scene)) as events:
            async for event in events:
                yield event

    async def ask(self, scene: Scene) -> Any:
        agent, client = agent_of(scene, scene.tool, requires_approval=True)
        asked = await agent.run(scene.prompt, **options(scene))

        async def answer() -> Any:
            async with client:
                return await agent.run(**answers(asked))

        return answer


class TestPydanticAIBlocking(AdapterContract):
    title = "pydantic-ai, blocking"
    packages = ("pydantic-ai-slim",)
    not_covered: ClassVar = {
        "test_sub_agents_share_one_seat": "the framework refuses run_sync inside a tool of a run; await run there",
    }

    def run(self, scene: Scene) -> Any:
        agent, client = agent_of(scene, scene.blocking_tool)
        with closing(client):
            return agent.run_sync(scene.prompt, **options(scene))

    def stream(self, scene: Scene) -> Iterator[Any]:
        agent, client = agent_of(scene, scene.blocking_tool)
        with closing(client), agent.run_stream_sync(scene.prompt, **options(scene)) as result:
            yield from result.stream_text()

    def ask(self, scene: Scene) -> Any:
        agent, client = agent_of(scene, scene.blocking_tool, requires_approval=True)
        with closing(client):
            asked = agent.run_sync(scene.prompt, **options(scene))

        def answer() -> Any:
            agent, client = agent_of(scene, scene.blocking_tool, requires_approval=True)
            with closing(client):
                return agent.run_sync(**answers(asked))

        return answer


@contextlib.contextmanager
def closing(client: AsyncOpenAI) -> Iterator[None]:
    """With an event loop for the framework's blocking calls to use, closed at the end, as the client in it."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        try:
            yield
        finally:
            runner.run(client.close())
