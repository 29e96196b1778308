"""Loops written by hand: the decorator with wrapped clients, async and in threads, and the context managers alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ClassVar

import openai

from concur_agents.testing import AdapterContract, Scene

WORK = {
    "name": "work",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
}
TOOLS: Any = [{"type": "function", "function": WORK}]
Messages = list[Any]


class TooManyStepsError(Exception):
    """A loop's own limit."""


def aclient(scene: Scene) -> openai.AsyncOpenAI:
    http = openai.DefaultAsyncHttpxClient(verify=False)  # certificates take longer to load than all the rest
    return openai.AsyncOpenAI(base_url=scene.base_url, api_key="none", max_retries=0, http_client=http)


def client(scene: Scene) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(base_url=scene.base_url, api_key="none", max_retries=0, http_client=http)


def begin(scene: Scene) -> Messages:
    return [{"role": "user", "content": scene.prompt}]


def steps(scene: Scene) -> range:
    return range(100 if scene.max_steps is None else scene.max_steps)


def request(scene: Scene, messages: Messages) -> dict[str, Any]:
    return {"model": scene.model, "messages": messages, "tools": TOOLS}


def take(reply: Any, messages: Messages) -> list[tuple[str, str]]:
    """The reply's tool calls: their ids and what the tool is told."""
    message = reply.choices[0].message
    calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    tool_calls = [
        {"id": each, "type": "function", "function": {"name": name, "arguments": arguments}}
        for each, name, arguments in calls
    ]
    messages.append({"role": "assistant", "content": message.content} | ({"tool_calls": tool_calls} if calls else {}))
    return [(each, json.loads(arguments)["text"]) for each, _, arguments in calls]


async def use_tools(scene: Scene, calls: list[tuple[str, str]], messages: Messages) -> None:
    results = await asyncio.gather(*(scene.tool(text) for _, text in calls))
    for (call, _), result in zip(calls, results, strict=True):
        messages.append({"role": "tool", "tool_call_id": call, "content": result})


def use_blocking_tools(scene: Scene, calls: list[tuple[str, str]], messages: Messages) -> None:
    if len(calls) <= 1:  # in our own thread, where Ctrl-C arrives
        results = [scene.blocking_tool(text) for _, text in calls]
    else:
        with ThreadPoolExecutor(len(calls)) as pool:  # threads know the agent only by a context that is taken along
            futures = [pool.submit(copy_context().run, scene.blocking_tool, text) for _, text in calls]
            results = [future.result() for future in futures]
    for (call, _), result in zip(calls, results, strict=True):
        messages.append({"role": "tool", "tool_call_id": call, "content": result})


def id_of(scene: Scene, *_: object) -> str:
    return scene.agent_id


