"""Concur for ``langchain.agents.create_agent``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import EllipsisType
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ModelCallResult
from langgraph.config import get_config

from concur_agents import BaseController
from concur_agents_langgraph.generation import Generation
from concur_agents_langgraph.models import header_of, prepared, reply_usage
from concur_agents_langgraph.runs import current_run

__all__ = ["ConcurMiddleware"]


class ConcurMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Admits the agent before its first model call, pauses it when the reply is there, resumes it for the next.

    The graph it is in has to be wrapped, which is what ends the agent::

        agent = wrap(create_agent(model, tools, middleware=[ConcurMiddleware(concur)]), concur)

    A run without that raises :class:`NotWrappedError` at its first model call. Async runs await their seat, sync runs
    block their own thread for it. Middleware listed before this one (retries, fallbacks) makes each of its attempts a
    step of its own; listed after it, all attempts together are one step.

    For ``ChatOpenAI`` and its subclasses each request also carries the agent's id as a header, and streamed replies
    report their usage even with a ``base_url``. Where there are several engines, it goes to the agent's.

    Args:
        controller: gives out the seats; the same as given to ``wrap``.
        session_header: header for the agent's id, when not the controller's; None sends none (LangChain's LLM cache has
            the headers in its key, so with it agents share no cached replies).
    """

    def __init__(self, controller: BaseController, *, session_header: str | EllipsisType | None = ...) -> None:
        super().__init__()
        self._controller = controller
        self._session_header = header_of(controller, session_header)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelCallResult[Any]:
        """A step in a sync run."""
        with Generation(current_run(self._controller), get_config()) as generation:
            reply = handler(prepared(request, self._controller, generation.agent_id, self._session_header))
            generation.observe(reply_usage(reply))
        return reply

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelCallResult[Any]:
        """A step in an async run."""
        async with Generation(current_run(self._controller), get_config()) as generation:
            reply = await handler(prepared(request, self._controller, generation.agent_id, self._session_header))
            generation.observe(reply_usage(reply))
        return reply
