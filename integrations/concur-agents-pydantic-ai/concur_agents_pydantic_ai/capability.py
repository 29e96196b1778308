# ruff: noqa: ARG002 - hooks have the signatures that they have
"""The capability: a run of a Pydantic AI agent is an agent of Concur's, each of its model requests a step."""

from __future__ import annotations

import copy
import dataclasses
import logging
from typing import Any, Self

from pydantic_ai import (
    AgentRunResult,
    DeferredToolRequests,
    DeferredToolResults,
    ModelResponse,
    ModelSettings,
    RunContext,
)
from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler, WrapRunHandler
from pydantic_ai.models import ModelRequestContext

from concur_agents import BaseController, Outcome, TokenUsage
from concur_agents.adapters import AgentRun
from concur_agents.agents import outcome_of

__all__ = ["ConcurCapability"]

_log = logging.getLogger("concur_agents_pydantic_ai")


class ConcurCapability(AbstractCapability[Any]):
    """Has an agent's runs admitted, paused and resumed. Written against pydantic-ai 2.68.

    ::

        agent = Agent(model, capabilities=[ConcurCapability(controller)])
        await agent.run("Fix the bug", conversation_id="task-17")

    A run is called by its conversation's id, which a run that continues a message history inherits; one that is made up
    is made up by Pydantic AI. Capabilities listed after this one run while the seat is held, those before it do not.

    Args:
        controller: who admits.
    """

    def __init__(self, controller: BaseController) -> None:
        self._controller = controller
        self._telling: set[str | None] = set()
        """Models whose engine is known to report cached tokens; one set for all runs."""
        self._run: AgentRun | None = None
        self._outcome: Outcome | None = None
        """How the run has ended; None while it goes on."""
        self._requesting = 0
        """Model requests that have not."""

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """One of its own for each run."""
        return copy.copy(self)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """The agent, from its run's begin to its end, whatever ends it."""
        self._run = AgentRun(self._controller, ctx.conversation_id, log=_log).__enter__()
        try:
            result = await handler()
            if isinstance(result.output, DeferredToolRequests):
                self._run.suspend()
            self._outcome = Outcome.COMPLETED
            return result
        except BaseException as error:
            self._outcome = outcome_of(error)
            raise
        finally:
            self._leave(self._run)

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        """One step: retries and fallbacks of the request, and its whole stream, are inside."""
        if self._run is None:
            return await handler(request_context)
        self._requesting += 1
        try:
            async with self._run.step() as step:
                response = await handler(_named(request_context, self._run.headers))
                step.observe(self._usage(response))
                return response
        finally:
            self._requesting -= 1
            self._leave(self._run)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Somebody outside is asked: a capability after this one that waits for the answer waits without a seat."""
        if self._run is not None:
            self._run.park()
        return None

    def _leave(self, run: AgentRun) -> None:
        # A run that is cancelled ends before its model request, which may still be queued for a seat: last one out.
        if self._outcome is None or self._requesting:
            return
        if self._outcome is not Outcome.COMPLETED:
            run.finish(self._outcome)
        run.__exit__(None, None, None)

    def _usage(self, response: ModelResponse) -> TokenUsage:
        # An engine that does not report cached tokens and a cache that holds none are both 0 here. Only after a first
        # hit is 0 known to be a count; until then it would look like eviction on an engine that says nothing.
        usage = response.usage
        if usage.cache_read_tokens:
            self._telling.add(response.model_name)
        cached = usage.cache_read_tokens if response.model_name in self._telling else None
        return TokenUsage(prompt=usage.input_tokens or None, cached=cached, output=usage.output_tokens)


def _named(request: ModelRequestContext, headers: dict[str, str]) -> ModelRequestContext:
    """The request with headers that name the agent, unless the user's settings name it, or the model takes none."""
    if "extra_headers" in getattr(request.model, "unsupported_settings", ()):
        return request  # it would warn at each request
    settings = request.model_settings or ModelSettings()
    users = settings.get("extra_headers", {})
    taken = {name.lower() for name in users}
    ours = {name: value for name, value in headers.items() if name.lower() not in taken}
    return dataclasses.replace(request, model_settings={**settings, "extra_headers": {**users, **ours}})