class TestDecoratorAndWrappedAsyncClient(AdapterContract):
    title = "hand-written: decorator, AsyncOpenAI"
    packages = ("openai",)

    async def run(self, scene: Scene) -> Any:
        concur = scene.controller

        @concur.agent(id_of=id_of)
        async def solve(scene: Scene, llm: openai.AsyncOpenAI) -> str:
            messages = begin(scene)
            for _ in steps(scene):
                reply = await llm.chat.completions.create(**request(scene, messages))
                calls = take(reply, messages)
                if not calls:
                    return str(messages[-1]["content"])
                await use_tools(scene, calls, messages)
            raise TooManyStepsError

        async with concur.wrap_client(aclient(scene)) as llm:
            return await solve(scene, llm)

    async def stream(self, scene: Scene) -> AsyncGenerator[Any, None]:
        concur = scene.controller

        @concur.agent(id_of=id_of)
        async def solve(scene: Scene) -> AsyncGenerator[Any, None]:
            messages, calls = begin(scene), [("", "")]
            async with concur.wrap_client(aclient(scene)) as llm:
                while calls:
                    async with llm.chat.completions.stream(**request(scene, messages)) as stream:
                        async for event in stream:
                            yield event
                        calls = take(await stream.get_final_completion(), messages)
                    await use_tools(scene, calls, messages)

        async for event in solve(scene):
            yield event

    async def ask(self, scene: Scene) -> Callable[[], Awaitable[Any]]:
        concur = scene.controller

        @concur.agent(id_of=id_of)
        async def solve(scene: Scene, messages: Messages, calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
            await use_tools(scene, calls, messages)
            async with concur.wrap_client(aclient(scene)) as llm:
                calls = take(await llm.chat.completions.create(**request(scene, messages)), messages)
            agent = concur.current_agent()
            assert agent is not None
            if calls:
                agent.suspend()
            return calls

        messages = begin(scene)
        calls = await solve(scene, messages, [])
        return lambda: solve(scene, messages, calls)


class TestDecoratorAndWrappedClientInThreads(AdapterContract):
    title = "hand-written: decorator, OpenAI in threads"
    packages = ("openai",)

    def run(self, scene: Scene) -> Any:
        concur = scene.controller

        @concur.agent(id_of=id_of)
        def solve(scene: Scene) -> str:
            messages = begin(scene)
            with concur.wrap_client(client(scene)) as llm:
                for _ in steps(scene):
                    calls = take(llm.chat.completions.create(**request(scene, messages)), messages)
                    if not calls:
                        return str(messages[-1]["content"])
                    use_blocking_tools(scene, calls, messages)
            raise TooManyStepsError

        return solve(scene)

    def stream(self, scene: Scene) -> Generator[Any, None, None]:
        concur = scene.controller

        @concur.agent(id_of=id_of)
        def solve(scene: Scene) -> Generator[Any, None, None]:
            messages, calls = begin(scene), [("", "")]
            with concur.wrap_client(client(scene)) as llm:
                while calls:
                    with llm.chat.completions.stream(**request(scene, messages)) as stream:
                        yield from stream
                        calls = take(stream.get_final_completion(), messages)
                    use_blocking_tools(scene, calls, messages)

        yield from solve(scene)

    def ask(self, scene: Scene) -> Callable[[], Any]:
        concur = scene.controller

        @concur.agent(id_of=id_of)
        def solve(scene: Scene, messages: Messages, calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
            use_blocking_tools(scene, calls, messages)
            with concur.wrap_client(client(scene)) as llm:
                calls = take(llm.chat.completions.create(**request(scene, messages)), messages)
            agent = concur.current_agent()
            assert agent is not None
            if calls:
                agent.suspend()
            return calls

        messages = begin(scene)
        calls = solve(scene, messages, [])
        return lambda: solve(scene, messages, calls)


class TestContextManagers(AdapterContract):
    title = "hand-written: context managers"
    packages = ("openai",)
    not_covered: ClassVar = {
        "test_goes_on_without_a_closed_controller": "the context managers raise ControllerClosedError: yours to catch"
    }

    async def run(self, scene: Scene) -> Any:
        messages = begin(scene)
        async with aclient(scene) as client, scene.controller.agent(scene.agent_id) as agent:
            llm = scene.controller.route(client)
            for _ in steps(scene):
                async with agent.step() as step:
                    reply = await llm.chat.completions.create(**request(scene, messages), extra_headers=agent.headers)
                    step.observe(reply.usage)
                calls = take(reply, messages)
                if not calls:
                    return messages[-1]["content"]
                await use_tools(scene, calls, messages)
            raise TooManyStepsError

    async def stream(self, scene: Scene) -> AsyncGenerator[Any, None]:
        messages, calls = begin(scene), [("", "")]
        async with aclient(scene) as client, scene.controller.agent(scene.agent_id) as agent:
            llm = scene.controller.route(client)
            while calls:
                async with (
                    agent.step() as step,
                    llm.chat.completions.stream(
                        **request(scene, messages),
                        extra_headers=agent.headers,
                        stream_options={"include_usage": True},
                    ) as stream,
                ):
                    async for event in stream:
                        yield event
                    reply = await stream.get_final_completion()
                    step.observe(reply.usage)
                calls = take(reply, messages)
                await use_tools(scene, calls, messages)

    async def ask(self, scene: Scene) -> Callable[[], Awaitable[Any]]:
        async def solve(messages: Messages, calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
            async with aclient(scene) as llm, scene.controller.agent(scene.agent_id) as agent:
                await use_tools(scene, calls, messages)
                async with agent.step():
                    reply = await llm.chat.completions.create(**request(scene, messages), extra_headers=agent.headers)
                calls = take(reply, messages)
                if calls:
                    agent.suspend()
                return calls

        messages = begin(scene)
        calls = await solve(messages, [])
        return lambda: solve(messages, calls)
