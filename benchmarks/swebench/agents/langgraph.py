"""LangGraph's ``create_agent``, with Concur as one middleware and one wrap.

The two recording middlewares around it only look at the clock, so that waiting for a seat and generating can be told
apart.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from benchmarks.swebench.agents.base import Job, Recorder
from benchmarks.swebench.agents.connections import open_http
from benchmarks.swebench.replay import Script, turn
from concur_agents.usage import TokenUsage
from concur_agents_langgraph import ConcurMiddleware, wrap

__all__ = ["LOGGERS", "PACKAGES", "open_model", "run"]

PACKAGES: tuple[str, ...] = ("concur-agents-langgraph", "langchain", "langchain-openai", "langgraph", "openai")
LOGGERS: tuple[str, ...] = ("concur_agents_langgraph",)


@asynccontextmanager
async def open_model(url: str, name: str) -> AsyncIterator[ChatOpenAI]:
    """A chat model on the engine. LangChain would keep connections of its own, and close none."""
    async with open_http() as http:
        yield ChatOpenAI(
            model=name,
            base_url=f"{url}/v1",
            api_key=SecretStr(os.environ.get("OPENAI_API_KEY", "none")),
            timeout=None,  # an agent that is queued in the engine waits; giving up would load it once more
            max_retries=0,  # an engine's error is to be seen, and an agent's
            http_async_client=http,
        )


async def run(job: Job) -> None:
    """Build the agent and run it to its end. Raises what ended it early."""
    middleware = [_Asked(job.recorder), ConcurMiddleware(job.controller), _Sent(job.recorder, job.max_tokens)]
    if job.replies is not None:
        middleware.append(_Replay(job.replies))
    agent = wrap(
        create_agent(
            job.model, tools=[tool(each) for each in job.tools], system_prompt=job.system_prompt, middleware=middleware
        ),
        job.controller,
    )
    await agent.ainvoke(
        {"messages": [{"role": "user", "content": job.problem}]},
        # A step is two nodes; the recorder counts steps, so this limit only has to be out of the way.
        {"configurable": {"thread_id": job.agent_id}, "recursion_limit": 10 * job.config.max_steps + 10},
    )


class _Asked(AgentMiddleware[Any, Any, Any]):
    """Outside Concur: before the wait for a seat."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Note when the agent asks."""
        self._recorder.ask()
        return await handler(request)


class _Sent(AgentMiddleware[Any, Any, Any]):
    """Inside Concur: after the wait for a seat. Bounds the reply, unless by None."""

    def __init__(self, recorder: Recorder, max_tokens: int | None) -> None:
        super().__init__()
        self._recorder = recorder
        self._bound = {} if max_tokens is None else {"max_tokens": max_tokens}

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Note when the request goes out and when its reply is here."""
        if self._recorder.headers or self._recorder.body or self._bound:
            request = request.override(model_settings=self._marked(request.model_settings))
        async with self._recorder.generating():
            response = await handler(request)
        self._recorder.reply(TokenUsage.of(getattr(response.result[-1], "usage_metadata", None)))
        return response

    def _marked(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """With the bound, and what a proxy knows the agent by."""
        return {
            **settings,
            **self._bound,
            "extra_headers": {**settings.get("extra_headers", {}), **self._recorder.headers},
            "extra_body": {**settings.get("extra_body", {}), **self._recorder.body},
        }


class _Replay(AgentMiddleware[Any, Any, Any]):
    """Says ``replies`` in order, one a generation. Goes innermost, so that everything else sees the scripted reply."""

    def __init__(self, replies: Script) -> None:
        super().__init__()
        self._replies = replies

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Have the engine generate, and say the script's words."""
        said = turn(self._replies, sum(isinstance(message, AIMessage) for message in request.messages))
        settings = request.model_settings
        body = {**settings.get("extra_body", {}), "ignore_eos": True}
        response = await handler(
            request.override(model_settings={**settings, "max_tokens": said.tokens, "extra_body": body})
        )
        generated = response.result[-1]
        message = AIMessage(
            said.content,
            tool_calls=[{"id": call.call_id, "name": call.name, "args": call.arguments} for call in said.calls],
            usage_metadata=getattr(generated, "usage_metadata", None),
            response_metadata=generated.response_metadata,
            id=generated.id,
        )
        return ModelResponse(result=[message])
