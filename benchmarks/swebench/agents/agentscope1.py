"""AgentScope 1.x: a ``ReActAgent``, with Concur installed into it."""

# mypy: disable-error-code="import-not-found,misc"
# The two AgentScope lines exclude each other, so no environment has the types of both.

from __future__ import annotations

import copy
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock, ToolUseBlock
from agentscope.model import ChatResponse, OpenAIChatModel
from agentscope.tool import Toolkit, ToolResponse

from benchmarks.swebench.agents.base import Job, Recorder
from benchmarks.swebench.agents.connections import open_http
from benchmarks.swebench.replay import Script, Turn, turn
from concur_agents.usage import TokenUsage
from concur_agents_agentscope import install

__all__ = ["LOGGERS", "PACKAGES", "open_model", "run"]

PACKAGES: tuple[str, ...] = ("concur-agents-agentscope", "agentscope", "openai")
LOGGERS: tuple[str, ...] = ("concur_agents_agentscope", "as")


@asynccontextmanager
async def open_model(url: str, name: str) -> AsyncIterator[OpenAIChatModel]:
    """A chat model on the engine."""
    model = _Model(
        name,
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
        stream=False,
        # An engine's error is to be seen. An agent that is queued in the engine waits; giving up would load it again.
        client_kwargs={"base_url": f"{url}/v1", "timeout": None, "max_retries": 0, "http_client": open_http()},
    )
    # A client that is left to the garbage collector closes sockets by their numbers, which new ones have by then.
    async with model.client:
        yield model


async def run(job: Job) -> None:
    """Build the agent and run it to its end. Raises what ended it early."""
    toolkit = Toolkit()
    for tool in job.tools:
        toolkit.register_tool_function(_answering(tool))
    agent = ReActAgent(
        name="agent",
        sys_prompt=job.system_prompt,
        model=job.model.watched_by(job),
        formatter=OpenAIChatFormatter(),
        toolkit=toolkit,
        max_iters=job.config.max_steps + 1,  # the recorder counts steps, so this only has to be out of the way
    )
    agent.id = job.agent_id
    agent.set_console_output_enabled(False)
    # Hooks run in the order they are registered: this one before Concur's wait.
    agent.register_instance_hook("pre_reasoning", "asked", lambda *_: job.recorder.ask())
    install(agent, job.controller)
    await agent(Msg("user", job.problem, "user"))


def _answering(tool: Callable[..., Awaitable[str]]) -> Any:
    """The same tool with an answer as AgentScope has them."""

    @functools.wraps(tool)
    async def answering(*args: Any, **kwargs: Any) -> ToolResponse:
        return ToolResponse(content=[TextBlock(type="text", text=await tool(*args, **kwargs))])

    return answering


class _Model(OpenAIChatModel):
    """Lets a recorder see each call from inside Concur, after the wait for a seat."""

    _recorder: Recorder | None = None
    _replies: Script | None = None
    _said = 0

    def watched_by(self, job: Job) -> _Model:
        """The same model, on the same connections, for one agent. It says the job's replies in place of its own."""
        own = copy.copy(self)
        own.generate_kwargs = {**self.generate_kwargs}
        if job.max_tokens is not None:
            own.generate_kwargs["max_tokens"] = job.max_tokens
        own._recorder, own._replies = job.recorder, job.replies
        return own

    async def __call__(self, *args: Any, **kwargs: Any) -> ChatResponse:
        """Note when the request goes out and when its reply is here."""
        if self._recorder is None:
            return await super().__call__(*args, **kwargs)
        if self._recorder.headers or self._recorder.body:
            kwargs["extra_headers"] = {**kwargs.get("extra_headers", {}), **self._recorder.headers}
            kwargs["extra_body"] = {**kwargs.get("extra_body", {}), **self._recorder.body}
        async with self._recorder.generating():
            if self._replies is None:
                response = await super().__call__(*args, **kwargs)
            else:
                said = turn(self._replies, self._said)
                self._said += 1
                body = {**kwargs.pop("extra_body", {}), "ignore_eos": True}
                reply = await super().__call__(*args, max_tokens=said.tokens, extra_body=body, **kwargs)
                response = _says(said, reply)
        self._recorder.reply(TokenUsage.of(response.usage and response.usage.metadata))  # the engine's own, whole
        return response


def _says(said: Turn, generated: ChatResponse) -> ChatResponse:
    """The script's words, with what it cost to generate as many."""
    content: list[Any] = [TextBlock(type="text", text=said.content)] if said.content else []
    content += [ToolUseBlock(type="tool_use", id=c.call_id, name=c.name, input=c.arguments) for c in said.calls]
    return ChatResponse(content=content, usage=generated.usage)
