"""The smallest agent framework there is, and its adapter: what the contract's own tests run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai

from concur_agents.adapters import AgentRun
from concur_agents.routing import at_engine
from concur_agents.testing import AdapterContract, Scene

PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS: Any = [{"type": "function", "function": {"name": "work", "parameters": PARAMETERS}}]


class LimitError(Exception):
    """Still not done."""


class Conversation:
    """Messages so far."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.messages: Any = [{"role": "user", "content": scene.prompt}]
        self.calls: list[Any] = []

    def request(self, run: AgentRun) -> dict[str, Any]:
        return {
            "model": self.scene.model,
            "messages": self.messages,
            "tools": TOOLS,
            "extra_headers": run.headers,
        }

    def replied(self, reply: Any) -> bool:
        """Whether there are tools to call."""
        message = reply.choices[0].message
        self.messages.append(message.model_dump(exclude_none=True))
        self.calls = message.tool_calls or []
        return bool(self.calls)

    def texts(self) -> list[str]:
        return [json.loads(call.function.arguments)["text"] for call in self.calls]

    def results(self, results: list[str]) -> None:
        for call, result in zip(self.calls, results, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


class Awaiting(AdapterContract):
    """The async form; broken adapters differ from it in one method."""

    begin = AgentRun

    async def generate(self, run: AgentRun, client: openai.AsyncOpenAI, talk: Conversation) -> Any:
        async with run.step() as step:
            reply = await client.chat.completions.create(**talk.request(run))
            step.observe(reply.usage)
            return reply

    async def work(self, run: AgentRun, talk: Conversation) -> list[str]:
        return list(await asyncio.gather(*(talk.scene.tool(text) for text in talk.texts())))

    async def loop(self, talk: Conversation, *, asks: bool = False) -> AsyncIterator[Any]:
        scene = talk.scene
        with self.begin(scene.controller, scene.agent_id) as run:
            async with openai.AsyncOpenAI(base_url=scene.base_url, api_key="none", max_retries=0) as client:
                model = self.route(client, scene)
                for _ in range(scene.max_steps or 100):
                    if talk.calls:
                        talk.results(await self.work(run, talk))
                    reply = await self.generate(run, model, talk)
                    yield reply
                    if not talk.replied(reply):
                        return
                    if asks:
                        self.wait_for_person(run)
                        return
                raise LimitError

    def route(self, client: openai.AsyncOpenAI, scene: Scene) -> openai.AsyncOpenAI:
        return at_engine(client, scene.controller)

    def wait_for_person(self, run: AgentRun) -> None:
        run.suspend()

    async def run(self, scene: Scene) -> Any:
        return [reply async for reply in self.loop(Conversation(scene))]

    async def stream(self, scene: Scene) -> AsyncIterator[Any]:
        replies = self.loop(Conversation(scene))
        try:
            async for reply in replies:
                yield reply
        finally:
            await replies.aclose()  # type: ignore[attr-defined]

    async def ask(self, scene: Scene) -> Any:
        talk = Conversation(scene)
        async for _ in self.loop(talk, asks=True):
            pass

        async def answer() -> Any:
            return [reply async for reply in self.loop(talk)]

        return answer


class Blocking(AdapterContract):
    """The form for threads."""

    def loop(self, talk: Conversation, *, asks: bool = False) -> Iterator[Any]:
        scene = talk.scene
        with (
            AgentRun(scene.controller, scene.agent_id) as run,
            openai.OpenAI(base_url=scene.base_url, api_key="none", max_retries=0) as client,
        ):
            model = at_engine(client, scene.controller)
            for _ in range(scene.max_steps or 100):
                if talk.calls:
                    talk.results([scene.blocking_tool(text) for text in talk.texts()])
                with run.step() as step:
                    reply = model.chat.completions.create(**talk.request(run))
                    step.observe(reply.usage)
                yield reply
                if not talk.replied(reply):
                    return
                if asks:
                    run.suspend()
                    return
            raise LimitError

    def run(self, scene: Scene) -> Any:
        return list(self.loop(Conversation(scene)))

    def stream(self, scene: Scene) -> Iterator[Any]:
        yield from self.loop(Conversation(scene))

    def ask(self, scene: Scene) -> Any:
        talk = Conversation(scene)
        for _ in self.loop(talk, asks=True):
            pass
        return lambda: list(self.loop(talk))
