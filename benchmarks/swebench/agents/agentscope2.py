"""AgentScope 2.x: an ``Agent``, with Concur as one middleware among those that look on."""

# mypy: disable-error-code="import-not-found,misc"
# The two AgentScope lines exclude each other, so no environment has the types of both.

from __future__ import annotations

import functools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from agentscope.agent import Agent, InjectionConfig, ReActConfig
from agentscope.credential import OpenAICredential
from agentscope.message import TextBlock, ToolCallBlock, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatResponse, OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from benchmarks.swebench.agents.base import Job, Recorder
from benchmarks.swebench.agents.connections import open_http
from benchmarks.swebench.replay import Script, turn
from concur_agents.usage import TokenUsage
from concur_agents_agentscope import ConcurMiddleware

__all__ = ["LOGGERS", "PACKAGES", "open_model", "run"]

PACKAGES: tuple[str, ...] = ("concur-agents-agentscope", "agentscope", "openai")
LOGGERS: tuple[str, ...] = ("concur_agents_agentscope", "as")

ALLOWED = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="runs in a sandbox")


@asynccontextmanager
async def open_model(url: str, name: str) -> AsyncIterator[OpenAIChatModel]:
    """A chat model on the engine."""
    model = OpenAIChatModel(
        OpenAICredential(api_key=os.environ.get("OPENAI_API_KEY", "none"), base_url=f"{url}/v1"),
        name,
        stream=False,
        max_retries=0,  # an engine's error is to be seen, and an agent's
        # An agent that is queued in the engine waits; giving up would load it once more.
        client_kwargs={"timeout": None, "max_retries": 0, "http_client": open_http()},
    )
    # A client that is left to the garbage collector closes sockets by their numbers, which new ones have by then.
    async with model.client:
        yield model


async def run(job: Job) -> None:
    """Build the agent and run it to its end. Raises what ended it early."""
    tools = [FunctionTool(tool, permission=ALLOWED) for tool in job.tools]  # else it would ask a person
    agent = Agent(
        name="agent",
        system_prompt=job.system_prompt,
        model=job.model,
        toolkit=Toolkit(tools=tools),
        middlewares=[_Asked(job.recorder), ConcurMiddleware(job.controller), _Sent(job)],
        state=AgentState(session_id=job.agent_id),
        react_config=ReActConfig(
            max_iters=job.config.max_steps + 1,  # the recorder counts steps, so this only has to be out of the way
            interruption_raise_cancelled_error=True,
        ),
        injection_config=InjectionConfig(inject_runtime_state=False),  # the clock in a prompt: no two runs alike
    )
    await agent.reply(UserMsg(name="user", content=job.problem))


class _Asked(MiddlewareBase):
    """Outside Concur: before the wait for a seat."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def on_reasoning(
        self,
        agent: Agent,  # noqa: ARG002 - a middleware
        input_kwargs: Mapping[str, Any],
        next_handler: Callable[..., AsyncIterator[Any]],
    ) -> AsyncIterator[Any]:
        """Note when the agent asks."""
        self._recorder.ask()
        async for event in next_handler(**input_kwargs):
            yield event


class _Sent(MiddlewareBase):
    """Inside Concur: after the wait for a seat. Says the job's replies in place of the model's, if it has any."""

    def __init__(self, job: Job) -> None:
        self._recorder = job.recorder
        self._replies = job.replies
        self._bound = {} if job.max_tokens is None else {"max_completion_tokens": job.max_tokens}
        self._said = 0

    async def on_model_call(
        self,
        agent: Agent,  # noqa: ARG002 - a middleware
        input_kwargs: Mapping[str, Any],
        next_handler: Callable[..., Awaitable[ChatResponse]],
    ) -> ChatResponse:
        """Note when the request goes out and when its reply is here."""
        async with self._recorder.generating():
            if self._recorder.headers or self._recorder.body or self._bound:
                model = functools.partial(
                    input_kwargs["current_model"],
                    **self._bound,
                    extra_headers=self._recorder.headers,
                    extra_body=dict(self._recorder.body),
                )
                input_kwargs = {**input_kwargs, "current_model": model}
            if self._replies is None:
                response = await next_handler(**input_kwargs)
            else:
                response = await self._replay(self._replies, input_kwargs, next_handler)
        usage = response.usage
        self._recorder.reply(
            TokenUsage()
            if usage is None
            else TokenUsage(prompt=usage.input_tokens, cached=usage.cache_input_tokens, output=usage.output_tokens)
        )
        return response

    async def _replay(
        self,
        replies: Script,
        input_kwargs: Mapping[str, Any],
        next_handler: Callable[..., Awaitable[ChatResponse]],
    ) -> ChatResponse:
        """Have the engine generate, and say the script's words."""
        said = turn(replies, self._said)
        self._said += 1
        model = functools.partial(
            input_kwargs["current_model"],
            max_completion_tokens=said.tokens,
            extra_body={**self._recorder.body, "ignore_eos": True},
        )
        response = await next_handler(**{**input_kwargs, "current_model": model})
        content: list[Any] = [TextBlock(text=said.content)] if said.content else []
        content += [ToolCallBlock(id=c.call_id, name=c.name, input=json.dumps(c.arguments)) for c in said.calls]
        return ChatResponse(content=content, is_last=True, usage=response.usage)
